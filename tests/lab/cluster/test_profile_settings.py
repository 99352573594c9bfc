# SPDX-License-Identifier: Apache-2.0
"""Changes by ``--set`` are visible to users: in API objects, in pods, and in durations."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("profile-settings"),
]

SETTINGS = {
    "network.plane.vni": "7777",
    "network.underlay_mtu": "9000",
    "network.windows_mtu": "1400",
    "network.dns_domain": "lab.test",
    "network.pod_cidr": "172.20.0.0/16",
    "network.block_size": "27",
    "network.service_cidr": "172.30.0.0/16",
    "network.node_cidr": "10.9.0.0/24",
    "network.nat_outgoing": "false",
    "kube_proxy.node_port_range": "20000-20010",
    "kubernetes.provider": "EKS",
    "nodes.linux.provider_id": "aws:///zone/{name}",
    "timing.exec_cost_ms": "600",
    "timing.powershell_start_ms": "900",
    "timing.windows_refused_ms": "1200",
}
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: linux, namespace: default, labels: {app: web}}
spec:
  nodeName: linux
  containers: [{name: main, image: "registry.k8s.io/e2e-test-images/agnhost:2.53", args: [netexec]}]
---
apiVersion: v1
kind: Pod
metadata: {name: host, namespace: default}
spec: {nodeName: linux, hostNetwork: true, containers: [{name: main, image: busybox, command: [sleep, "36000"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: windows, namespace: default}
spec:
  nodeName: windows
  containers:
  - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2022",
     command: [powershell, -Command, Start-Sleep 36000]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with running_lab(
        tmp_path_factory.mktemp("settings"), "--profile", "small", *settings
    ) as running:
        running.kubectl("apply", "-f", "-", stdin=PODS)
        running.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
        yield running


def value(lab: RunningLab, kind: str, name: str, path: str) -> str:
    return lab.kubectl("get", kind, name, "-o", f"jsonpath={{{path}}}").stdout


@pytest.mark.parametrize(
    ("kind", "name", "path", "expected"),
    [
        ("felixconfigurations", "default", ".spec.vxlanVNI", "7777"),
        ("ippools", "default-ipv4-ippool", ".spec.cidr", "172.20.0.0/16"),
        ("ippools", "default-ipv4-ippool", ".spec.blockSize", "27"),
        ("installations", "default", ".spec.kubernetesProvider", "EKS"),
        ("installations", "default", ".spec.calicoNetwork.ipPools[0].natOutgoing", "Disabled"),
        ("node", "linux", ".spec.providerID", "aws:///zone/linux"),
        ("node", "linux", ".status.addresses[0].address", "10.9.0.10"),
        ("service", "kubernetes", ".spec.clusterIP", "172.30.0.1"),
    ],
)
def test_the_objects_say_it(
    lab: RunningLab, kind: str, name: str, path: str, expected: str
) -> None:
    assert value(lab, kind, name, path) == expected


def test_node_ports_come_from_the_range(lab: RunningLab) -> None:
    assert 20000 <= int(value(lab, "service", "web", ".spec.ports[0].nodePort")) <= 20010


def test_interfaces_have_the_sizes(lab: RunningLab) -> None:
    on_the_host = lab.kubectl("exec", "host", "--", "ip", "addr").stdout
    assert "mtu 9000" in on_the_host
    assert "mtu 8950" in on_the_host
    adapter = lab.kubectl(
        "exec", "windows", "--", "powershell", "-Command", "(Get-NetAdapter).MtuSize"
    ).stdout
    assert "1400" in adapter


def test_names_are_in_the_domain_and_resolve(lab: RunningLab) -> None:
    done = lab.kubectl(
        "exec", "linux", "--", "/agnhost", "connect", "web.default.svc.lab.test:80", "--timeout=2s"
    )
    assert done.returncode == 0
    assert (
        "search default.svc.lab.test svc.lab.test lab.test"
        in lab.kubectl("exec", "linux", "--", "cat", "/etc/resolv.conf").stdout
    )


def test_exec_costs_its_time(lab: RunningLab) -> None:
    begun = time.monotonic()
    lab.kubectl("exec", "host", "--", "true")
    assert time.monotonic() - begun >= 0.6  # a lower bound: slow machines only add to it


def test_powershell_takes_its_time_to_start_after_that(lab: RunningLab) -> None:
    begun = time.monotonic()
    lab.kubectl("exec", "windows", "--", "powershell", "-Command", "hostname")
    assert time.monotonic() - begun >= 1.5


def test_a_refused_connection_of_a_windows_pod_takes_its_time_after_that(lab: RunningLab) -> None:
    refusing = f"http://{value(lab, 'pod', 'linux', '.status.podIP')}:81"
    begun = time.monotonic()
    script = f"Invoke-WebRequest {refusing} -UseBasicParsing -TimeoutSec 5"
    done = lab.kubectl("exec", "windows", "--", "powershell", "-Command", script, check=False)
    assert time.monotonic() - begun >= 2.7
    assert "Unable to connect to the remote server" in done.stderr


def test_manifests_and_the_old_api_only_leave_no_trace_of_the_operator(tmp_path: Path) -> None:
    settings = ("--set", "calico.install=manifest", "--set", "calico.v3_api=false")
    with running_lab(tmp_path, "--profile", "small", *settings) as lab:
        versions = lab.kubectl("api-versions").stdout.split()
        assert "crd.projectcalico.org/v1" in versions
        assert [
            name for name in versions if "tigera" in name or name.startswith("projectcalico.org/")
        ] == []
        namespaces = json.loads(lab.kubectl("get", "namespaces", "-o", "json").stdout)["items"]
        assert {each["metadata"]["name"] for each in namespaces} == {
            "default", "kube-system", "kube-public", "kube-node-lease", "calico-system",
        }  # fmt: skip
        # calico-windows-vxlan.yaml of v3.26 has a namespace of its own.
        pods = lab.kubectl("get", "pods", "-n", "calico-system", "-o", "name").stdout
        assert "pod/calico-node-windows-" in pods
