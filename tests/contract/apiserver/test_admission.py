# SPDX-License-Identifier: Apache-2.0
"""manifests/admission on a real kube-apiserver: the runner's own requests pass, and the policies
deny everything else.

The lab evaluates no admission policies. Without KUBEBUILDER_ASSETS (a folder with a real server)
this file is skipped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.product import MANIFESTS
from tests.contract.apiserver.holding import ADMIN, Server
from tests.contract.apiserver.servers import USERS, missing_binaries, real_server

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
SPACES = "/api/v1/namespaces"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
IN_FORCE = 60.0
"""s. The API server enforces a policy some seconds after its creation."""
BEYOND = "the runner of conformance tests changes nothing beyond namespaces calico-demo-..."
SECURITY = "a namespace of conformance tests enforces Pod Security baseline"
LABEL = "the label calico-conformance/run is set by conformance tests alone"
PREFIX = "namespaces calico-demo-... are made by conformance tests alone"
OWN = "calico-demo-3f2a1c-gw0"
TENANT = "alice-token"
PRIVILEGED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}


@dataclass
class Cluster:
    """The server with the roles, and the token of the runner."""

    server: Server
    runner: str = ""

    def ask(
        self, token: str, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """Return the status and the body of an answer."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        code, _, answer = self.server.send(method, path, data, headers)
        return code, json.loads(answer) if answer.startswith(b"{") else answer.decode(
            errors="replace"
        )

    def make(self, path: str, obj: dict[str, Any]) -> Any:
        """Create an object as administrator, or find it made."""
        code, answer = self.ask(ADMIN, "POST", path, obj)
        assert code in (201, 409), answer
        return answer


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def own(name: str, enforce: str = "baseline") -> dict[str, Any]:
    return namespace(
        name, **{"pod-security.kubernetes.io/enforce": enforce, "calico-conformance/run": "3f2a1c"}
    )


def config(name: str = "probes") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def secret(name: str, sort: str = "kubernetes.io/dockerconfigjson") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": sort,
            "stringData": {".dockerconfigjson": "{}"}}  # fmt: skip


def policy(name: str) -> dict[str, Any]:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not ASSETS:
        pytest.skip(
            "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver (make kube-binaries makes one)"
        )
    if missing := missing_binaries(Path(ASSETS)):
        pytest.fail(f"KUBEBUILDER_ASSETS={ASSETS} lacks {', '.join(missing)}")
    with real_server(Path(ASSETS), tmp_path_factory.mktemp("real")) as server:
        one = Cluster(server)
        prepare(one)
        yield one


def prepare(one: Cluster) -> None:
    """Roles standard and pull-secrets with their user, a tenant who may make and label namespaces, and the policies."""
    for name in ("calico-conformance", "victim", "calico-demo-of-an-owner"):
        one.make(SPACES, namespace(name))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"}}
    one.make(f"{SPACES}/calico-conformance/serviceaccounts", account)
    granted = [yaml.safe_load((MANIFESTS / "rbac" / "standard.yaml").read_text())]
    granted += [doc for doc in yaml.safe_load_all((MANIFESTS / "rbac" / "pull-secrets.yaml").read_text())
                if doc["kind"] == "ClusterRole"]  # fmt: skip
    subject = {"kind": "ServiceAccount", "name": "runner", "namespace": "calico-conformance"}
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "patch"]}]
    tenants = {
        "apiVersion": RBAC[6:],
        "kind": "ClusterRole",
        "metadata": {"name": "tenants"},
        "rules": rules,
    }
    for role in (*granted, tenants):
        who = {"kind": "User", "name": USERS[TENANT][0]} if role is tenants else subject
        one.make(f"{RBAC}/clusterroles", role)
        one.make(f"{RBAC}/clusterrolebindings", {
            "apiVersion": RBAC[6:], "kind": "ClusterRoleBinding", "metadata": {"name": role["metadata"]["name"]},
            "roleRef": {"apiGroup": RBAC[6:-3], "kind": "ClusterRole", "name": role["metadata"]["name"]},
            "subjects": [who],
        })  # fmt: skip
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    answer = one.make(f"{SPACES}/calico-conformance/serviceaccounts/runner/token", asked)
    one.runner = answer["status"]["token"]
    # what RBAC alone lets the runner do, so that a denial below is the policies'
    assert one.ask(one.runner, "POST", f"{SPACES}/victim/configmaps", config("before"))[0] == 201
    assert (
        one.ask(TENANT, "POST", SPACES, namespace("tenant", **{"calico-conformance/run": "mine"}))[
            0
        ]
        == 201
    )
    for document in yaml.safe_load_all((MANIFESTS / "admission" / "standard.yaml").read_text()):
        plural = "validatingadmissionpolicies" if document["kind"].endswith("Policy") else (
            "validatingadmissionpolicybindings"
        )  # fmt: skip
        one.make(f"{ADMISSION}/{plural}", document)
    deadline = time.monotonic() + IN_FORCE
    tried = {
        one.runner: (f"{SPACES}/victim/configmaps", config("later")),
        TENANT: (SPACES, namespace("calico-demo-later")),
    }
    for token, (path, obj) in tried.items():
        while one.ask(token, "POST", f"{path}?dryRun=All", obj)[0] == 201:
            assert time.monotonic() < deadline, "no policy came into force"
            time.sleep(0.5)
    while one.ask(one.runner, "POST", f"{SPACES}/{OWN}/secrets?dryRun=All", secret("db"))[0] == 201:
        assert time.monotonic() < deadline, "the policy of pull secrets did not come into force"
        time.sleep(0.5)


