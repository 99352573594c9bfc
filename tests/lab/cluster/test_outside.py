# SPDX-License-Identifier: Apache-2.0
"""The host outside the cluster: which pods and nodes reach it, by which protocols, and which
source addresses it receives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("outside"),
]

OUTSIDE = "198.51.100.10"
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: linux, namespace: default}
spec: {nodeName: linux, containers: [{name: main, image: "busybox:1.36", args: [sleep, "36000"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: windows, namespace: default}
spec:
  nodeName: windows
  containers:
  - {name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2022",
     command: [powershell, -Command, Start-Sleep 36000]}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("outside"), "--profile", "small") as running:
        running.kubectl("apply", "-f", "-", stdin=PODS)
        running.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
        yield running


def run(lab: RunningLab, pod: str, *command: str) -> str:
    return lab.kubectl("exec", pod, "--", *command, check=False).stdout


def of_node(lab: RunningLab, name: str) -> str:
    return str(
        json.loads(lab.kubectl("get", "node", name, "-o", "json").stdout)["status"]["addresses"][0][
            "address"
        ]
    )


def fetch(lab: RunningLab) -> str:
    ask = f"(Invoke-WebRequest -Uri http://{OUTSIDE}/ -UseBasicParsing -TimeoutSec 5).Content"
    return run(lab, "windows", "powershell", "-Command", ask).strip()


def test_the_ready_line_names_it(lab: RunningLab) -> None:
    assert f"outside host {OUTSIDE}," in lab.ready_line


def test_it_sees_the_nodes_of_pods_that_come_by_tcp(lab: RunningLab) -> None:
    assert fetch(lab) == of_node(lab, "windows")
    assert run(lab, "linux", "wget", "-T", "2", "-qO-", f"http://{OUTSIDE}/").strip() == of_node(
        lab, "linux"
    )


def test_it_answers_the_ping_of_linux_pods(lab: RunningLab) -> None:
    assert f"bytes from {OUTSIDE}" in run(lab, "linux", "ping", "-c", "1", "-W", "2", OUTSIDE)


def test_the_ping_of_windows_pods_ends_at_the_cluster_unless_it_is_natted(lab: RunningLab) -> None:
    ping = ("ping", "-n", "1", "-w", "500")
    inside = json.loads(lab.kubectl("get", "pod", "linux", "-o", "json").stdout)["status"]["podIP"]
    config = ("--kubeconfig", str(lab.kubeconfig))
    assert f"Reply from {inside}: bytes=" in run(lab, "windows", *ping, inside)
    assert "Request timed out" in run(lab, "windows", *ping, OUTSIDE)
    lab.hybridlab("faults", *config, "inject", "ping-natted")
    assert f"Reply from {OUTSIDE}: bytes=" in run(lab, "windows", *ping, OUTSIDE)
    lab.hybridlab("faults", *config, "heal")
    lab.hybridlab("faults", *config, "inject", "ping-dropped")
    assert "Request timed out" in run(lab, "windows", *ping, inside)
    lab.hybridlab("faults", *config, "heal")
    assert f"Reply from {inside}: bytes=" in run(lab, "windows", *ping, inside)
    assert "Request timed out" in run(lab, "windows", *ping, OUTSIDE)
    assert fetch(lab) == of_node(lab, "windows")
