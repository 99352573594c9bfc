# SPDX-License-Identifier: Apache-2.0
"""PowerShell values: their Python types, their texts, and objects with members.

``None``, ``bool``, ``int``, ``str``, ``bytes`` (Byte[]) and ``list`` (Object[]) are used directly.
The classes of this module represent all other values. Fractional numbers are not emulated. Member
names ignore case.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hybridlab.powershell.syntax import NotEmulated

CUSTOM_OBJECT = "System.Management.Automation.PSCustomObject"
"""Type of the HNS cmdlets' objects."""
SELECTED = "Selected." + CUSTOM_OBJECT
"""Type of Select-Object -Property's objects."""


class HashTable:
    """A hashtable, ``@{}``. Keys are compared as in PowerShell, strings case-insensitively."""

    def __init__(self) -> None:
        self._entries: dict[object, tuple[object, object]] = {}
        self.ordered = False
        """True if the table was created as ``[ordered]@{}``: its keys are listed in the order in
        which they were added."""

    @staticmethod
    def _fold(key: object) -> object:
        if isinstance(key, NetObject):
            return to_text(key).lower()
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise NotEmulated("a key that is neither text nor a number")
        return key.lower() if isinstance(key, str) else key

    def get(self, key: object) -> object:
        return self._entries.get(self._fold(key), (None, None))[1]

    def set(self, key: object, value: object) -> None:
        """Add or replace an entry. A replaced entry keeps the first spelling of its key."""
        folded = self._fold(key)
        self._entries[folded] = (self._entries.get(folded, (key, None))[0], value)

    def has(self, key: object) -> bool:
        return self._fold(key) in self._entries

    def items(self) -> Iterator[tuple[object, object]]:
        """Return the keys as written, with their values, in order of insertion."""
        return iter(list(self._entries.values()))

    def keys(self) -> list[object]:
        """Return the keys.

        Raise NotEmulated if .NET's hash function decides their order. Keys that are
        objects, as in the web server of Microsoft's Windows container guide, are returned
        in order of insertion, which .NET may show too.
        """
        found = [key for key, _ in self.items()]
        if (
            len(found) > 1
            and not self.ordered
            and not any(isinstance(key, NetObject) for key in found)
        ):
            raise NotEmulated("the order of a hashtable's keys")
        return found

    def __len__(self) -> int:
        return len(self._entries)


_TABLE_COLUMNS = 4
"""Custom objects with more properties than this are shown as lists."""


class NetObject:
    """A .NET object: its properties, methods, type name, text, and default view."""

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
        """True if the object's default view is a table, which is not emulated."""
        self.properties: dict[str, object] = {}
        self.methods: dict[str, Callable[..., object]] = {}
        self._names: dict[str, str] = {}
        for name, value in {**(properties or {}), **more}.items():
            self.put(name, value)

    @classmethod
    def of_properties(cls, type_name: str, properties: Mapping[str, object]) -> NetObject:
        """Return a custom object. Its default view is a table or, with many properties, a list."""
        names = tuple(properties)
        return cls(type_name, properties, shown=names, table=len(names) <= _TABLE_COLUMNS)

    @property
    def custom(self) -> bool:
        """Return whether this is a custom object: every property that it does not have is null."""
        return self.type_name in (CUSTOM_OBJECT, SELECTED)

    def put(self, name: str, value: object) -> None:
        """Set a property, or create it. A callable value is called at every read."""
        name = self._names.setdefault(name.lower(), name)
        self.properties[name] = value

    def get(self, name: str) -> object:
        """Return a property's value.

        If the property is missing, return null for a custom object, and raise NotEmulated for any
        other object.
        """
        known = self._names.get(name.lower())
        if known is None:
            if self.custom and not name.lower().startswith("ps"):
                return None
            raise NotEmulated(f"property {name} of {self.type_name}")
        value = self.properties[known]
        return value() if callable(value) else value

    def has(self, name: str) -> bool:
        return name.lower() in self._names

    def view(self, name: str) -> object:
        """Return the object's text in the list view."""
        return self.get(name)

    def words(self) -> str:
        """Return the object's text. Raise NotEmulated if the text is not known."""
        if self.text is not None:
            return self.text
        if self.custom:
            return (
                "@{"
                + "; ".join(f"{name}={_inside(self.get(name))}" for name in self.properties)
                + "}"
            )
        raise NotEmulated(f"the text of {self.type_name}")

    def method(self, name: str, call: Callable[..., object]) -> None:
        """Add a method, which may be a coroutine function."""
        self.methods[name.lower()] = call

    async def call(self, name: str, arguments: list[object]) -> object:
        """Call a method. Raise NotEmulated if no method has this name and number of arguments."""
        found = self.methods.get(name.lower())
        try:
            if found is None:
                raise TypeError(name)
            inspect.signature(found).bind(*arguments)
        except TypeError:
            raise NotEmulated(
                f"method {name} of {self.type_name}, arguments: {len(arguments)}"
            ) from None
        result: Any = found(*arguments)
        return await result if inspect.isawaitable(result) else result


def _inside(value: object) -> str:
    """Return a property's text as it appears in the text of a custom object."""
    if isinstance(value, list):
        return "System.Object[]"
    return "" if isinstance(value, NetObject) and value.custom else to_text(value)


def to_text(value: object) -> str:
    """Return a value's text, as ``+`` appends it."""
    match value:
        case None:
            return ""
        case bool():
            return "True" if value else "False"
        case str() | int():
            return str(value)
        case list() | bytes():
            return " ".join(
                to_text(item) if not isinstance(item, list) else "System.Object[]" for item in value
            )
        case NetObject():
            return value.words()
    raise NotEmulated("the text of this value")


def truth(value: object) -> bool:
    """Return the value's truth in ``if ($value)``."""
    if isinstance(value, (list, bytes)):
        if len(value) != 1:
            return len(value) > 1
        return truth(value[0]) if not isinstance(value[0], list) else len(value[0]) > 0
    if value is None or isinstance(value, (bool, int, str)):
        return bool(value)
    return not (isinstance(value, NetObject) and value.number == 0)


def enumerate_value(value: object) -> list[object]:
    """Return the objects that a value puts into a pipeline."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, bytes)) else [value]


def unwrap(values: list[object]) -> object:
    """Return a pipeline's output as a value: null, the only object, or an array."""
    if not values:
        return None
    return values[0] if len(values) == 1 else values
