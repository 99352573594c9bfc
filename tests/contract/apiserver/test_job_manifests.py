# SPDX-License-Identifier: Apache-2.0
"""A real kube-apiserver accepts everything that ``calico-conformance job`` prints, and its
namespace accepts no less secure pod.

The lab accepts no Jobs. Without KUBEBUILDER_ASSETS (a folder with a real server) this file is
skipped.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.cli import main
from conformance.kube.runner import BESIDE
from tests.contract.apiserver.holding import ADMIN, Server
from tests.contract.apiserver.servers import missing_binaries, real_server, write_kubeconfig

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
NAMESPACE = "calico-conformance"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs?dryRun=All"
OPTIONS: dict[str, list[str]] = {
    "standard": [],
    "read-only": ["--role=read-only"],
    "disruptive": [
        "--role=disruptive", "--", "--allow-cluster-disruptive", "--every-node",
    ],
    "roles-beside": [f"--with={role}" for role in BESIDE],
    "volume": ["--volume=results"],
    "node-and-secrets": ["--node=linux-1", "--image-pull-secret=a", "--image-pull-secret=b"],
    "shard": ["--", "--shard=1/3"],
    "prepared": ["--namespaces-prefix=lane", "--workers=3"],
    "files": ["--", "--images={images}"],
    "restore": ["--role=disruptive", "--", "--restore", "--run=3f2a1c"],
}  # fmt: skip


@dataclass
class Cluster:
    """The server, and a kubeconfig of its administrator."""

    server: Server
    kubeconfig: Path

    def kubectl(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", f"--kubeconfig={self.kubeconfig}", *words],
            input=stdin, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def post(self, path: str, obj: dict[str, Any]) -> tuple[int, str, str]:
        """Return status, warning and body of the answer to a creation."""
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        code, answer, body = self.server.send("POST", path, json.dumps(obj).encode(), headers)
        return code, answer.get("Warning", ""), body.decode()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not ASSETS:
        pytest.skip(
            "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver "
            "(make kube-binaries makes one)"
        )
    if missing := missing_binaries(Path(ASSETS)):
        pytest.fail(f"KUBEBUILDER_ASSETS={ASSETS} lacks {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("real")
    with real_server(Path(ASSETS), folder) as server:
        write_kubeconfig(folder / "admin.yaml", server.url, folder / "ca.pem")
        yield Cluster(server, folder / "admin.yaml")


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What ``calico-conformance job`` prints."""
    (tmp_path / "images.yaml").write_text("{}\n")

    def job(*words: str) -> str:
        given = [word.format(images=tmp_path / "images.yaml") for word in words]
        assert main(["job", "--image=registry.example/calico-conformance:0.1.0", *given]) == 0
        return capsys.readouterr().out

    return job


def pod_of(text: str) -> dict[str, Any]:
    """Return the pod that the Job's controller would make."""
    (job,) = (obj for obj in yaml.safe_load_all(text) if obj["kind"] == "Job")
    template = copy.deepcopy(job["spec"]["template"])
    template["metadata"]["name"] = f"{job['metadata']['name']}-x"
    return {"apiVersion": "v1", "kind": "Pod", **template}


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_printed_is_applied_without_a_warning_and_its_pod_is_taken(
    cluster: Cluster, printed: Callable[..., str], name: str
) -> None:
    text = printed(f"--name={name}", *OPTIONS[name])
    done = cluster.kubectl("apply", "--server-side", "--warnings-as-errors", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("serverside-applied") == len(list(yaml.safe_load_all(text)))
    code, warning, body = cluster.post(PODS, pod_of(text))
    assert (code, warning) == (201, ""), body
    found = cluster.kubectl("get", "job", "-n", NAMESPACE, name, "-o", "json")
    assert json.loads(found.stdout)["spec"]["podReplacementPolicy"] == "Failed", (
        "Kubernetes' own default beside a podFailurePolicy"
    )


def test_it_is_applied_as_the_page_says_twice(
    cluster: Cluster, printed: Callable[..., str]
) -> None:
    for _ in range(2):
        done = cluster.kubectl("apply", "-f", "-", stdin=printed("--name=twice"))
        assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "job.batch/twice unchanged" in done.stdout


@pytest.mark.parametrize(("account", "allowed"), [("runner", "yes"), ("runner-read-only", "no")])
def test_the_account_has_the_rights_of_its_role(
    cluster: Cluster, printed: Callable[..., str], account: str, allowed: str
) -> None:
    for role in ("standard", "read-only"):
        cluster.kubectl("apply", "-f", "-", stdin=printed(f"--role={role}", f"--name=of-{role}"))
    who = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
    can = [
        cluster.kubectl("auth", "can-i", verb, kind, who).stdout.strip()
        for verb, kind in (("list", "nodes"), ("create", "namespaces"), ("delete", "nodes"))
    ]
    assert can == ["yes", allowed, "no"]


def own_network(pod: dict[str, Any]) -> None:
    pod["spec"]["hostNetwork"] = True


def root(pod: dict[str, Any]) -> None:
    pod["spec"]["securityContext"] |= {"runAsNonRoot": False, "runAsUser": 0}


def any_system_call(pod: dict[str, Any]) -> None:
    del pod["spec"]["securityContext"]["seccompProfile"]


def more_rights(pod: dict[str, Any]) -> None:
    del pod["spec"]["containers"][1]["securityContext"]["allowPrivilegeEscalation"]


def a_capability(pod: dict[str, Any]) -> None:
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]


def files_of_the_node(pod: dict[str, Any]) -> None:
    pod["spec"]["volumes"][0] = {"name": "results", "hostPath": {"path": "/var"}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (own_network, "host namespaces (hostNetwork=true)"),
        (root, "runAsNonRoot != true"),
        (any_system_call, "seccompProfile (pod or containers"),
        (more_rights, 'allowPrivilegeEscalation != false (container \\"holder\\"'),
        (a_capability, 'unrestricted capabilities (container \\"judge\\"'),
        (files_of_the_node, 'restricted volume types (volume \\"results\\"'),
    ],
)
def test_the_namespace_refuses_a_less_secure_pod_and_another_takes_it(
    cluster: Cluster,
    printed: Callable[..., str],
    change: Callable[[dict[str, Any]], None],
    why: str,
) -> None:
    text = printed("--name=secure")
    assert cluster.kubectl("apply", "-f", "-", stdin=text).returncode == 0
    pod = pod_of(text)
    assert cluster.post(PODS, pod)[0] == 201
    change(pod)
    code, _, body = cluster.post(PODS, pod)
    assert code == 403, body
    assert 'violates PodSecurity \\"restricted:latest\\"' in body
    assert why in body
    template = {"metadata": {}, "spec": pod["spec"]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "loose"},
           "spec": {"template": template}}  # fmt: skip
    code, warning, _ = cluster.post(JOBS, job)
    assert code == 201, "Jobs are taken, and their pods are refused"
    assert "would violate PodSecurity" in warning
    pod["spec"]["serviceAccountName"] = "default"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    cluster.post("/api/v1/namespaces/default/serviceaccounts", account)
    code, _, body = cluster.post("/api/v1/namespaces/default/pods?dryRun=All", pod)
    assert code == 201, f"the labels of the namespace refuse it, and nothing else: {body}"
