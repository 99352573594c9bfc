"""Cmdlets that work on what comes through a pipeline: ForEach-Object, Where-Object, Select-Object, Sort-Object,
Measure-Object, Tee-Object.
"""

from __future__ import annotations

from functools import cmp_to_key

from hybridlab.powershell.binding import Call, plain_value
from hybridlab.powershell.comparison import equal, order
from hybridlab.powershell.conversion import to_int, to_number
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.flow import Enough
from hybridlab.powershell.members import is_string_method
from hybridlab.powershell.objects import (
    SELECTED,
    ArrayList,
    Char,
    HashTable,
    NetObject,
    enumerate_value,
    to_text,
    truth,
    unwrap,
)
from hybridlab.powershell.shell import Library, Shell, Stage
from hybridlab.powershell.stages import collecting
from hybridlab.powershell.syntax import NotEmulated, ScriptBlock

_OPERATORS = ("eq", "ne", "gt", "ge", "lt", "le", "like", "notlike", "match", "notmatch", "contains", "notcontains",
              "in", "notin")  # fmt: skip


class _ForEach(Stage):
    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        given = [enumerate_value(call.get(name)) for name in ("begin", "process", "end")]
        self._begin, self._process, self._end = given
        self._member = call.text("membername")
        bare = list(call.remaining)
        blocks = [script_block for script_block in bare if isinstance(script_block, ScriptBlock)]
        self._arguments = enumerate_value(call.get("argumentlist"))
        if blocks and len(blocks) == len(bare) and not self._member and len(blocks) <= 3 - sum(map(bool, given)):
            if len(blocks) > 1 and any(given):
                raise NotEmulated("these script blocks of ForEach-Object")
            names = {1: ("process",), 2: ("begin", "process"), 3: ("begin", "process", "end")}[len(blocks)]
            for name, block in zip(names, blocks, strict=True):
                getattr(self, f"_{name}").append(block)
        elif bare and not self._member and not isinstance(bare[0], ScriptBlock):
            self._member, self._arguments = to_text(bare[0]), [*self._arguments, *bare[1:]]
        elif bare:
            raise NotEmulated("these arguments of ForEach-Object")
        if self._member and self._process:
            raise NotEmulated("these arguments of ForEach-Object")

    async def begin(self) -> None:
        await self._run(self._begin, None)

    async def process(self, item: object) -> None:
        if self._member:
            await self.put(await self._value(item))
        await self._run(self._process, item)

    async def alone(self) -> None:
        raise NotEmulated("ForEach-Object without pipeline input")

    async def end(self) -> None:
        await self._run(self._end, None)

    async def _run(self, blocks: list[object], item: object) -> None:
        for block in blocks:
            if not isinstance(block, ScriptBlock):
                raise NotEmulated("ForEach-Object with something that is no script block")
            await self.shell.call_block(block, self.emit, item)

    async def _value(self, item: object) -> list[object]:
        """The member of one object: a method is called, a property read."""
        name = self._member
        method = isinstance(item, NetObject) and name.lower() in item.methods
        if isinstance(item, str) and not isinstance(item, Char) and is_string_method(name):
            method = True
        if name.lower() in ("gettype", "tostring") or self._arguments or "*" in name:
            method = True
        if isinstance(item, HashTable) and not item.has(name) and name.lower() not in ("count", "keys", "values"):
            raise NotEmulated(f"member {name} of a hashtable")
        if isinstance(item, (str, int, float, list)) and not method and name.lower() not in ("length", "count"):
            raise NotEmulated(f"member {name} of this value")
        if method:
            return enumerate_value(await self.shell.method(item, name, self._arguments))
        return enumerate_value(self.shell.property(item, name))


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
        sensitive = operator.startswith("c") and operator != "contains"
        operator = operator[1:] if sensitive else operator
        if operator in ("contains", "notcontains", "in", "notin"):
            values, one = (value, self._wanted) if "contains" in operator else (self._wanted, value)
            items = list(values) if isinstance(values, list) else [values]
            return any(equal(item, one, sensitive=sensitive) for item in items) != operator.startswith("not")
        return truth(self.shell.comparison(operator, value, self._wanted, sensitive=sensitive))


