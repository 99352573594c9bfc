# SPDX-License-Identifier: Apache-2.0
"""kube-proxy on Windows nodes as tools find it: DaemonSet, log, process and ConfigMap, in each shape, node by node."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on the PATH"
)

DSR = "--enable-dsr=true"
MIXED = "nodes.windows-2019.windows_dsr=false"
HOST = """\
apiVersion: v1
kind: Pod
metadata: {name: host-NODE, namespace: kube-system}
spec:
  nodeName: NODE
  hostNetwork: true
  securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'}}
  containers:
  - {name: host, image: "mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0",
     command: [powershell, -Command, Start-Sleep 36000]}
"""
PROCESS = (
    "Get-CimInstance Win32_Process -Filter \"Name='kube-proxy.exe'\" | Select-Object ProcessId, CommandLine"
    " | ConvertTo-Json -Compress"
)
SOURCE_VIPS = "Get-HnsEndpoint | Where-Object { $_.Name -eq 'Calico_ep' } | Select-Object -ExpandProperty IPAddress"
NODES = ("windows-2022", "windows-2019")


def objects(lab: RunningLab, *what: str) -> list[Any]:
    found = json.loads(lab.kubectl("get", *what, "-n", "kube-system", "-o", "json").stdout)
    return list(found["items"]) if "items" in found else [found]


def on_host(lab: RunningLab, node: str, script: str) -> str:
    lab.kubectl("apply", "-f", "-", stdin=HOST.replace("NODE", node))
    lab.kubectl(
        "wait", "-n", "kube-system", "--for=condition=Ready", f"pod/host-{node}", "--timeout=30s"
    )
    said = lab.kubectl(
        "exec", "-n", "kube-system", f"host-{node}", "--", "powershell", "-Command", script
    )
    return said.stdout.strip()


def command_on(lab: RunningLab, node: str) -> str:
    """The command line of kube-proxy's process, as soon as there is one."""
    found = eventually(lambda: on_host(lab, node, PROCESS))
    return str(json.loads(found)["CommandLine"])


def eventually(look: Callable[[], str]) -> str:
    deadline = time.monotonic() + 20
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def pod_on(lab: RunningLab, node: str) -> Any:
    pods = objects(
        lab, "pods", "-l", "k8s-app=kube-proxy-windows", "--field-selector", f"spec.nodeName={node}"
    )
    return pods[0] if pods else None


def log_on(lab: RunningLab, node: str) -> str:
    name = pod_on(lab, node)["metadata"]["name"]
    return eventually(
        lambda: _after(lab.kubectl("logs", "-n", "kube-system", name).stdout, "Start to run ")
    )


def _after(text: str, start: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(start)), "")


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """One lab for all tests about kube-proxy by sig-windows-tools; the last of them ends its processes."""
    folder = tmp_path_factory.mktemp("scripted")
    with running_lab(
        folder, "--set", "kube_proxy.windows=sig-windows-tools", "--set", MIXED
    ) as lab:
        yield lab


def test_sig_windows_tools_names_a_script_and_the_script_finds_the_flags(
    scripted: RunningLab,
) -> None:
    (daemonset,) = objects(scripted, "daemonset", "kube-proxy-windows")
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["$env:CONTAINER_SANDBOX_MOUNT_POINT/kube-proxy/start.ps1"]
    assert "command" not in container
    (config,) = objects(scripted, "configmap", "kube-proxy")
    assert "enableDSR: false" in config["data"]["config.conf"], (
        "Linux' default, which Windows never reads"
    )
    for node, told in zip(NODES, (True, False), strict=True):
        command = command_on(scripted, node)
        assert command.startswith("C:\\hpc/kube-proxy/kube-proxy.exe --hostname-override= --v=2 ")
        assert (DSR in command, "WinDSR=true" in command) == (told, told)
        assert f"--source-vip={on_host(scripted, node, SOURCE_VIPS)} " in command
        assert log_on(scripted, node) == f"Start to run {command}"


