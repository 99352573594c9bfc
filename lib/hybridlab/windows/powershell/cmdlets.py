"""The cmdlets that touch no network: output, objects, time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

from hybridlab.windows.powershell import formatting
from hybridlab.windows.powershell import syntax as s
from hybridlab.windows.powershell.faults import Fault
from hybridlab.windows.powershell.interpreter import Call, Interpreter, Library
from hybridlab.windows.powershell.objects import (
    CUSTOM_OBJECT,
    HashTable,
    NetObject,
    enumerate_value,
    to_number,
    to_text,
    truth,
    unwrap,
)
from hybridlab.windows.powershell.operators import equal
from hybridlab.windows.powershell.syntax import NotEmulated

JSON_DEPTH = 2
"""Of ConvertTo-Json when nothing else is asked for."""


def parameter(call: Call, *names: str, position: int | None = None, default: object = None) -> object:
    """An argument by its names, unambiguous beginnings of them, or its position."""
    for name in names:
        for given, value in call.named.items():
            if name.startswith(given) and (given == name or len(given) > 2 or len(name) <= 3):
                return value
    if position is not None and position < len(call.positional):
        return call.positional[position]
    return default


def only(call: Call, *names: str, positions: int = 0) -> None:
    """Refuse parameters that this emulation would ignore."""
    for given in call.named:
        if not any(name.startswith(given) for name in names):
            raise NotEmulated(f"parameter -{given} of {call.name}")
    if len(call.positional) > positions:
        raise NotEmulated(f"argument {to_text(call.positional[positions])!r} of {call.name}")


def join_words(values: list[object], separator: str = " ") -> str:
    """How Write-Host joins its arguments."""
    return separator.join(to_text(value) for value in values)


async def write_host(shell: Interpreter, call: Call) -> list[object]:
    """Text on the host, which is standard output here."""
    only(call, "object", "nonewline", "foregroundcolor", "backgroundcolor", "separator", positions=99)
    given = parameter(call, "object")
    values = call.positional if given is None else enumerate_value(given)
    text = join_words(values or call.piped or [], to_text(parameter(call, "separator", default=" ")))
    await shell.write(text + ("" if call.named.get("nonewline") else "\r\n"))
    return []


async def write_output(shell: Interpreter, call: Call) -> list[object]:
    """Its arguments, into the pipeline."""
    only(call, "inputobject", "noenumerate", positions=99)
    given = parameter(call, "inputobject")
    values = call.positional if given is None else [given]
    return [item for value in values for item in enumerate_value(value)] or list(call.piped or [])


async def write_error(shell: Interpreter, call: Call) -> list[object]:
    """A non-terminating error."""
    only(call, "message", positions=1)
    message = to_text(parameter(call, "message", position=0))
    identity = "Microsoft.PowerShell.Commands.WriteErrorException"
    category = "NotSpecified: (:) [Write-Error], WriteErrorException"
    raise Fault(message, category, identity, source=shell.script, terminating=False)


async def write_warning(shell: Interpreter, call: Call) -> list[object]:
    """``WARNING: ...`` on the host."""
    only(call, "message", positions=1)
    await shell.write(f"WARNING: {to_text(parameter(call, 'message', position=0))}\r\n")
    return []


async def start_sleep(shell: Interpreter, call: Call) -> list[object]:
    """Seconds, or -Milliseconds."""
    only(call, "seconds", "milliseconds", positions=1)
    milliseconds = parameter(call, "milliseconds")
    seconds = to_number(milliseconds) / 1000 if milliseconds is not None else None
    await asyncio.sleep(to_number(parameter(call, "seconds", position=0)) if seconds is None else seconds)
    return []


async def for_each_object(shell: Interpreter, call: Call) -> list[object]:
    """``% { ... }`` and ``% Property``."""
    only(call, "process", "membername", positions=1)
    what = parameter(call, "process", "membername", position=0)
    values: list[object] = []
    for item in call.piped or []:
        if isinstance(what, s.ScriptBlock):
            values += await shell.call_block(what, {"_": item, "psitem": item})
        else:
            values += enumerate_value(await shell.instance(item, to_text(what), None))
    return values


async def where_object(shell: Interpreter, call: Call) -> list[object]:
    """``? { ... }`` and ``? Property -eq value``."""
    values: list[object] = []
    what = parameter(call, "filterscript", position=0)
    for item in call.piped or []:
        if isinstance(what, s.ScriptBlock):
            keep = truth(unwrap(await shell.call_block(what, {"_": item, "psitem": item})))
        else:
            value = await shell.instance(item, to_text(what), None)
            operators = [key for key in call.named if key in ("eq", "ne", "like", "match", "gt", "lt", "ge", "le")]
            if len(operators) > 1 or len(call.named) > len(operators):
                raise NotEmulated(f"parameters of {call.name}")
            keep = shell.compare(operators[0], value, call.named[operators[0]]) if operators else truth(value)
        if keep:
            values.append(item)
    return values


async def select_object(shell: Interpreter, call: Call) -> list[object]:
    """-Property, -ExpandProperty, -First, -Last, -Unique."""
    only(call, "property", "expandproperty", "first", "last", "unique", positions=1)
    values = list(call.piped or [])
    if (first := parameter(call, "first")) is not None:
        values = values[: int(to_number(first))]
    if (last := parameter(call, "last")) is not None:
        values = values[-int(to_number(last)) :]
    if call.named.get("unique"):
        kept: list[object] = []
        for item in values:
            if not any(equal(item, other) for other in kept):
                kept.append(item)
        values = kept
    if (name := parameter(call, "expandproperty")) is not None:
        return [part for item in values for part in enumerate_value(await shell.instance(item, to_text(name), None))]
    names = [to_text(name) for name in enumerate_value(parameter(call, "property", position=0))]
    if not names or names == ["*"]:
        return values
    made: list[object] = []
    for item in values:
        properties = {name: await shell.instance(item, name, None) for name in names}
        table = tuple(names) if len(names) <= 4 else ()
        made.append(
            NetObject(
                "Selected.System.Management.Automation.PSCustomObject", properties, shown=tuple(names), table=table
            )
        )
    return made


async def measure_object(shell: Interpreter, call: Call) -> list[object]:
    """Count only."""
    only(call)
    return [
        NetObject("Microsoft.PowerShell.Commands.GenericMeasureInfo", shown=("Count",), Count=len(call.piped or []))
    ]


async def out_null(shell: Interpreter, call: Call) -> list[object]:
    """Nothing."""
    return []


async def out_string(shell: Interpreter, call: Call) -> list[object]:
    """The text that the host would show."""
    only(call)
    return ["".join(f"{line}\r\n" for line in formatting.render(call.piped or []))]


async def format_list(shell: Interpreter, call: Call) -> list[object]:
    """List view of some or all properties."""
    only(call, "property", positions=1)
    names = tuple(to_text(name) for name in enumerate_value(parameter(call, "property", position=0)))
    shown: list[object] = []
    for item in call.piped or []:
        if not isinstance(item, NetObject):
            shown.append(item)
            continue
        wanted = names if names and names != ("*",) else item.shown or tuple(item.properties)
        shown.append(NetObject(item.type_name, {name: item.get(name) for name in wanted}, shown=wanted))
    return list(formatting.render(shown))


async def convert_to_json(shell: Interpreter, call: Call) -> list[object]:
    """-Compress and -Depth; 5.1's two-column indentation is not imitated."""
    only(call, "inputobject", "depth", "compress", positions=1)
    given = parameter(call, "inputobject", position=0)
    if given is None and not call.piped and call.piped is not None:
        return []  # nothing was piped in: nothing comes out
    depth = int(to_number(parameter(call, "depth", default=JSON_DEPTH)))
    value = _plain(unwrap(list(call.piped)) if given is None and call.piped is not None else given, depth)
    if call.named.get("compress"):
        return [json.dumps(value, separators=(",", ":"), ensure_ascii=False)]
    return [json.dumps(value, indent=4, separators=(",", ":  "), ensure_ascii=False).replace("\n", "\r\n")]


