"""Get-Content of files and environment variables, Start-Sleep and New-Object."""

import asyncio
import re

from hybridlab.powershell.binding import Call
from hybridlab.powershell.conversion import to_int
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import to_text
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated

CONTENT = (
    "Path@0 LiteralPath=PSPath=LP Raw? -TotalCount=First=Head -Tail=Last -Encoding -ReadCount -Filter -Include "
    "-Exclude -Force? -Credential -Delimiter -Wait? -Stream -UseTransaction=usetx?"
)
"""Parameters of Get-Content."""
_WILDCARDS = re.compile(r"[*?\[\]]")
_SYSTEM = re.compile(
    r"([a-z]:)?[\\/]*((windows|users|program files|programdata|inetpub|license)\b.*)?|\.+", re.IGNORECASE
)
"""Folders that every Windows image has, though no file of theirs is kept."""


def _path(call: Call) -> str:
    path = call.get("literalpath") if call.has("literalpath") else call.get("path")
    if path is None or isinstance(path, list):
        raise NotEmulated(f"{call.name} without a path, or with several")
    return to_text(path)


async def get_content(shell: Shell, call: Call) -> list[object]:
    """Lines of a file, or all of it with -Raw."""
    path = _path(call)
    if re.match(r"env:", path, re.IGNORECASE):
        value = shell.environment_variable(path[4:].lstrip("\\/"))
        if value is None:
            raise NotEmulated(f"Get-Content {path}")
        return [value]
    if _WILDCARDS.search(path):
        raise NotEmulated(f"Get-Content of a wildcard path, {path}")
    if _SYSTEM.fullmatch(path) and path.strip():
        try:
            shell.process.files.read(path)
        except OSError:
            raise NotEmulated(f"Get-Content {path}") from None
    try:
        data = shell.process.files.read(path)
    except OSError:
        raise missing_path(call, path) from None
    return content(call, data.decode("utf-8-sig", "replace"))


def missing_path(call: Call, path: str) -> Fault:
    """The error for a file that is not there."""
    return Fault(
        f"Cannot find path '{path}' because it does not exist.",
        f"ObjectNotFound: ({path}:String) [{call.name}], ItemNotFoundException",
        f"PathNotFound,Microsoft.PowerShell.Commands.{call.name.replace('-', '')}Command",
        source=call.typed,
        terminating=False,
        kind="System.Management.Automation.ItemNotFoundException",
    )


def content(call: Call, text: str) -> list[object]:
    """A file's text as Get-Content puts it out."""
    if call.flag("raw"):
        return [text] if text else []
    lines: list[object] = list(re.split(r"\r\n|\n|\r", text))
    if lines and lines[-1] == "":
        lines.pop()
    return lines


async def _start_sleep(shell: Shell, call: Call) -> list[object]:
    if call.has("milliseconds") == call.has("seconds"):
        raise NotEmulated("Start-Sleep without one length of time")
    if call.has("milliseconds"):
        seconds = to_int(call.get("milliseconds")) / 1000
    else:
        seconds = float(to_int(call.get("seconds")))
    if seconds < 0:
        raise call.fault("Cannot validate argument on parameter.", "ParameterArgumentValidationError")
    await asyncio.sleep(seconds)
    return []


async def _new_object(shell: Shell, call: Call) -> list[object]:
    """The .NET types of ``dotnet``."""
    name = call.text("typename")
    key = name.lower().removeprefix("system.")
    make = shell.library.constructors.get(key)
    if make is None:
        raise NotEmulated(f"New-Object {name}")
    return [make(shell, [])]


def add_to(library: Library) -> None:
    """Register them with their aliases."""
    library.add("Get-Content", CONTENT, once(get_content), "cat", "type", "gc")
    library.add("Start-Sleep", "Seconds@0:number Milliseconds=ms:int", once(_start_sleep), "sleep")
    library.add("New-Object", "TypeName@0 -ArgumentList=Args@1 -Property -ComObject -Strict?", once(_new_object))