def test_arguments_differ_by_a_daemonset_of_their_own_where_nodes_differ(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--set", MIXED) as lab:
        names = {obj["metadata"]["name"] for obj in objects(lab, "daemonsets")}
        assert {"kube-proxy-windows", "kube-proxy-windows-no-dsr"} <= names
        for node, told in zip(NODES, (True, False), strict=True):
            (container,) = pod_on(lab, node)["spec"]["containers"]
            assert (DSR in container["args"]) is told
            assert (DSR in command_on(lab, node)) is told
            assert f"--hostname-override={node} " in command_on(lab, node)


@pytest.mark.parametrize(
    ("provider", "service"), [("AKS", "kubeproxy"), ("EKS", "kube-proxy"), ("RKE2", "")]
)
def test_as_a_service_it_has_no_pod_and_the_host_alone_knows(
    tmp_path: Path, provider: str, service: str
) -> None:
    settings = ["kube_proxy.windows=service", f"kubernetes.provider={provider}", MIXED]
    if provider == "RKE2":  # its agent runs Calico on Windows, and its chart has no API server
        settings += ["calico.install=agent", "calico.v3_api=false"]
    with running_lab(
        tmp_path, *(word for setting in settings for word in ("--set", setting))
    ) as lab:
        assert pod_on(lab, NODES[0]) is None
        assert "kube-proxy" not in {obj["metadata"]["name"] for obj in objects(lab, "configmaps")}
        assert [DSR in command_on(lab, node) for node in NODES] == [True, False]
        if service:
            assert "Running" in on_host(lab, NODES[0], f"(Get-Service {service}).Status")


PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: server, namespace: default, labels: {app: server}}
spec:
  nodeName: linux-1
  containers: [{name: main, image: "registry.k8s.io/e2e-test-images/agnhost:2.53", args: [netexec]}]
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: default}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: windows-2022, namespace: default}
spec:
  nodeName: windows-2022
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2022", command: [ping, -t, localhost]}]
---
apiVersion: v1
kind: Pod
metadata: {name: windows-2019, namespace: default}
spec:
  nodeName: windows-2019
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019", command: [ping, -t, localhost]}]
"""


def test_packets_keep_their_source_on_the_node_with_dsr_and_lose_it_on_the_other(
    scripted: RunningLab,
) -> None:
    scripted.kubectl("apply", "-f", "-", stdin=PODS)
    scripted.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
    address = json.loads(scripted.kubectl("get", "service", "server", "-o", "json").stdout)["spec"][
        "clusterIP"
    ]
    ask = (
        f"(Invoke-WebRequest -Uri http://{address}/clientip -UseBasicParsing -TimeoutSec 5).Content"
    )
    seen = {}
    for node in NODES:
        said = scripted.kubectl("exec", node, "--", "powershell", "-Command", ask).stdout
        pod = json.loads(scripted.kubectl("get", "pod", node, "-o", "json").stdout)
        seen[node] = said.strip().rpartition(":")[0] == pod["status"]["podIP"]
    assert seen == {"windows-2022": True, "windows-2019": False}


def test_the_process_lives_with_its_pod(scripted: RunningLab) -> None:
    first = json.loads(eventually(lambda: on_host(scripted, NODES[0], PROCESS)))
    scripted.kubectl("patch", "daemonset", "kube-proxy-windows", "-n", "kube-system", "--type=merge", "-p",
                     '{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"1"}}}}}')  # fmt: skip
    scripted.kubectl("wait", "-n", "kube-system", "--for=delete", "pod", "-l", "k8s-app=kube-proxy-windows",
                     "--timeout=30s")  # fmt: skip
    assert on_host(scripted, NODES[0], PROCESS) == ""
    scripted.kubectl("patch", "daemonset", "kube-proxy-windows", "-n", "kube-system", "--type=json", "-p",
                     '[{"op":"remove","path":"/spec/template/spec/nodeSelector/nowhere"}]')  # fmt: skip
    second = json.loads(eventually(lambda: on_host(scripted, NODES[0], PROCESS)))
    assert second["CommandLine"] == first["CommandLine"]
    assert second["ProcessId"] != first["ProcessId"]