def _plain(value: object, depth: int) -> object:
    """A value as JSON has it; below ``depth`` levels objects are their text, as ConvertTo-Json cuts them."""
    if isinstance(value, NetObject) and value.text is not None:
        return value.text if value.number is None else value.number
    if not isinstance(value, (HashTable, NetObject, list, bytes)):
        return value
    if depth < 0:
        return _cut_off(value)
    if isinstance(value, HashTable):
        return {to_text(key): _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, NetObject):
        return {name: _plain(value.get(name), depth - 1) for name in value.shown or value.properties}
    return [_plain(item, depth - 1) for item in value]


def _cut_off(value: object) -> str:
    if isinstance(value, NetObject) and value.type_name == CUSTOM_OBJECT:
        shown = {name: value.get(name) for name in value.properties}
        texts = {name: "System.Object[]" if isinstance(item, list) else to_text(item) for name, item in shown.items()}
        return "@{" + "; ".join(f"{name}={text}" for name, text in texts.items()) + "}"
    return to_text(value)


async def convert_from_json(shell: Interpreter, call: Call) -> list[object]:
    """Objects, arrays and plain values."""
    only(call, "inputobject", positions=1)
    given = parameter(call, "inputobject", position=0)
    text = to_text(given) if given is not None else "\n".join(to_text(item) for item in call.piped or [])
    try:
        return enumerate_value(from_json(json.loads(text)))
    except json.JSONDecodeError as error:
        raise Fault(
            f"Invalid JSON primitive: {text[error.pos : error.pos + 20]}.",
            "NotSpecified: (:) [ConvertFrom-Json], ArgumentException",
            "System.ArgumentException,Microsoft.PowerShell.Commands.ConvertFromJsonCommand",
            source="ConvertFrom-Json",
        ) from None


