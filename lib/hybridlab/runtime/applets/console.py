# SPDX-License-Identifier: Apache-2.0
"""What every applet does with its streams: text lines out, and the one sentence for what the lab does not do."""

from hybridlab.runtime.applet import Process

NOT_EMULATED_STATUS = 1


async def out(process: Process, *lines: str) -> None:
    """Write lines to standard output."""
    await process.stdout.write("".join(f"{line}\n" for line in lines).encode())


async def err(process: Process, *lines: str) -> None:
    """Write lines to standard error."""
    await process.stderr.write("".join(f"{line}\n" for line in lines).encode())


async def not_emulated(process: Process, what: str) -> int:
    """Say that the lab cannot do it; returns the exit status."""
    await err(process, f"not emulated: {what}")
    return NOT_EMULATED_STATUS
