"""PowerShell values: which Python values stand for which, how they become text, and objects with members.

``None``, ``bool``, ``int``, ``float``, ``str``, ``bytes`` and ``list`` are themselves; :class:`HashTable` and
:class:`NetObject` are the rest.  Member names are case-insensitive everywhere.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hybridlab.windows.powershell.syntax import NotEmulated

CUSTOM_OBJECT = "System.Management.Automation.PSCustomObject"
"""What ConvertFrom-Json and the HNS cmdlets make."""


class HashTable:
    """``@{}``: keys compare as PowerShell compares them, strings without case."""

    def __init__(self) -> None:
        self._entries: dict[object, tuple[object, object]] = {}

    @staticmethod
    def _fold(key: object) -> object:
        if isinstance(key, NetObject):
            return to_text(key)
        return key.lower() if isinstance(key, str) else key

    def get(self, key: object) -> object:
        """The value, or None."""
        return self._entries.get(self._fold(key), (None, None))[1]

    def set(self, key: object, value: object) -> None:
        """Add or replace."""
        self._entries[self._fold(key)] = (key, value)

    def has(self, key: object) -> bool:
        """Whether the key is there."""
        return self._fold(key) in self._entries

    def remove(self, key: object) -> None:
        """Forget a key."""
        self._entries.pop(self._fold(key), None)

    def items(self) -> Iterator[tuple[object, object]]:
        """Keys as written, and values."""
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)


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
        table: tuple[str, ...] = (),
        **more: object,
    ) -> None:
        self.type_name = type_name
        self.text = text
        self.number = number
        """Of an enumeration's value: what ConvertTo-Json writes."""
        self.shown = shown
        """Property names of the default list view."""
        self.table = table
        """Property names of the default table view; wins over ``shown``."""
        self.properties: dict[str, object] = {}
        self.methods: dict[str, Callable[..., object]] = {}
        self._names: dict[str, str] = {}
        for name, value in {**(properties or {}), **more}.items():
            self.put(name, value)

    def put(self, name: str, value: object) -> None:
        """Set a property, creating it.  A callable is computed at every read."""
        name = self._names.setdefault(name.lower(), name)
        self.properties[name] = value

    def get(self, name: str) -> object:
        """A property's value; without one of that name null of a custom object, NotEmulated of all others."""
        known = self._names.get(name.lower())
        if known is None:
            if self.type_name == CUSTOM_OBJECT:
                return None
            raise NotEmulated(f"property {name} of {self.type_name}")
        value = self.properties[known]
        return value() if callable(value) else value

    def has(self, name: str) -> bool:
        """Whether there is such a property."""
        return name.lower() in self._names

    def view(self, name: str) -> object:
        """The value as the list view shows it."""
        return self.get(name)

    def method(self, name: str, call: Callable[..., object]) -> None:
        """Add a method; it may be a coroutine function."""
        self.methods[name.lower()] = call

    async def call(self, name: str, arguments: list[object]) -> object:
        """Call a method; raises NotEmulated when there is none of that name."""
        found = self.methods.get(name.lower())
        if found is None:
            if name.lower() == "tostring":
                return to_text(self)
            if name.lower() == "gettype":
                return NetObject("RuntimeType", text=self.type_name, Name=self.type_name.rsplit(".", 1)[-1])
            raise NotEmulated(f"method {name} of {self.type_name}")
        result: Any = found(*arguments)
        return await result if inspect.isawaitable(result) else result


def to_text(value: object) -> str:
    """What ``"$value"`` gives."""
    match value:
        case None:
            return ""
        case bool():
            return "True" if value else "False"
        case float():
            return f"{value:g}" if value != int(value) else str(int(value))
        case list() | bytes():
            return " ".join(to_text(item) for item in value)
        case HashTable():
            return "System.Collections.Hashtable"
        case NetObject():
            return value.text if value.text is not None else value.type_name
    return str(value)


def truth(value: object) -> bool:
    """What ``if ($value)`` decides."""
    if isinstance(value, list):
        return bool(value) if len(value) != 1 else truth(value[0])
    if isinstance(value, (HashTable, NetObject)):
        return True
    return bool(value)


def to_number(value: object) -> int | float:
    """The value as a number; raises ValueError with PowerShell's words."""
    if isinstance(value, bool):
        return int(value)
    if value is None:
        return 0
    if isinstance(value, (int, float)):
        return value
    text = to_text(value).strip()
    try:
        return int(text, 0) if text else 0
    except ValueError:
        try:
            return float(text)
        except ValueError:
            why = 'Error: "Input string was not in a correct format."'
            message = f'Cannot convert value "{text}" to type "System.Int32". {why}'
            raise ValueError(message) from None


def enumerate_value(value: object) -> list[object]:
    """What a value becomes in a pipeline."""
    if value is None:
        return []
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