def from_json(value: object) -> object:
    """A decoded JSON value as PowerShell has it."""
    if isinstance(value, dict):
        properties = {name: from_json(item) for name, item in value.items()}
        return NetObject(CUSTOM_OBJECT, properties, shown=tuple(properties))
    return [from_json(item) for item in value] if isinstance(value, list) else value


async def get_date(shell: Interpreter, call: Call) -> list[object]:
    """-Format in the forms that logs use."""
    only(call, "format", "uformat", positions=0)
    now = time.gmtime()
    wanted = to_text(parameter(call, "format", default=""))
    known = {"o": "%Y-%m-%dT%H:%M:%S.0000000+00:00", "s": "%Y-%m-%dT%H:%M:%S", "": "%A, %B %d, %Y %I:%M:%S %p"}
    if wanted not in known:
        for net, posix in (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S")):
            known[wanted] = known.get(wanted, wanted).replace(net, posix)
    return [time.strftime(known[wanted], now)]


async def get_content(shell: Interpreter, call: Call) -> list[object]:
    """Lines of a file, or all of it with -Raw."""
    only(call, "path", "raw", "literalpath", positions=1)
    path = to_text(parameter(call, "path", "literalpath", position=0))
    try:
        text = shell.process.files.read(path).decode("utf-8-sig", "replace")
    except OSError:
        raise Fault(
            f"Cannot find path '{path}' because it does not exist.",
            f"ObjectNotFound: ({path}:String) [Get-Content], ItemNotFoundException",
            "PathNotFound,Microsoft.PowerShell.Commands.GetContentCommand",
            source=call.name,
            terminating=False,
        ) from None
    return [text] if call.named.get("raw") else list(text.splitlines())


async def test_path(shell: Interpreter, call: Call) -> list[object]:
    """Whether a file is there."""
    only(call, "path", positions=1)
    try:
        shell.process.files.read(to_text(parameter(call, "path", position=0)))
    except OSError:
        return [False]
    return [True]


async def new_object(shell: Interpreter, call: Call) -> list[object]:
    """The .NET types of ``dotnet``."""
    only(call, "typename", "argumentlist", positions=2)
    name = to_text(parameter(call, "typename", position=0))
    key = name.lower().removeprefix("system.")
    make: Callable[..., object] | None = shell.library.constructors.get(key)
    if make is None:
        raise NotEmulated(f"New-Object {name}")
    arguments = parameter(call, "argumentlist", position=1, default=[])
    return [make(shell, arguments if isinstance(arguments, list) else [arguments])]


def add_to(library: Library) -> None:
    """Register them with their aliases."""
    library.cmdlets |= {
        "write-host": write_host,
        "write-output": write_output,
        "write-error": write_error,
        "write-warning": write_warning,
        "write-verbose": out_null,
        "start-sleep": start_sleep,
        "foreach-object": for_each_object,
        "where-object": where_object,
        "select-object": select_object,
        "measure-object": measure_object,
        "out-null": out_null,
        "out-string": out_string,
        "out-default": write_output,
        "format-list": format_list,
        "convertto-json": convert_to_json,
        "convertfrom-json": convert_from_json,
        "get-date": get_date,
        "get-content": get_content,
        "test-path": test_path,
        "new-object": new_object,
        "set-strictmode": out_null,
    }
    library.aliases |= {
        "echo": "write-output",
        "write": "write-output",
        "sleep": "start-sleep",
        "%": "foreach-object",
        "foreach": "foreach-object",
        "?": "where-object",
        "where": "where-object",
        "select": "select-object",
        "measure": "measure-object",
        "fl": "format-list",
        "cat": "get-content",
        "type": "get-content",
        "gc": "get-content",
    }