class _Select(Stage):
    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        self._limits = {name: self._count(name) for name in ("first", "last", "skip") if call.has(name)}
        self._taken = self._skipped = 0
        self._kept: list[object] = []
        self._properties = enumerate_value(call.get("property"))
        if "last" in self._limits and len(self._limits) > 1:
            raise NotEmulated("Select-Object -Last with -First or -Skip")
        if call.flag("unique") and (self._limits or self._properties):
            raise NotEmulated("Select-Object -Unique with other parameters")
        if call.has("expandproperty") and self._properties:
            raise NotEmulated("Select-Object -ExpandProperty with -Property")

    def _count(self, name: str) -> int:
        count = to_int(self.call.get(name))
        if count < 0:
            raise self.call.fault(
                f"Cannot validate argument on parameter '{name}'.", "ParameterArgumentValidationError"
            )
        return count

    async def process(self, item: object) -> None:
        if self.call.flag("unique"):
            if not any(self._same(item, other) for other in self._kept):
                self._kept.append(item)
                await self._out(item)
            return
        if "last" in self._limits:
            self._kept.append(item)
            return
        if self._skipped < self._limits.get("skip", 0):
            self._skipped += 1
            return
        first = self._limits.get("first")
        if first is not None and self._taken >= first:
            raise Enough(self)
        self._taken += 1
        await self._out(item)
        if self._taken == first:
            raise Enough(self)

    async def alone(self) -> None:
        raise NotEmulated("Select-Object without pipeline input")

    async def end(self) -> None:
        if count := self._limits.get("last"):
            for item in self._kept[-count:]:
                await self._out(item)

    @staticmethod
    def _same(one: object, other: object) -> bool:
        if isinstance(one, (NetObject, HashTable, list)):
            raise NotEmulated("Select-Object -Unique of objects")
        return type(one) is type(other) and equal(one, other, sensitive=True)

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
                name, value = await self._computed(property_, item)
            elif to_text(property_) == "*" and isinstance(item, NetObject) and item.custom:
                properties |= {key: item.get(key) for key in item.properties}
                continue
            elif isinstance(property_, (ScriptBlock, list)) or "*" in to_text(property_) or "?" in to_text(property_):
                raise NotEmulated("Select-Object with script blocks or wildcards")
            else:
                name, value = to_text(property_), self.shell.property(item, to_text(property_))
            if name.lower() in (known.lower() for known in properties):
                raise NotEmulated("Select-Object with one name twice")
            properties[name] = value
        return NetObject.of_properties(SELECTED, properties)

    async def _computed(self, table: HashTable, item: object) -> tuple[str, object]:
        """``@{Name=...; Expression={...}}``; the keys may be shortened."""
        name, expression = None, None
        for key, value in table.items():
            word = to_text(key).lower()
            if word and ("name".startswith(word) or "label".startswith(word)) and name is None:
                name = to_text(value)
            elif word and "expression".startswith(word) and expression is None:
                expression = value
            else:
                raise NotEmulated("these keys of a computed property")
        if name is None or not isinstance(expression, (ScriptBlock, str)):
            raise NotEmulated("this computed property")
        if isinstance(expression, str):
            return name, self.shell.property(item, expression)
        return name, unwrap(await self.shell.block_values(expression, item))


async def _sort_object(shell: Shell, call: Call, piped: list[object] | None) -> list[object]:
    """By the values themselves, properties or script blocks; all keys of a kind, so that the order is certain."""
    wanted = enumerate_value(call.get("property"))
    keys: list[list[object]] = []
    for item in piped or []:
        if isinstance(item, (list, HashTable)) or (isinstance(item, NetObject) and not wanted and item.custom):
            raise NotEmulated("Sort-Object of these objects")
        keys.append([await _key(shell, entry, item) for entry in wanted] or [item])
    kinds = {tuple(_kind(key) for key in row) for row in keys}
    if len(kinds) > 1:
        raise NotEmulated("Sort-Object of values of different types")

    def compare(one: int, other: int) -> int:
        for left, right in zip(keys[one], keys[other], strict=True):
            if found := order(left, right):
                return found
        if one != other and not all(left is right or (type(left) is type(right) and left == right)
                                    for left, right in zip(keys[one], keys[other], strict=True)):  # fmt: skip
            raise NotEmulated("Sort-Object of texts that differ in case")
        if one != other and isinstance((piped or [])[one], NetObject) and not call.flag("unique"):
            raise NotEmulated("Sort-Object of objects with the same key")
        return 0

    places = sorted(range(len(keys)), key=cmp_to_key(compare), reverse=call.flag("descending"))
    if call.flag("unique"):
        if wanted:
            raise NotEmulated("Sort-Object -Unique by properties")
        places = [place for number, place in enumerate(places) if not number or compare(places[number - 1], place)]
    return [(piped or [])[place] for place in places]


