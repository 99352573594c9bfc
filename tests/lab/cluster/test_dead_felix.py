# SPDX-License-Identifier: Apache-2.0
"""Without its Felix a node gets no new policy: the test removes calico-node's pod, as an
administrator would."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("dead-felix"),
]

SETTLED_WITHIN = 10.0
"""Seconds; only a change that never comes takes so long."""
SYSTEM = ("-n", "calico-system")
DENY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: default}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""


def server(name: str, node: str) -> str:
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: "registry.k8s.io/e2e-test-images/agnhost:2.53", args: [netexec, --http-port=8080]}}
---
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("felix")) as running:
        manifest = (
            server("client", "linux-1")
            + server("linux", "linux-2")
            + server("windows", "windows-2022")
        )
        running.kubectl("apply", "-f", "-", stdin=manifest + server("beside", "linux-3"))
        # The operator would undo what is changed in its DaemonSets.
        running.kubectl(
            "scale", "-n", "tigera-operator", "deployment/tigera-operator", "--replicas=0"
        )
        running.kubectl(
            "wait", "-n", "tigera-operator", "--for=delete", "pod", "-l", "k8s-app=tigera-operator"
        )
        running.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
        yield running


def reaches(lab: RunningLab, pod: str) -> bool:
    address = lab.kubectl("get", "pod", pod, "-o", "jsonpath={.status.podIP}").stdout
    done = lab.kubectl(
        "exec",
        "client",
        "--",
        "/agnhost",
        "connect",
        f"{address}:8080",
        "--timeout=1s",
        check=False,
    )
    assert done.returncode == 0 or "TIMEOUT" in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode == 0


def eventually(lab: RunningLab, pod: str, *, reached: bool) -> None:
    deadline = time.monotonic() + SETTLED_WITHIN
    while reaches(lab, pod) != reached:
        assert time.monotonic() < deadline, f"{pod} is {'not ' if reached else ''}reached"


def felix_pod(lab: RunningLab, daemon_set: str, node: str) -> str:
    found = lab.kubectl(
        *SYSTEM,
        "get",
        "pod",
        "-l",
        f"k8s-app={daemon_set}",
        f"--field-selector=spec.nodeName={node}",
        "-o",
        "name",
    )
    return found.stdout.strip()


@pytest.mark.parametrize(
    ("daemon_set", "node", "pod"),
    [("calico-node", "linux-2", "linux"), ("calico-node-windows", "windows-2022", "windows")],
)
def test_new_policy_does_not_appear_where_felix_is_dead_and_does_when_it_is_back(
    lab: RunningLab, daemon_set: str, node: str, pod: str
) -> None:
    elsewhere = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [node]}]}
        ]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": elsewhere}}
    patch = json.dumps({"spec": {"template": {"spec": {"affinity": affinity}}}})
    lab.kubectl(*SYSTEM, "patch", "daemonset", daemon_set, "-p", patch)
    lab.kubectl(
        *SYSTEM,
        "wait",
        "--for=delete",
        felix_pod(lab, daemon_set, node) or "pod/gone",
        "--timeout=20s",
    )
    assert felix_pod(lab, daemon_set, node) == ""
    try:
        assert reaches(lab, pod)
        lab.kubectl("apply", "-f", "-", stdin=DENY)
        eventually(lab, "beside", reached=False)
        assert reaches(lab, pod)
        back = json.dumps([{"op": "remove", "path": "/spec/template/spec/affinity"}])
        lab.kubectl(*SYSTEM, "patch", "daemonset", daemon_set, "--type=json", "-p", back)
        lab.kubectl(*SYSTEM, "rollout", "status", f"daemonset/{daemon_set}", "--timeout=30s")
        eventually(lab, pod, reached=False)
    finally:
        lab.kubectl("delete", "networkpolicy", "deny", "--ignore-not-found")
    eventually(lab, pod, reached=True)
