# SPDX-License-Identifier: Apache-2.0
"""What labd registers for Windows; PowerShell's interpreter itself is imported by the first that runs.

labd's start is on the way of every lab, Windows pods are not in every one.
"""

from hybridlab.runtime.applet import Applet, HostProblem, Process

_FELIX = ("calico-node.exe", "calico.exe")
"""Names of its process, up to v3.31 and since."""


def applets() -> dict[str, Applet]:
    """The Windows applets by their names in the image table."""
    return {"powershell": _powershell, "calico-node": _calico_node}


async def _powershell(process: Process) -> int:
    from hybridlab.powershell.command_line import run

    return await run(process)


async def _calico_node(process: Process) -> int:
    """``calico-node.exe -felix-ready``: 0 when Felix of the node runs, else 1.

    It is the readiness check that Calico's operator has the kubelet run (tigera/operator, pkg/render/windows.go);
    Calico's manifests have no such check.
    """
    asked = process.argv[1:]
    if asked != ("-felix-ready",) or process.host is None:
        await process.stderr.write(f"not emulated: calico-node.exe {' '.join(asked)}\n".encode())
        return 127
    try:
        running = await process.host.ask("processes", {})
        ready = isinstance(running, list) and any(item["Name"] in _FELIX for item in running)
    except HostProblem:
        ready = False
    if not ready:
        await process.stderr.write(b"calico/node is not ready: felix is not ready\n")
    return 0 if ready else 1
