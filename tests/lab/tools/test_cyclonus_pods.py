# SPDX-License-Identifier: Apache-2.0
"""The pods of cyclonus run as that tool creates them, on both operating systems, and its probes
agree with policy.

Pods, Services and probes are rewritten from those that mattfenwick/cyclonus generates
(pkg/connectivity/probe): for each port and protocol a container that serves its hostname, and
``agnhost connect`` from one container to another pod.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("cyclonus"),
]

IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.43"
PORTS = (80, 81)
PROTOCOLS = ("TCP", "UDP")
NAMESPACES = {"x": "linux", "y": "windows"}
"""Namespace to the node that is not cordoned while its pods are made: the pods themselves name no node."""
PODS = tuple((namespace, name) for namespace in NAMESPACES for name in "ab")
Probe = tuple[tuple[str, str], tuple[str, str], int, str]
DENY_EXCEPT = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow-b-udp-81, namespace: "NAMESPACE"}
spec:
  podSelector: {matchLabels: {pod: a}}
  policyTypes: [Ingress]
  ingress:
  - from: [{namespaceSelector: {matchLabels: {ns: x}}, podSelector: {matchLabels: {pod: b}}}]
    ports: [{protocol: UDP, port: 81}]
"""
SETTLED_WITHIN = 15.0


def container(port: int, protocol: str) -> Any:
    short = protocol.lower()
    return {
        "name": f"cont-{port}-{short}",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "/agnhost",
            "serve-hostname",
            f"--{short}",
            "--http=false",
            "--port",
            str(port),
        ],
        "securityContext": {},
        "ports": [{"containerPort": port, "name": f"serve-{port}-{short}", "protocol": protocol}],
        "resources": {},
    }


def objects(namespace: str, name: str) -> list[Any]:
    """A pod and its Service."""
    meta, kinds = (
        {"namespace": namespace, "labels": {"pod": name}},
        list(itertools.product(PORTS, PROTOCOLS)),
    )
    ports = [
        {"name": f"service-port-{each.lower()}-{port}", "protocol": each, "port": port}
        for port, each in kinds
    ]
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container(*each) for each in kinds]}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": name}, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": f"s-{namespace}-{name}"},
         "spec": {"selector": {"pod": name}, "ports": ports}},
    ]  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(
        tmp_path_factory.mktemp("cyclonus"),
        "--profile",
        "small",
        "--set",
        "nodes.windows.taints=[]",
    ) as lab:
        for namespace, node in NAMESPACES.items():
            other = next(item for item in NAMESPACES.values() if item != node)
            lab.kubectl("create", "namespace", namespace)
            lab.kubectl("label", "namespace", namespace, f"ns={namespace}")
            lab.kubectl("cordon", other)
            items = [obj for name in "ab" for obj in objects(namespace, name)]
            lab.kubectl("create", "-f", "-", stdin="\n".join(map(json.dumps, items)))
            lab.kubectl(
                "wait", "-n", namespace, "--for=condition=Ready", "pod", "--all", "--timeout=60s"
            )
            lab.kubectl("uncordon", other)
        yield lab


def address(lab: RunningLab, to: tuple[str, str], *, service: bool = False) -> str:
    namespace, name = to
    kind, path = ("service", "{.spec.clusterIP}") if service else ("pod", "{.status.podIP}")
    name = f"s-{namespace}-{name}" if service else name
    return lab.kubectl("get", kind, name, "-n", namespace, "-o", f"jsonpath={path}").stdout


def connect(lab: RunningLab, probe: Probe, host: str) -> subprocess.CompletedProcess[str]:
    (namespace, name), _, port, protocol = probe
    command = (
        "/agnhost",
        "connect",
        f"{host}:{port}",
        "--timeout=1s",
        f"--protocol={protocol.lower()}",
    )
    return lab.kubectl(
        "exec", name, "-c", f"cont-{PORTS[0]}-tcp", "-n", namespace, "--", *command, check=False
    )


def table(
    lab: RunningLab, hosts: dict[tuple[str, str], str], workers: int = 8
) -> dict[Probe, bool]:
    """Return which probes succeed; the others may fail only by a time-out."""
    probes = list(itertools.product(PODS, PODS, PORTS, PROTOCOLS))
    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(lambda probe: connect(lab, probe, hosts[probe[1]]), probes))
    strange = [
        completed.stderr
        for completed in done
        if completed.returncode and "TIMEOUT" not in completed.stderr
    ]
    assert strange == []
    return {probe: one.returncode == 0 for probe, one in zip(probes, done, strict=True)}


def test_the_pods_are_on_both_operating_systems_and_serve(lab: RunningLab) -> None:
    found = {}
    for namespace in NAMESPACES:
        items = json.loads(lab.kubectl("get", "pods", "-n", namespace, "-o", "json").stdout)[
            "items"
        ]
        found[namespace] = {item["spec"]["nodeName"] for item in items}
        log = lab.kubectl("logs", "-n", namespace, "a", "-c", "cont-81-udp").stdout
        assert "Serving on port 81." in log
    assert found == {"x": {"linux"}, "y": {"windows"}}


def test_without_policy_every_probe_succeeds_by_pod_and_by_service(lab: RunningLab) -> None:
    for service in (False, True):
        found = table(lab, {pod: address(lab, pod, service=service) for pod in PODS})
        assert [probe for probe, passed in found.items() if not passed] == []


def test_with_a_policy_the_truth_table_is_what_the_policy_says(lab: RunningLab) -> None:
    for namespace in NAMESPACES:
        lab.kubectl("apply", "-f", "-", stdin=DENY_EXCEPT.replace("NAMESPACE", namespace))
    hosts = {pod: address(lab, pod) for pod in PODS}
    denied = (("y", "b"), ("x", "a"), 80, "TCP"), (("x", "a"), ("y", "a"), 80, "TCP")
    deadline = time.monotonic() + SETTLED_WITHIN
    while any(connect(lab, probe, hosts[probe[1]]).returncode == 0 for probe in denied):
        assert time.monotonic() < deadline

    def allowed(probe: Probe) -> bool:
        source, target, port, protocol = probe
        return (
            target[1] != "a"
            or source == target
            or (source == ("x", "b") and (port, protocol) == (81, "UDP"))
        )

    found = table(lab, hosts)
    assert {probe: passed for probe, passed in found.items() if passed != allowed(probe)} == {}
