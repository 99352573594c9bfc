# SPDX-License-Identifier: Apache-2.0
"""Readings of Windows hosts: the raw output of every read-only host program, and of further
commands."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from conformance.calibrate.scene import Scene
from conformance.errors import SuiteError, first_line
from conformance.model.facts import NodeFacts
from conformance.pods.roles import ECHO_PORT
from conformance.probe import windows_host
from conformance.probe.host import CNI_CONFIGURATIONS, POWERSHELL, STOP, quoted
from conformance.product import MANIFESTS

BESIDE = {
    "kube-proxy command line": "Get-CimInstance Win32_Process -Filter 'Name=''kube-proxy.exe''' | "
    "ForEach-Object { $_.CommandLine }",
    "updates": "Get-CimInstance Win32_QuickFixEngineering | ForEach-Object { $_.HotFixID }",
    "CNI files": f"foreach ($path in {', '.join(map(quoted, CNI_CONFIGURATIONS))}) "
    "{ Get-Content -Raw -Path $path -ErrorAction SilentlyContinue }",
}
"""One-line commands, by name. The readings of :class:`conformance.probe.host.Hosts` use the same
commands."""
WITHIN = 2.0
"""The time limit, in seconds, of each connection of connect.ps1."""


def programs(targets: Sequence[str] = ()) -> dict[str, str]:
    """Return every committed program for Windows hosts by the name of its file, and the programs of
    :data:`BESIDE`.

    ``targets``: the ``ADDRESS:PORT`` targets to which connect.ps1 connects.
    """
    files = sorted((MANIFESTS / "nodes").glob("*.ps1"))
    found = {path.name: windows_host.one_line(path.name) for path in files} | BESIDE
    return found | {"connect.ps1": windows_host.connecting(targets, WITHIN)}


def read(scene: Scene) -> None:
    """Run all programs on each Windows node, two at once. Keep their output, or the reason why
    there is none."""

    def all_on(node: NodeFacts) -> None:
        scene.hosts.on_windows(node.name)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda name: read_one(scene, node.name, name), programs()))

    scene.each("host programs", [node for node in scene.nodes if node.os == "windows"], all_on)


def read_one(scene: Scene, node: str, name: str, when: str = "") -> None:
    """Run one program, and record its output. ``when`` names a measurement that runs on the node at
    the same time."""
    answer = {"node": node, "program": f"{name}, {when}" if when else name, "output": ""}
    try:
        script = programs([f"{server.address}:{ECHO_PORT}" for server in scene.servers])[name]
        done = scene.hosts.command(scene.hosts.on_windows(node), (*POWERSHELL, STOP + script))
        answer |= {"output": done.output, "exit_code": str(done.exit_code)}
    except SuiteError as error:
        answer |= {"error": first_line(error)}
    scene.record.programs.append(answer)
