"""Cmdlets that read: files, environment variables, commands, the clock; and Start-Sleep and New-Object."""

from __future__ import annotations

import asyncio
import inspect
import re
import time

from hybridlab.powershell.binding import Call
from hybridlab.powershell.clock import DateTime
from hybridlab.powershell.conversion import to_int, to_number
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import NetObject, enumerate_value, to_text
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated

CONTENT = (
    "Path@0 LiteralPath=PSPath=LP Raw? TotalCount=First=Head:int Tail=Last:int Encoding -ReadCount -Filter -Include "
    "-Exclude -Force? -Credential -Delimiter -Wait? -Stream -UseTransaction=usetx? 7:-AsByteStream?"
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
    if call.text("encoding", "utf8").lower() not in ("utf8", "utf-8", "ascii"):
        raise NotEmulated(f"Get-Content -Encoding {call.text('encoding')}")
    if call.flag("raw"):
        if call.has("tail") or call.has("totalcount"):
            raise NotEmulated("Get-Content -Raw with -Tail or -TotalCount")
        return [text] if text else []
    lines: list[object] = list(re.split(r"\r\n|\n|\r", text))
    if lines and lines[-1] == "":
        lines.pop()
    if call.has("totalcount"):
        count = to_int(call.get("totalcount"))
        lines = lines[:count] if count >= 0 else lines
    if call.has("tail"):
        count = to_int(call.get("tail"))
        lines = lines[-count:] if count else []
    return lines


async def _test_path(shell: Shell, call: Call) -> list[object]:
    path = _path(call)
    if re.match(r"env:", path, re.IGNORECASE):
        return [shell.environment_variable(path[4:].lstrip("\\/")) is not None]
    kind = call.text("pathtype", "any").lower()
    if kind not in ("any", "leaf") or _WILDCARDS.search(path) or re.match(r"\w{2,}:", path):
        raise NotEmulated(f"Test-Path {path}" + (f" -PathType {kind}" if kind != "any" else ""))
    try:
        shell.process.files.read(path)
    except OSError:
        if _SYSTEM.fullmatch(path):
            raise NotEmulated(f"Test-Path {path}") from None
        return [False]
    return [True]


async def _get_child_item(shell: Shell, call: Call) -> list[object]:
    path = call.text("path", ".").lower().rstrip("\\/*")
    if path != "env:":
        raise NotEmulated(f"{call.name} {path}")
    names = sorted(shell.environment, key=str.lower)
    table = ("Name", "Value")
    kind = "System.Collections.DictionaryEntry"
    return [
        NetObject(kind, text=kind, table=table, Name=name, Key=name, Value=shell.environment[name]) for name in names
    ]


async def _get_command(shell: Shell, call: Call) -> list[object]:
    found: list[object] = []
    for item in enumerate_value(call.get("name")):
        name = to_text(item)
        alias = shell.library.aliases.get(name.lower())
        known = shell.library.cmdlets.get(alias or name.lower())
        if known is None or (alias is not None and shell.seven):
            raise NotEmulated(f"Get-Command {name}")
        kind = "Alias" if alias else "Cmdlet"
        found.append(
            NetObject(
                f"System.Management.Automation.{kind}Info",
                text=name if alias else known.name,
                Name=name if alias else known.name,
                CommandType=NetObject("System.Management.Automation.CommandTypes", text=kind, number=1 if alias else 8),
            )
        )
    if not found:
        raise NotEmulated("Get-Command without a name")
    return found


async def _get_date(shell: Shell, call: Call) -> list[object]:
    now = DateTime.now(utc=call.flag("asutc"))
    if call.has("uformat"):
        wanted = call.text("uformat").removeprefix("+")
        if wanted == "%s":
            return [str(int(time.time())) if shell.seven else f"{time.time():.5f}"]
        raise NotEmulated(f"Get-Date -UFormat {wanted}")
    return [now.formatted(call.text("format")) if call.has("format") else now]


async def _start_sleep(shell: Shell, call: Call) -> list[object]:
    if call.has("milliseconds") == call.has("seconds"):
        raise NotEmulated("Start-Sleep without one length of time")
    if call.has("milliseconds"):
        seconds = to_int(call.get("milliseconds")) / 1000
    else:
        given = call.get("seconds")
        seconds = float(to_number(given)) if shell.seven else float(to_int(given))
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
    arguments = call.get("argumentlist", [])
    made = make(shell, list(arguments) if isinstance(arguments, list) else [arguments])
    return [await made if inspect.isawaitable(made) else made]


def add_to(library: Library) -> None:
    """Register them with their aliases."""
    library.add("Get-Content", CONTENT, once(get_content), "cat", "type", "gc")
    library.add(
        "Test-Path",
        "Path@0 LiteralPath=PSPath=LP PathType=Type -Filter -Include -Exclude -IsValid? -Credential -OlderThan "
        "-NewerThan -UseTransaction=usetx?",
        once(_test_path),
    )
    library.add(
        "Get-ChildItem",
        "Path@0 -LiteralPath=PSPath=LP -Filter@1 -Include -Exclude -Recurse=s? -Depth -Force? -Name? -Attributes "
        "-Directory=ad=d? -File=af? -Hidden=ah=h? -ReadOnly=ar? -System=as? -UseTransaction=usetx? 7:-FollowSymlink?",
        once(_get_child_item), "gci", "dir", "ls",
    )  # fmt: skip
    library.add(
        "Get-Command",
        "Name@0 -ArgumentList=Args@1 -Verb -Noun -Module=PSSnapin -FullyQualifiedModule -CommandType=Type -TotalCount "
        "-Syntax? -ShowCommandInfo? -All? -ListImported? -ParameterName -ParameterType 7:-UseFuzzyMatching? "
        "7:-FuzzyMinimumDistance 7:-UseAbbreviationExpansion? 7:-ExcludeModule",
        once(_get_command), "gcm",
    )  # fmt: skip
    library.add(
        "Get-Date",
        "-Date=LastWriteTime@0 Format:text UFormat:text -Year -Month -Day -Hour -Minute -Second -Millisecond "
        "-DisplayHint 7:AsUTC? 7:-UnixTimeSeconds",
        once(_get_date),
    )
    library.add("Start-Sleep", "Seconds@0:number Milliseconds=ms:int 7:-Duration=ts", once(_start_sleep), "sleep")
    library.add("New-Object", "TypeName@0 ArgumentList=Args@1 -Property -ComObject -Strict?", once(_new_object))
