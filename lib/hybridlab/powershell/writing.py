# SPDX-License-Identifier: Apache-2.0
"""Cmdlets that write: Write-Host, Write-Output, Out-Null."""

from hybridlab.powershell.binding import Call
from hybridlab.powershell.objects import HashTable, enumerate_value, to_text
from hybridlab.powershell.shell import Library, Shell, Stage
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated


async def _write_host(shell: Shell, call: Call) -> list[object]:
    if any(isinstance(item, (list, HashTable)) for item in call.remaining):
        raise NotEmulated("Write-Host of an array or a hashtable")
    await shell.host(" ".join(to_text(item) for item in call.remaining) + "\r\n")
    return []


async def _write_output(shell: Shell, call: Call) -> list[object]:
    if len(call.remaining) != 1:
        raise NotEmulated("Write-Output of anything but one value")
    return enumerate_value(call.remaining[0]) if call.remaining[0] is not None else [None]


class _OutNull(Stage):
    async def process(self, item: object) -> None:
        """Discard the object."""


def add_to(library: Library) -> None:
    """Register the cmdlets of this module with their aliases."""
    library.add("Write-Host", "Object*", once(_write_host))
    library.add("Write-Output", "InputObject*", once(_write_output), "echo", "write")
    library.add("Out-Null", "", _OutNull)