def test_no_policy_has_an_expression_that_the_api_server_doubts(cluster: Cluster) -> None:
    code, answer = cluster.ask(ADMIN, "GET", f"{ADMISSION}/validatingadmissionpolicies")
    warnings = [
        item["status"]["typeChecking"]
        for item in answer["items"]
        if item.get("status", {}).get("typeChecking")
    ]
    assert (
        code,
        len(answer["items"]),
        [one for one in warnings if one.get("expressionWarnings")],
    ) == (200, 3, [])


def test_the_runner_works_in_its_own_namespaces(cluster: Cluster) -> None:
    ask, runner = cluster.ask, cluster.runner
    for made in (own(OWN), own(f"{OWN}-host", "privileged")):
        assert ask(runner, "POST", SPACES, made)[0] == 201
    inside = f"{SPACES}/{OWN}"
    assert ask(runner, "POST", f"{inside}/configmaps", config())[0] == 201
    assert (
        ask(
            runner,
            "PATCH",
            f"{inside}/configmaps/probes",
            {"data": {"a": "b"}},
            "application/merge-patch+json",
        )[0]
        == 200
    )
    path = f"/apis/networking.k8s.io/v1/namespaces/{OWN}/networkpolicies"
    assert ask(runner, "POST", path, policy("deny"))[0] == 201
    assert ask(runner, "DELETE", f"{path}/deny")[0] == 200
    assert (
        ask(
            runner,
            "PATCH",
            inside,
            {"metadata": {"labels": {"team": "a"}}},
            "application/merge-patch+json",
        )[0]
        == 200
    )
    code, answer = ask(runner, "POST", f"{inside}/pods/none/exec?command=true&stdout=true")
    assert (code, "not found" in json.dumps(answer)) == (404, True), answer
    asked = {"verb": "create", "resource": "pods", "namespace": "victim"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    assert (
        ask(runner, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)[0]
        == 201
    )
    assert ask(runner, "DELETE", f"{inside}-host")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "why"),
    [
        ("POST", SPACES, own("innocent"), BEYOND),
        ("POST", SPACES, own("calico-demo-3f2a1c-gw1", "privileged"), SECURITY),
        ("POST", SPACES, namespace("calico-demo-3f2a1c-gw1"), SECURITY),
        ("PATCH", f"{SPACES}/victim", PRIVILEGED, BEYOND),
        ("PATCH", f"{SPACES}/calico-demo-of-an-owner", PRIVILEGED, SECURITY),
        ("DELETE", f"{SPACES}/victim", None, BEYOND),
        ("POST", f"{SPACES}/kube-system/configmaps", config(), BEYOND),
        ("PATCH", f"{SPACES}/victim/configmaps/before", {"data": {"a": "b"}}, BEYOND),
        ("POST", f"{SPACES}/victim/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                                           "spec": {"containers": [{"name": "c", "image": "i"}]}}, BEYOND),
        ("DELETE", f"{SPACES}/victim/pods/none", None, ""),
        ("POST", f"{SPACES}/kube-system/pods/none/exec?command=true&stdout=true", None, BEYOND),
        ("POST", "/apis/apps/v1/namespaces/kube-system/daemonsets", {"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}, BEYOND),
        ("POST", "/apis/networking.k8s.io/v1/namespaces/victim/networkpolicies", policy("deny"), BEYOND),
        ("POST", f"{SPACES}/victim/secrets", secret("regcred"), BEYOND),
    ],
)  # fmt: skip
def test_the_runner_is_kept_from_everything_else(
    cluster: Cluster, method: str, path: str, body: Any, why: str
) -> None:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    code, answer = cluster.ask(cluster.runner, method, path, body, kind)
    if not why:  # there is nothing to delete, and nothing is asked of admission
        assert code == 404, answer
        return
    assert code in (403, 422), answer
    assert why in answer["message"], answer
    assert "ValidatingAdmissionPolicy 'calico-conformance-" in answer["message"], answer


@pytest.mark.parametrize(
    ("name", "sort", "code"),
    [
        ("regcred", "kubernetes.io/dockerconfigjson", 201),
        ("regcred-2", "kubernetes.io/dockerconfigjson", 201),
        ("regcred-10", "kubernetes.io/dockerconfigjson", 422),
        ("db", "kubernetes.io/dockerconfigjson", 422),
        ("xregcred", "kubernetes.io/dockerconfigjson", 422),
        ("regcred-3", "Opaque", 422),
        ("regcred-4", "kubernetes.io/service-account-token", 422),
    ],
)
def test_the_runner_creates_pull_secrets_of_the_names_that_are_listed(
    cluster: Cluster, name: str, sort: str, code: int
) -> None:
    cluster.make(SPACES, own(OWN))
    body = secret(name, sort)
    if sort.endswith("-token"):
        body["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "default"}
    found, answer = cluster.ask(cluster.runner, "POST", f"{SPACES}/{OWN}/secrets", body)
    assert found == code, answer
    assert (
        code == 201
        or "ValidatingAdmissionPolicy 'calico-conformance-pull-secrets'" in answer["message"]
    )


def test_who_creates_secrets_alone_reads_none(cluster: Cluster) -> None:
    cluster.make(SPACES, own(OWN))
    cluster.make(f"{SPACES}/{OWN}/secrets", secret("held"))
    path = f"{SPACES}/{OWN}/secrets/held"
    tried = [("GET", None), ("PATCH", {}), ("PUT", secret("held")), ("DELETE", None)]
    codes = [cluster.ask(cluster.runner, method, path, body, "application/merge-patch+json" if method == "PATCH" else
                         "application/json")[0] for method, body in tried]  # fmt: skip
    assert codes == [403, 403, 403, 403]


def test_a_tenant_takes_neither_the_label_nor_the_prefix(cluster: Cluster) -> None:
    merge = "application/merge-patch+json"
    label = {"metadata": {"labels": {"calico-conformance/run": "3f2a1c"}}}
    assert cluster.ask(TENANT, "POST", SPACES, namespace("plain"))[0] == 201
    assert (
        cluster.ask(
            TENANT, "PATCH", f"{SPACES}/plain", {"metadata": {"labels": {"a": "b"}}}, merge
        )[0]
        == 200
    )
    for method, path, body, why in (
        ("PATCH", f"{SPACES}/plain", label, LABEL),
        ("POST", SPACES, namespace("labelled", **{"calico-conformance/run": "x"}), LABEL),
        ("POST", SPACES, namespace("calico-demo-of-a-tenant"), PREFIX),
    ):
        code, answer = cluster.ask(
            TENANT, method, path, body, merge if method == "PATCH" else "application/json"
        )
        assert (code, why in answer["message"]) == (422, True), answer
