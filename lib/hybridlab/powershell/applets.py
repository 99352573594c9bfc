"""What labd registers for Windows; PowerShell's interpreter itself is imported by the first that runs.

labd's start is on the way of every lab, Windows pods are not in every one.
"""

from __future__ import annotations

from hybridlab.powershell.calico_node import calico_node
from hybridlab.runtime.applet import Applet, Process


def applets() -> dict[str, Applet]:
    """The Windows applets by their names in the image table."""
    return {"powershell": _applet(seven=False), "pwsh": _applet(seven=True), "calico-node": calico_node}


def _applet(*, seven: bool) -> Applet:
    async def run(process: Process) -> int:
        from hybridlab.powershell.command_line import run as run_powershell

        return await run_powershell(process, seven=seven)

    return run