async def _key(shell: Shell, wanted: object, item: object) -> object:
    if isinstance(wanted, ScriptBlock):
        return unwrap(await shell.block_values(wanted, item))
    if isinstance(wanted, (HashTable, list)) or "*" in to_text(wanted):
        raise NotEmulated("Sort-Object by computed properties or wildcards")
    return shell.property(item, to_text(wanted))


def _kind(value: object) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, (list, Char)):
        raise NotEmulated("Sort-Object of these values")
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


async def _measure_object(shell: Shell, call: Call, piped: list[object] | None) -> list[object]:
    """Count, and sum, average, largest and smallest of numbers."""
    name = call.text("property")
    piped = [item for item in piped or [] if item is not None]
    items = [shell.property(item, name) for item in piped] if name else piped
    names = [
        "Count",
        "Average",
        "Sum",
        "Maximum",
        "Minimum",
        *(["StandardDeviation"] if shell.seven else []),
        "Property",
    ]
    properties: dict[str, object] = dict.fromkeys(names)
    properties |= {"Count": len(items), "Property": name or None}
    if any(call.flag(item) for item in ("sum", "average", "maximum", "minimum")):
        if any(isinstance(item, bool) or not isinstance(item, (int, float)) for item in items) or not items:
            raise NotEmulated("Measure-Object of values that are no numbers")
        numbers = [float(to_number(item)) for item in items]
        results = {"Sum": sum(numbers), "Average": sum(numbers) / len(numbers)}
        results |= {"Maximum": max(numbers), "Minimum": min(numbers)}
        properties |= {key: value for key, value in results.items() if call.flag(key.lower())}
    elif name:
        raise NotEmulated("Measure-Object -Property without a measure")
    return [NetObject("Microsoft.PowerShell.Commands.GenericMeasureInfo", properties, shown=tuple(names))]


class _Tee(Stage):
    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        if not call.has("variable"):
            raise NotEmulated("Tee-Object into a file")
        self._kept = ArrayList()

    async def process(self, item: object) -> None:
        self._kept.append(item)
        await self.emit(item)

    async def end(self) -> None:
        self.shell.scope.variables[self.call.text("variable").lower()] = unwrap(list(self._kept))


def add_to(library: Library) -> None:
    """Register them with their aliases."""
    library.add(
        "ForEach-Object",
        "Process* Begin End MemberName ArgumentList=Args -InputObject -RemainingScripts -WhatIf=wi? -Confirm=cf? "
        "7:-Parallel 7:-ThrottleLimit 7:-TimeoutSeconds 7:-AsJob? 7:-UseNewRunspace?",
        _ForEach, "%", "foreach",
    )  # fmt: skip
    switches = " ".join(
        f"{name}=I{name}? C{name}?" for name in
        ("EQ", "NE", "GT", "GE", "LT", "LE", "Like", "NotLike", "Match", "NotMatch", "Contains", "NotContains", "In",
         "NotIn")
    )  # fmt: skip
    library.add(
        "Where-Object",
        f"FilterScript* Property Value -InputObject {switches} -Is? -IsNot? 7:-Not?",
        _Where, "?", "where",
    )  # fmt: skip
    library.add(
        "Select-Object",
        "Property@0 ExpandProperty First:int Last:int Skip:int Unique? -SkipLast -Index -Wait? -ExcludeProperty "
        "-InputObject 7:-SkipIndex 7:-CaseInsensitive?",
        _Select, "select",
    )  # fmt: skip
    library.add(
        "Sort-Object",
        "Property@0 Descending? Unique? -CaseSensitive? -Culture -InputObject 7:-Stable? 7:-Top 7:-Bottom",
        collecting(_sort_object), "sort",
    )  # fmt: skip
    library.add(
        "Measure-Object",
        "Property@0 Sum? Average? Maximum? Minimum? -InputObject -Line? -Word? -Character? -IgnoreWhiteSpace? "
        "7:-StandardDeviation? 7:-AllStats?",
        collecting(_measure_object), "measure",
    )  # fmt: skip
    library.add("Tee-Object", "Variable -FilePath@0 -LiteralPath -Append? -InputObject 7:-Encoding", _Tee, "tee")
