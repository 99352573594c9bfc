"""Cmdlets that work on what comes through a pipeline: ForEach-Object, Where-Object, Select-Object."""

from hybridlab.powershell.binding import Call, plain_value
from hybridlab.powershell.conversion import to_int
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.flow import Enough
from hybridlab.powershell.objects import (
    SELECTED,
    HashTable,
    NetObject,
    enumerate_value,
    to_text,
    truth,
    unwrap,
)
from hybridlab.powershell.shell import Library, Shell, Stage
from hybridlab.powershell.syntax import NotEmulated, ScriptBlock

_OPERATORS = ("eq", "ne", "gt", "ge", "lt", "le", "match", "notmatch")


class _ForEach(Stage):
    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        given = [*enumerate_value(call.get("process")), *call.remaining]
        if len(given) != 1 or not isinstance(given[0], ScriptBlock):
            raise NotEmulated("these arguments of ForEach-Object")
        self._block = given[0]

    async def process(self, item: object) -> None:
        await self.shell.call_block(self._block, self.emit, item)

    async def alone(self) -> None:
        raise NotEmulated("ForEach-Object without pipeline input")


class _Where(Stage):
    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        bare = list(call.remaining)
        self._block = call.get("filterscript")
        self._name: object = call.get("property")
        self._wanted = plain_value(call.get("value"))
        if bare and self._block is None and isinstance(bare[0], ScriptBlock):
            self._block = bare.pop(0)
        elif bare and self._block is None and self._name is None:
            self._name = bare.pop(0)
        if bare and self._name is not None and not call.has("value"):
            self._wanted = plain_value(bare.pop(0))
        chosen = [name for name in _OPERATORS if call.flag(name)] + [
            f"c{name}" for name in _OPERATORS if call.flag(f"c{name}")
        ]
        given = self._block is not None and isinstance(self._block, ScriptBlock) and not chosen and self._name is None
        if bare or len(chosen) > 1 or not (given or (self._block is None and self._name is not None)):
            raise NotEmulated("these arguments of Where-Object")
        self._operator = chosen[0] if chosen else ""
        if self._wanted is not None and not self._operator:
            raise NotEmulated("these arguments of Where-Object")

    async def process(self, item: object) -> None:
        if isinstance(self._block, ScriptBlock):
            keep = truth(unwrap(await self.shell.block_values(self._block, item)))
        else:
            keep = self._agrees(self.shell.property(item, to_text(self._name)))
        if keep:
            await self.emit(item)

    async def alone(self) -> None:
        raise NotEmulated("Where-Object without pipeline input")

    def _agrees(self, value: object) -> bool:
        operator = self._operator
        if not operator:
            return truth(value)
        sensitive = operator.startswith("c")
        operator = operator[1:] if sensitive else operator
        return truth(self.shell.comparison(operator, value, self._wanted, sensitive=sensitive))


class _Select(Stage):
    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        self._first = to_int(call.get("first")) if call.has("first") else None
        self._taken = 0
        self._properties = enumerate_value(call.get("property"))
        if self._first is not None and self._first < 0:
            raise call.fault("Cannot validate argument on parameter 'first'.", "ParameterArgumentValidationError")
        if call.has("expandproperty") and self._properties:
            raise NotEmulated("Select-Object -ExpandProperty with -Property")

    async def process(self, item: object) -> None:
        if self._taken == self._first:
            raise Enough(self)
        self._taken += 1
        await self._out(item)
        if self._taken == self._first:
            raise Enough(self)

    async def alone(self) -> None:
        raise NotEmulated("Select-Object without pipeline input")

    async def _out(self, item: object) -> None:
        if self.call.has("expandproperty"):
            await self._expand(item, self.call.text("expandproperty"))
        elif not self._properties:
            await self.emit(item)
        else:
            await self.emit(await self._picked(item))

    async def _expand(self, item: object, name: str) -> None:
        if item is None or isinstance(item, (list, HashTable)) or "*" in name:
            raise NotEmulated("Select-Object -ExpandProperty of null, an array or a hashtable")
        if isinstance(item, NetObject) and item.custom and not item.has(name):
            raise Fault(
                f'Property "{name}" cannot be found.',
                f"InvalidArgument: ({item.words()}:PSObject) [{self.call.name}], PSArgumentException",
                "ExpandPropertyNotFound,Microsoft.PowerShell.Commands.SelectObjectCommand",
                source=self.call.typed,
                terminating=False,
            )
        value = self.shell.property(item, name)
        if value is None and not isinstance(item, NetObject):
            raise NotEmulated(f"property {name} of this value")
        await self.put(enumerate_value(value) if value is not None else [None])

    async def _picked(self, item: object) -> NetObject:
        if item is None or isinstance(item, (list, HashTable)):
            raise NotEmulated("Select-Object of null, an array or a hashtable")
        properties: dict[str, object] = {}
        for property_ in self._properties:
            if isinstance(property_, HashTable):
                raise NotEmulated("Select-Object with computed properties")
            if to_text(property_) == "*" and isinstance(item, NetObject) and item.custom:
                properties |= {key: item.get(key) for key in item.properties}
                continue
            if isinstance(property_, (ScriptBlock, list)) or "*" in to_text(property_) or "?" in to_text(property_):
                raise NotEmulated("Select-Object with script blocks or wildcards")
            name, value = to_text(property_), self.shell.property(item, to_text(property_))
            if name.lower() in (known.lower() for known in properties):
                raise NotEmulated("Select-Object with one name twice")
            properties[name] = value
        return NetObject.of_properties(SELECTED, properties)


def add_to(library: Library) -> None:
    """Register them with their aliases."""
    library.add(
        "ForEach-Object",
        "Process* -Begin -End -MemberName -ArgumentList=Args -InputObject -RemainingScripts -WhatIf=wi? -Confirm=cf?",
        _ForEach, "%", "foreach",
    )  # fmt: skip
    switches = " ".join(
        f"{name}=I{name}? C{name}?" for name in ("EQ", "NE", "GT", "GE", "LT", "LE", "Match", "NotMatch")
    )
    library.add(
        "Where-Object",
        f"FilterScript* Property Value {switches} -InputObject -Like=ILike? -NotLike=INotLike? -CLike? -CNotLike? "
        "-Contains? -NotContains? -In? -NotIn? -Is? -IsNot?",
        _Where, "?", "where",
    )  # fmt: skip
    library.add(
        "Select-Object",
        "Property@0 ExpandProperty First:int -Last -Skip -Unique? -SkipLast -Index -Wait? -ExcludeProperty "
        "-InputObject",
        _Select, "select",
    )  # fmt: skip
