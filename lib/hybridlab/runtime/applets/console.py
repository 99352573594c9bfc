# SPDX-License-Identifier: Apache-2.0
"""Output of every applet: text lines, and the message about features that the lab lacks."""

from hybridlab.runtime.applet import Process

NOT_EMULATED_STATUS = 1


async def out(process: Process, *lines: str) -> None:
    """Write lines to standard output."""
    await process.stdout.write("".join(f"{line}\n" for line in lines).encode())


async def err(process: Process, *lines: str) -> None:
    """Write lines to standard error."""
    await process.stderr.write("".join(f"{line}\n" for line in lines).encode())


async def not_emulated(process: Process, what: str) -> int:
    """Print that the lab does not emulate ``what``; return the exit status."""
    await err(process, f"not emulated: {what}")
    return NOT_EMULATED_STATUS
