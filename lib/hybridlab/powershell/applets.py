# SPDX-License-Identifier: Apache-2.0
"""The applets that labd registers for Windows; the first applet that runs imports PowerShell's
interpreter.

The import would delay the start of every lab, but not every lab has Windows pods.
"""

from collections.abc import Sequence

from hybridlab.runtime.applet import Applet, Files, HostProblem, Process

_FELIX = ("calico-node.exe", "calico.exe")
"""The names of Felix' process: the first up to Calico v3.32, the second in later releases."""


def applets() -> dict[str, Applet]:
    """Return the Windows applets by their names in the image table."""
    return {"powershell": _powershell, "calico-node": _calico_node}


def probe_program(argv: Sequence[str], files: Files) -> tuple[str, list[str]] | None:
    """Return the path and arguments of the probe program in a command line; None if the command
    line names no probe program."""
    from hybridlab.powershell.command_line import probe_program as found

    return found(argv, files)


async def _powershell(process: Process) -> int:
    from hybridlab.powershell.command_line import run

    return await run(process)


async def _calico_node(process: Process) -> int:
    """Run ``calico-node.exe -felix-ready``: exit with 0 if Felix runs on the node, else with 1.

    Calico's operator configures this readiness check (tigera/operator, pkg/render/windows.go).
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
