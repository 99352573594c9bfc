# SPDX-License-Identifier: Apache-2.0
"""A user of the suite's own on a cluster, and a kubeconfig with its token and nothing of who made
it.

It is what ``kubectl apply -f manifests/rbac``, ``create token`` and a kubeconfig written by hand
come to.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from conformance import product
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.manifest import load
from conformance.kube.ownership import Shared
from conformance.kube.prepared import BASELINE, needed

ROLES = ("standard", "read-only", "disruptive")
"""Roles of ``manifests/rbac``, of which a user has one; the first by default."""
BESIDE = ("calicoctl", "pull-secrets", "rancher")
"""What a user may have beside it."""
PREPARED = "prepared"
"""The role in namespaces that the cluster's owner has prepared."""
PREPARED_LABEL = "calico-conformance/prepared"
"""On these namespaces, by which they are removed together; nothing else reads it."""
NAMESPACE = "calico-conformance"
RBAC = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A ServiceAccount that was given its roles, with a token."""

    name: str
    token: str
    ends: datetime


def runner(kube: Kube, account: str, objects: Iterable[Obj], seconds: int) -> Runner:
    """Make what gives a ServiceAccount its roles, and ask for a token of so many seconds.

    Raises ApiRefused, ApiUnreachable.
    """
    changes = Changes(kube, Shared(account))
    for obj in objects:
        changes.apply(
            obj,
            "a user to run the suite as",
            namespace=obj["metadata"].get("namespace"),
            foreign=True,
        )
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    status = kube.request("POST", path, body=asked)["status"]
    ends = datetime.fromisoformat(str(status["expirationTimestamp"]).replace("Z", "+00:00"))
    return Runner(name=account, token=status["token"], ends=ends)


def kubeconfig(kube: Kube, user: Runner) -> str:
    """As YAML: the way to the cluster as ``kube`` goes it, and the user's token."""
    configuration = kube.access.configuration
    cluster: Obj = {"server": kube.access.server}
    authority = (configuration.ca_cert_data or "").encode()
    if configuration.ssl_ca_cert:
        authority = Path(configuration.ssl_ca_cert).read_bytes()
    cluster |= (
        {"certificate-authority-data": base64.b64encode(authority).decode()} if authority else {}
    )
    if not configuration.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    for key, value in (
        ("tls-server-name", configuration.tls_server_name),
        ("proxy-url", configuration.proxy),
    ):
        cluster |= {key: value} if value else {}
    context = {"cluster": NAMESPACE, "user": user.name}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAMESPACE,
        "clusters": [{"name": NAMESPACE, "cluster": cluster}],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [{"name": NAMESPACE, "context": context}],
    }
    return str(yaml.safe_dump(content, sort_keys=False))


def user_of(role: str, beside: Sequence[str]) -> tuple[str, list[Obj]]:
    """The ServiceAccount of a role, and what makes it and binds the role and those beside it.

    Who already has a user of another role gets a second one.
    """
    account = "runner" if role == ROLES[0] else f"runner-{role}"
    return account, list(_objects(account, role, beside))


def user_of_prefix(prefix: str, workers: int) -> tuple[str, list[Obj]]:
    """The ServiceAccount of runs with ``--namespaces-prefix``, and what makes it, their namespaces
    and its roles there.

    Raises UsageProblem where no names can begin so.
    """
    account = f"runner-{prefix}"
    found = list(_objects(account, "read-only", ()))
    for granted in load(product.MANIFESTS / "rbac" / f"{PREPARED}.yaml"):
        found.append(granted)
        for name, labels in needed(prefix, workers).items():
            own = {**BASELINE, **labels, PREPARED_LABEL: prefix}
            found.append(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": own}}
            )
            found.append(
                _binding({"name": f"{NAMESPACE}-{account}", "namespace": name}, granted, account)
            )
    return account, found


def _objects(account: str, role: str, beside: Sequence[str]) -> Iterator[Obj]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": account, "namespace": NAMESPACE},
    }
    for name in (role, *beside):
        for granted in load(product.MANIFESTS / "rbac" / f"{name}.yaml"):
            yield granted
            if granted["kind"].endswith("Role"):
                bound = f"{NAMESPACE}-{account}" + (f"-{name}" if name != role else "")
                yield _binding({**granted["metadata"], "name": bound}, granted, account)


def _binding(meta: Obj, role: Obj, account: str) -> Obj:
    """Of a role to a ServiceAccount, in a namespace where ``meta`` has one."""
    return {
        "apiVersion": RBAC,
        "kind": "RoleBinding" if "namespace" in meta else "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role["kind"],
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }
