"""What labd registers for Windows; PowerShell's interpreter itself is imported by the first that runs.

labd's start is on the way of every lab, Windows pods are not in every one.
"""

from hybridlab.powershell.calico_node import calico_node
from hybridlab.runtime.applet import Applet, Process


def applets() -> dict[str, Applet]:
    """The Windows applets by their names in the image table."""
    return {"powershell": _powershell, "calico-node": calico_node}


async def _powershell(process: Process) -> int:
    from hybridlab.powershell.command_line import run

    return await run(process)
