# SPDX-License-Identifier: Apache-2.0
"""Without an operator, a FelixConfiguration changes the VNI of Linux alone; Windows gets a VNI
from its DaemonSet's environment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.lab.lab_process import RunningLab, running_lab, until

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("vni-without-operator"),
]

DAEMON_SET = ("-n", "calico-system", "daemonset/calico-node-windows")
NODE = "windows-2022"
CNI = r"Get-Content -Raw -Path 'C:\etc\cni\net.d\10-calico.conf'"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(
        tmp_path_factory.mktemp("manifest"), "--set", "calico.install=manifest"
    ) as running:
        yield running


def powershell(lab: RunningLab, script: str, *, check: bool = True) -> str:
    chosen = (
        "-l",
        "k8s-app=calico-node-windows",
        f"--field-selector=spec.nodeName={NODE}",
        "-o",
        "name",
    )
    pod = lab.kubectl("get", "pod", "-n", "calico-system", *chosen).stdout.strip()
    command = (
        "exec",
        "-n",
        "calico-system",
        pod,
        "-c",
        "felix",
        "--",
        "powershell.exe",
        "-Command",
        script,
    )
    done = lab.kubectl(*command, check=check)
    return done.stdout + done.stderr


def vsid(lab: RunningLab) -> int:
    networks = json.loads(powershell(lab, "Get-HnsNetwork | ConvertTo-Json -Depth 10 -Compress"))
    return int(
        next(network for network in networks if network["Name"] == "Calico")["Subnets"][0][
            "Policies"
        ][0]["VSID"]
    )


def test_a_felix_configuration_never_reaches_windows(lab: RunningLab) -> None:
    assert json.loads(powershell(lab, CNI))["vxlan_vni"] == 4096
    patch = '{"spec":{"vxlanVNI":4097}}'
    lab.kubectl(
        "patch", "felixconfigurations.projectcalico.org", "default", "--type=merge", "-p", patch
    )
    linux = (
        "logs",
        "-n",
        "kube-system",
        "-l",
        "k8s-app=calico-node",
        "-c",
        "calico-node",
        "--tail=-1",
    )
    until(lambda: lab.kubectl(*linux).stdout.count("identifier 4097") == 4)
    assert "identifier 4097" not in lab.kubectl("logs", *DAEMON_SET, "-c", "felix").stdout
    assert (vsid(lab), json.loads(powershell(lab, CNI))["vxlan_vni"]) == (4096, 4096)


def test_the_environment_does_and_the_network_still_stays(lab: RunningLab) -> None:
    lab.kubectl("set", "env", *DAEMON_SET, "VXLAN_VNI=4097")
    lab.kubectl("rollout", "status", *DAEMON_SET, "--timeout=30s")
    assert (vsid(lab), json.loads(powershell(lab, CNI))["vxlan_vni"]) == (4096, 4097)


def test_felix_is_a_service_there(lab: RunningLab) -> None:
    read = "Get-Service -Name CalicoFelix | Select-Object Name, Status | ConvertTo-Json -Compress"
    assert json.loads(powershell(lab, read)) == {"Name": "CalicoFelix", "Status": 4}
    process = "(Get-CimInstance Win32_Process -Filter \"name='calico-node.exe'\").ProcessId"
    before = powershell(lab, process)
    assert powershell(lab, "Restart-Service -Name CalicoFelix") == ""
    assert powershell(lab, process) != before
    assert "not emulated: Restart-Service hns" in powershell(
        lab, "Restart-Service -Name hns", check=False
    )


def test_a_vni_below_4096_lets_no_pod_start(lab: RunningLab) -> None:
    lab.kubectl("set", "env", *DAEMON_SET, "VXLAN_VNI=4095")
    lab.kubectl("rollout", "status", *DAEMON_SET, "--timeout=30s")
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late", "namespace": "default"},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.9"}]},
    }  # fmt: skip
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    until(lambda: "Windows does not support VXLANVNI < 4096" in lab.kubectl("get", "events").stdout)
