"""Cmdlets that write: Write-Host, Write-Output, Out-Null, Out-Host."""

from hybridlab.powershell.objects import HashTable, enumerate_value, to_text
from hybridlab.powershell.shell import Library, Stage
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


class _OutNull(Stage):
    async def process(self, item: object) -> None:
        """Nothing."""


class _OutHost(Stage):
    async def process(self, item: object) -> None:
        await self.shell.show(item)


def add_to(library: Library) -> None:
    """Register them with their aliases."""
    library.add("Write-Host", "Object* NoNewline? Separator ForegroundColor BackgroundColor -Message -Msg", _WriteHost)
    library.add("Write-Output", "InputObject* NoEnumerate?", _WriteOutput, "echo", "write")
    library.add("Out-Null", "-InputObject", _OutNull)
    library.add("Out-Host", "-InputObject -Paging?", _OutHost, "oh")
    library.add("Out-Default", "-InputObject -Transcript?", _OutHost)
