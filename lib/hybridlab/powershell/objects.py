"""PowerShell values: which Python values stand for which, how they become text, and objects with members.

``None``, ``bool``, ``int`` (Int32), ``Long`` (Int64), ``float`` (Double), ``str``, ``bytes`` (Byte[]) and ``list``
(Object[]) are themselves; the classes here are the rest.  Member names are case-insensitive everywhere.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hybridlab.powershell.syntax import NotEmulated, ScriptBlock, TypeName

CUSTOM_OBJECT = "System.Management.Automation.PSCustomObject"
"""What ConvertFrom-Json, [pscustomobject] and the HNS cmdlets make."""
SELECTED = "Selected." + CUSTOM_OBJECT
"""What Select-Object -Property makes."""


class Char(str):
    """A System.Char."""

    __slots__ = ()


class NumberText(str):
    """A number written as an argument in a form that is not its own, ``007``: it is shown as written."""

    __slots__ = ("value",)
    value: int | float

    @classmethod
    def of(cls, text: str, value: int | float) -> NumberText:
        """The number ``value`` that is written ``text``."""
        made = cls(text)
        made.value = value
        return made


class TypedList(list[object]):
    """An array of one element type, as ``-split`` and ``[int[]]`` make them."""


class WrappedArray(list[object]):
    """An array that a cmdlet of 5.1 has put out as one object, so that it is wrapped in a PSObject."""


class ArrayList(list[object]):
    """A System.Collections.ArrayList: the one kind of array that grows."""


class Unordered(list[object]):
    """Keys, values or entries of a hashtable: how many there are is known, their order is the hash function's."""


class HashTable:
    """``@{}``: keys compare as PowerShell compares them, strings without case."""

    def __init__(self, *, ordered: bool = False) -> None:
        self.ordered = ordered
        """``[ordered]@{}``; otherwise the real order is the hash function's, and asking for it is refused."""
        self._entries: dict[object, tuple[object, object]] = {}

    @staticmethod
    def _fold(key: object) -> object:
        if isinstance(key, bool) or not isinstance(key, (str, int, float, NetObject)):
            raise NotEmulated("a key that is no text and no number")
        if isinstance(key, NetObject):
            return to_text(key).lower()
        return key.lower() if isinstance(key, str) else key

    def get(self, key: object) -> object:
        return self._entries.get(self._fold(key), (None, None))[1]

    def set(self, key: object, value: object) -> None:
        """Add or replace; a replaced entry keeps its key's first spelling."""
        folded = self._fold(key)
        self._entries[folded] = (self._entries.get(folded, (key, None))[0], value)

    def has(self, key: object) -> bool:
        return self._fold(key) in self._entries

    def items(self) -> Iterator[tuple[object, object]]:
        """Keys as written, and values, in the order in which they came; for :meth:`shown` order ask that."""
        return iter(list(self._entries.values()))

    def shown(self) -> Iterator[tuple[object, object]]:
        """The entries where their order can be seen.  Raises NotEmulated when it is the hash function's."""
        if not self.certain:
            raise NotEmulated("the order of a hashtable's entries (write [ordered]@{...})")
        return self.items()

    def listed(self, values: list[object]) -> list[object]:
        """Keys, values or entries, as a list that knows whether its order counts."""
        return values if self.certain else Unordered(values)

    @property
    def certain(self) -> bool:
        """Whether the order of the entries is known.

        Keys that are objects, as in the web server of Microsoft's Windows container guide, count as known: the entries
        come in the order in which they were made, which is one of those that .NET may show.
        """
        return self.ordered or len(self._entries) <= 1 or any(isinstance(key, NetObject) for key, _ in self.items())

    def __len__(self) -> int:
        return len(self._entries)


_TABLE_COLUMNS = 4
"""Custom objects with more properties than these are shown as lists."""


