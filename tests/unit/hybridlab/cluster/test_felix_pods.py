# SPDX-License-Identifier: Apache-2.0
"""A Felix that cannot start with its pod says so; nothing of it is lost in silence."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from hybridlab.calico.cni_log import CniLogs
from hybridlab.cluster.felix_pods import FelixPods
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines
from hybridlab.runtime.contract import RuntimeRefused

NODE = "windows-2022"
POD = {"metadata": {"name": "calico-node-windows-x", "labels": {"k8s-app": "calico-node-windows"}}}


class StandIn:
    """Calico, control plane, kubelet and runtime, of which a Windows node's CNI configuration is real."""

    def __init__(self, configuration: str) -> None:
        profile = load("default", [])
        machine = next(item for item in machines(profile) if item.name == NODE)
        self.plane: Any = plane_of(profile)
        self.windows = self.plane.windows_node(machine, "10-calico.conflist")
        self.configuration = configuration
        self.kubelets = {NODE: self}
        self.lines: list[str] = []
        self.pod_network = self
        self.logs = CniLogs()
        self.files: list[dict[str, str]] = []

    def felix_started(self, node: str, felix: dict[str, str], cni: dict[str, str]) -> None:
        self.windows.configure(felix, cni)

    def environment(self, pod: Any, container: str) -> dict[str, str]:
        return {"CNI_NETWORK_CONFIG": self.configuration} if container == "install-cni" else {}

    def container_id(self, pod: Any, container: str) -> str:
        return "id"

    def on_container_started(self, callback: Any) -> None:
        self.started = callback

    def on_container_stopped(self, callback: Any) -> None:
        self.stopped = callback

    async def append_log(self, container: str, line: str) -> None:
        self.lines.append(line)

    async def update_files(self, container: str, files: dict[str, str]) -> None:
        self.files.append(files)
        if len(self.files) == 1:
            raise RuntimeRefused("the container has ended")


@pytest.mark.parametrize(
    "configuration", ["[1]", "{", "3", '{"plugins": {"type": "calico"}}', '{"plugins": ["calico"]}']
)
def test_a_felix_whose_cni_configuration_is_none_says_so_in_both_logs(
    configuration: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> StandIn:
        lab = StandIn(configuration)
        anything: Any = lab
        pods = FelixPods(anything, anything, anything)
        lab.started(NODE, POD, "felix")
        for _ in range(2):  # the start, and the line about it
            await asyncio.gather(*pods._tasks.values())
        await pods.stop()
        return lab

    lab = asyncio.run(run())
    said = "the CNI configuration is not a JSON object with a list of plugins"
    assert [line.partition(f": {said}")[0] for line in lab.lines] == ["[ERROR] Felix did not start"]
    assert f"Felix of {NODE} did not start" in caplog.text
    assert said in caplog.text
    assert lab.windows.plugin["vxlan_vni"] == 4096, "what was there stays"


def test_the_cni_plugins_log_is_a_file_in_the_container_on_linux_alone() -> None:
    async def run(node: str, labels: dict[str, str]) -> list[str]:
        lab = StandIn("{}")
        anything: Any = lab
        lab.kubelets[node] = lab
        lab.windows = {NODE: lab.windows}  # type: ignore[assignment]
        lab.felix_started = lambda *_: None  # type: ignore[method-assign]
        pods = FelixPods(anything, anything, anything)
        lab.logs.added(node, "ns/before")
        (container,) = labels.values()
        lab.started(node, {"metadata": {"labels": {"k8s-app": next(iter(labels))}}}, container)
        lab.logs.added(node, "ns/then")
        await asyncio.gather(*pods._tasks.values())
        await pods.stop()
        lab.logs.added(node, "ns/after")
        paths = {path for files in lab.files for path in files}
        assert paths <= {"/var/log/calico/cni/cni.log"}
        return [base64.b64decode(text).decode() for files in lab.files for text in files.values()]

    texts = asyncio.run(run("linux-1", {"calico-node": "calico-node"}))
    assert [text.count("\n") for text in texts] == [1, 2]
    assert texts[1].rstrip().endswith("Pod=ns/then")
    assert asyncio.run(run(NODE, {"calico-node-windows": "felix"})) == []
