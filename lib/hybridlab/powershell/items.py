# SPDX-License-Identifier: Apache-2.0
"""Get-Content of files, Start-Sleep and New-Object."""

import asyncio
import re

from hybridlab.powershell.binding import Call
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import to_text
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated

_NO_FILE = re.compile(r".*[*?\[\]].*|\w\w+:.*", re.DOTALL)
"""Paths that are not emulated: wildcards, and drives of other providers such as ``env:``."""
_SYSTEM = re.compile(
    r"([a-z]:)?[\\/]*((windows|users|program files|programdata|inetpub|license)\b.*)?|\.+",
    re.IGNORECASE,
)
"""Folders that every Windows image has, although the lab stores no files in them."""


def get_content(shell: Shell, call: Call, path: str) -> list[object]:
    """Return the lines of a file of the container, or its whole text with -Raw."""
    if _NO_FILE.fullmatch(path):
        raise NotEmulated(f"Get-Content {path}")
    try:
        data = shell.process.files.read(path)
    except OSError:
        if _SYSTEM.fullmatch(path):
            raise NotEmulated(f"Get-Content {path}") from None
        raise missing_path(call, path) from None
    return content(call, data.decode("utf-8-sig", "replace"))


def missing_path(call: Call, path: str) -> Fault:
    """Return the error for a file that does not exist."""
    return Fault(
        f"Cannot find path '{path}' because it does not exist.",
        f"ObjectNotFound: ({path}:String) [{call.name}], ItemNotFoundException",
        f"PathNotFound,Microsoft.PowerShell.Commands.{call.name.replace('-', '')}Command",
        source=call.typed,
        terminating=False,
        kind="System.Management.Automation.ItemNotFoundException",
    )


def content(call: Call, text: str) -> list[object]:
    """Return a file's text as Get-Content returns it."""
    if call.flag("raw") and not call.has("tail"):
        return [text] if text else []
    lines: list[object] = list(re.split(r"\r\n|\n|\r", text))
    if lines and lines[-1] == "":
        lines.pop()
    tail = to_int(call.get("tail", len(lines)))
    if tail < 0 or call.flag("raw"):
        raise NotEmulated("Get-Content with this -Tail")
    return lines[-tail:] if tail else []


async def _start_sleep(shell: Shell, call: Call) -> list[object]:
    if call.has("milliseconds") == call.has("seconds"):
        raise NotEmulated("Start-Sleep without exactly one duration")
    milliseconds = to_int(call.get("milliseconds")) + 1000 * to_int(call.get("seconds"))
    if milliseconds < 0:
        raise NotEmulated("Start-Sleep with a negative duration")
    await asyncio.sleep(milliseconds / 1000)
    return []


async def _new_object(shell: Shell, call: Call) -> list[object]:
    """Return a new object of a .NET type of ``dotnet``."""
    name = to_text(call.get("typename"))
    make = shell.library.constructors.get(name.lower().removeprefix("system."))
    if make is None:
        raise NotEmulated(f"New-Object {name}")
    return [make(shell)]


def add_to(library: Library) -> None:
    """Register the cmdlets of this module with their aliases."""
    library.add("Start-Sleep", "Seconds@0:int Milliseconds:int", once(_start_sleep), "sleep")
    library.add("New-Object", "TypeName@0", once(_new_object))