class NetObject:
    """A .NET object: properties, methods, a type's name, a text, and how it is shown by default."""

    def __init__(
        self,
        type_name: str,
        properties: Mapping[str, object] | None = None,
        *,
        text: str | None = None,
        number: int | None = None,
        shown: tuple[str, ...] = (),
        table: bool = False,
        **more: object,
    ) -> None:
        self.type_name = type_name
        self.text = text
        self.number = number
        """The number of an enumeration's value, which ConvertTo-Json writes."""
        self.shown = shown
        """Property names of the default list view."""
        self.table = table
        """Its default view is a table, which is not emulated."""
        self.properties: dict[str, object] = {}
        self.methods: dict[str, Callable[..., object]] = {}
        self._names: dict[str, str] = {}
        for name, value in {**(properties or {}), **more}.items():
            self.put(name, value)

    @classmethod
    def of_properties(cls, type_name: str, properties: Mapping[str, object]) -> NetObject:
        """A custom object, which is shown as a table or, with many properties, as a list."""
        names = tuple(properties)
        return cls(type_name, properties, shown=names, table=len(names) <= _TABLE_COLUMNS)

    @property
    def custom(self) -> bool:
        """Whether its properties are all that it has, so that another one is null."""
        return self.type_name in (CUSTOM_OBJECT, SELECTED)

    def put(self, name: str, value: object) -> None:
        """Set a property, creating it.  A callable is computed at every read."""
        name = self._names.setdefault(name.lower(), name)
        self.properties[name] = value

    def get(self, name: str) -> object:
        """A property's value; without one of that name null of a custom object, NotEmulated of all others."""
        known = self._names.get(name.lower())
        if known is None:
            if self.custom and name.lower() not in ("psobject", "psbase", "psadapted", "psextended", "pstypenames"):
                return None
            raise NotEmulated(f"property {name} of {self.type_name}")
        value = self.properties[known]
        return value() if callable(value) else value

    def has(self, name: str) -> bool:
        return name.lower() in self._names

    def view(self, name: str) -> object:
        """The value as the list view shows it."""
        return self.get(name)

    def words(self) -> str:
        """What ``"$object"`` gives.  Raises NotEmulated when that is not known."""
        if self.text is not None:
            return self.text
        if self.custom:
            return "@{" + "; ".join(f"{name}={_inside(self.get(name))}" for name in self.properties) + "}"
        raise NotEmulated(f"the text of {self.type_name}")

    def method(self, name: str, call: Callable[..., object]) -> None:
        """Add a method; it may be a coroutine function."""
        self.methods[name.lower()] = call

    async def call(self, name: str, arguments: list[object]) -> object:
        """Call a method; raises NotEmulated when there is none of that name that takes so many arguments."""
        found = self.methods.get(name.lower())
        if found is None:
            if name.lower() == "tostring" and not arguments and not self.custom:
                return self.words()
            raise NotEmulated(f"method {name} of {self.type_name}")
        try:
            inspect.signature(found).bind(*arguments)
        except TypeError:
            raise NotEmulated(
                f"method {name} of {self.type_name} with {len(arguments) or 'no'} argument{'s' * (len(arguments) != 1)}"
            ) from None
        result: Any = found(*arguments)
        return await result if inspect.isawaitable(result) else result


def _inside(value: object) -> str:
    """A property's value in the text of a custom object."""
    if isinstance(value, list):
        return "System.Object[]"
    if isinstance(value, NetObject) and value.custom:
        return ""
    return to_text(value)


def to_text(value: object) -> str:
    """What ``"$value"`` gives."""
    match value:
        case None:
            return ""
        case bool():
            return "True" if value else "False"
        case float():
            raise NotEmulated("the text of a double")
        case str():
            return str(value)
        case Unordered() if len(value) > 1:
            raise NotEmulated("the order of a hashtable's entries (write [ordered]@{...})")
        case list() | bytes():
            return " ".join(to_text(item) if not isinstance(item, list) else "System.Object[]" for item in value)
        case HashTable():
            kind = "Specialized.OrderedDictionary" if value.ordered else "Hashtable"
            return f"System.Collections.{kind}"
        case NetObject():
            return value.words()
        case ScriptBlock():
            return value.text
        case int():
            return str(int(value))
        case TypeName():
            raise NotEmulated(f"the text of the type [{value.name}]")
    raise NotEmulated("the text of this value")


def truth(value: object) -> bool:
    """What ``if ($value)`` decides."""
    if isinstance(value, Unordered):
        raise NotEmulated("whether a hashtable's keys are true")
    if isinstance(value, NumberText):
        return bool(value.value)
    if isinstance(value, Char):
        return value != "\0"
    if isinstance(value, (list, bytes)):
        if len(value) != 1:
            return len(value) > 1
        return truth(value[0]) if not isinstance(value[0], list) else len(value[0]) > 0
    if isinstance(value, (HashTable, NetObject, ScriptBlock, TypeName)):
        if isinstance(value, NetObject) and value.number is not None:
            return value.number != 0
        return True
    return bool(value)


def enumerate_value(value: object) -> list[object]:
    """What a value becomes in a pipeline."""
    if value is None:
        return []
    if isinstance(value, Unordered) and len(value) > 1:
        raise NotEmulated("the order of a hashtable's entries (write [ordered]@{...})")
    if isinstance(value, list):
        return list(value)
    return list(value) if isinstance(value, bytes) else [value]


def unwrap(values: list[object]) -> object:
    """What a pipeline's output is as a value: nothing, the one object, or an array."""
    if not values:
        return None
    return values[0] if len(values) == 1 else values


class Awaitable:
    """A .NET task or asynchronous result over a coroutine that already runs."""

    def __init__(self, work: asyncio.Task[Any]) -> None:
        self.work = work

    async def wait(self, milliseconds: float | None) -> bool:
        """Whether it finished in time; never raises what the work raises."""
        limit = None if milliseconds is None or milliseconds < 0 else milliseconds / 1000
        done, _ = await asyncio.wait({self.work}, timeout=limit)
        return bool(done)
