"""Cmdlets that write: Write-Host and its relatives, Out-Null, Out-Host, Out-String, Format-List, Format-Table."""

from __future__ import annotations

from hybridlab.powershell.binding import Call
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.formatting import lines_of
from hybridlab.powershell.objects import HashTable, NetObject, enumerate_value, to_text
from hybridlab.powershell.shell import Library, Shell, Stage
from hybridlab.powershell.stages import collecting, once
from hybridlab.powershell.syntax import NotEmulated


def _joined(value: object, separator: str) -> str:
    """How Write-Host shows its argument: the parts of arrays joined, also of arrays inside arrays."""
    if isinstance(value, list):
        return separator.join(_joined(item, separator) for item in enumerate_value(value))
    if isinstance(value, HashTable):
        raise NotEmulated("Write-Host of a hashtable")
    return to_text(value)


_COLORS = frozenset(
    (
        *("black", "darkblue", "darkgreen", "darkcyan", "darkred", "darkmagenta", "darkyellow", "gray", "darkgray"),
        *("blue", "green", "cyan", "red", "magenta", "yellow", "white"),
    )
)


class _WriteHost(Stage):
    async def process(self, item: object) -> None:
        if self.call.has("object") or self.call.remaining:
            raise NotEmulated("pipeline input of Write-Host beside its arguments")
        await self._say(item)

    async def begin(self) -> None:
        for name in ("foregroundcolor", "backgroundcolor"):
            if self.call.has(name) and self.call.text(name).lower() not in _COLORS:
                raise NotEmulated(f"Write-Host -{name} {self.call.text(name)}")

    async def alone(self) -> None:
        given = [self.call.get("object")] if self.call.has("object") else self.call.remaining
        await self._say(given[0] if len(given) == 1 else given)

    async def _say(self, value: object) -> None:
        text = _joined(value, self.call.text("separator", " "))
        await self.shell.inform(text, "" if self.call.flag("nonewline") else "\r\n")


class _WriteOutput(Stage):
    async def process(self, item: object) -> None:
        await self.emit(item)

    async def alone(self) -> None:
        given = [self.call.get("inputobject")] if self.call.has("inputobject") else self.call.remaining
        if not given:
            raise NotEmulated("Write-Output without an argument")
        if len(given) > 1 and any(isinstance(item, list) for item in given):
            raise NotEmulated("Write-Output of arrays among its arguments")
        if self.call.flag("noenumerate"):
            if len(given) > 1:
                raise NotEmulated("Write-Output -NoEnumerate of several arguments")
            await self.emit(given[0])
            return
        for item in given:
            await self.put(enumerate_value(item) if item is not None else [None])


async def _write_error(shell: Shell, call: Call) -> list[object]:
    """A non-terminating error."""
    if not call.has("message"):
        raise NotEmulated("Write-Error without a message")
    identity = "Microsoft.PowerShell.Commands.WriteErrorException"
    category = "NotSpecified: (:) [Write-Error], WriteErrorException"
    raise Fault(
        call.text("message"), category, identity, source=shell.script, terminating=False,
        kind="Microsoft.PowerShell.Commands.WriteErrorException",
    )  # fmt: skip


async def _write_warning(shell: Shell, call: Call) -> list[object]:
    await shell.warn(call.text("message"), call)
    return []


async def _write_verbose(shell: Shell, call: Call) -> list[object]:
    await shell.tell("verbose", call.text("message"), call)
    return []


async def _write_debug(shell: Shell, call: Call) -> list[object]:
    await shell.tell("debug", call.text("message"), call)
    return []


class _OutNull(Stage):
    async def process(self, item: object) -> None:
        """Nothing."""


class _OutHost(Stage):
    async def process(self, item: object) -> None:
        await self.shell.show(item)


async def _out_string(shell: Shell, call: Call, piped: list[object] | None) -> list[object]:
    lines = lines_of(enumerate_value(call.get("inputobject")) if call.has("inputobject") else piped or [])
    if call.flag("stream"):
        return list(lines)
    if not shell.seven and not lines:
        raise NotEmulated("Out-String of nothing")
    return ["".join(f"{line}\r\n" for line in lines)]


def _viewed(call: Call, piped: list[object] | None, view: str) -> list[object]:
    names = tuple(to_text(name) for name in enumerate_value(call.get("property")))
    if any("*" in name and name != "*" for name in names) or any(
        isinstance(name, (HashTable,)) for name in enumerate_value(call.get("property"))
    ):
        raise NotEmulated(f"{call.name} with wildcards or computed properties")
    shown: list[object] = []
    for item in piped or []:
        if not isinstance(item, NetObject):
            if names or isinstance(item, HashTable):
                raise NotEmulated(f"{call.name} of a value that is no object")
            shown.append(item)
            continue
        if not names and not item.shown and not item.custom:
            raise NotEmulated(f"{call.name} of {item.type_name}")
        wanted = names if names and names != ("*",) else item.shown or tuple(item.properties)
        made = NetObject(f"{view} of {item.type_name}", {name: item.get(name) for name in wanted})
        made.shown, made.table = wanted, wanted if view == "table" else ()
        shown.append(made)
    return shown


async def _format_list(shell: Shell, call: Call, piped: list[object] | None) -> list[object]:
    return _viewed(call, piped, "list")


async def _format_table(shell: Shell, call: Call, piped: list[object] | None) -> list[object]:
    if not call.flag("autosize"):
        raise NotEmulated("Format-Table without -AutoSize")
    return _viewed(call, piped, "table")


_FORMATS = "Property@0 -GroupBy -View -ShowError? -DisplayError? -Force? -Expand -InputObject"


def add_to(library: Library) -> None:
    """Register them with their aliases."""
    library.add("Write-Host", "Object* NoNewline? Separator ForegroundColor BackgroundColor -Message -Msg", _WriteHost)
    library.add("Write-Output", "InputObject* NoEnumerate?", _WriteOutput, "echo", "write")
    library.add(
        "Write-Error",
        "Message=Msg@0 -Exception -ErrorRecord -Category -ErrorId -TargetObject -RecommendedAction "
        "-CategoryActivity=Activity -CategoryReason=Reason -CategoryTargetName=TargetName "
        "-CategoryTargetType=TargetType",
        once(_write_error),
    )
    library.add("Write-Warning", "Message=Msg@0", once(_write_warning))
    library.add("Write-Verbose", "Message=Msg@0", once(_write_verbose))
    library.add("Write-Debug", "Message=Msg@0", once(_write_debug))
    library.add("Out-Null", "-InputObject", _OutNull)
    library.add("Out-Host", "-InputObject -Paging?", _OutHost, "oh")
    library.add("Out-Default", "-InputObject -Transcript?", _OutHost)
    library.add("Out-String", "Stream? -Width:int InputObject 7:-NoNewline?", collecting(_out_string))
    library.add("Format-List", _FORMATS, collecting(_format_list), "fl")
    table = f"AutoSize? -HideTableHeaders? -Wrap? 7:-RepeatHeader? {_FORMATS}"
    library.add("Format-Table", table, collecting(_format_table), "ft")
