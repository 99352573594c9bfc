"""Members of the values that are no .NET objects here: hashtables, strings, numbers, arrays."""

from __future__ import annotations

from collections.abc import Callable

from hybridlab.powershell.conversion import invalid_cast, to_int
from hybridlab.powershell.faults import call_fault
from hybridlab.powershell.objects import (
    ArrayList,
    Char,
    HashTable,
    NumberText,
    TypedList,
    to_text,
)
from hybridlab.powershell.syntax import NotEmulated, ScriptBlock, TypeName

_TABLE_PROPERTIES = frozenset(
    ("isreadonly", "isfixedsize", "syncroot", "issynchronized", "psobject", "psbase", "length")
)
_LIST_PROPERTIES = frozenset(
    ("rank", "longlength", "isreadonly", "isfixedsize", "syncroot", "issynchronized", "capacity")
)
_HIDDEN = frozenset(("psobject", "psbase", "psadapted", "psextended", "pstypenames", "chars"))


def table_property(table: HashTable, name: str) -> object:
    """An entry, or one of a hashtable's own properties."""
    if table.has(name):
        return table.get(name)
    match name.lower():
        case "keys":
            return table.listed([key for key, _ in table.items()])
        case "values":
            return table.listed([value for _, value in table.items()])
        case "count":
            return len(table)
        case other if other in _TABLE_PROPERTIES:
            raise NotEmulated(f"property {name} of a hashtable")
    return None


def table_method(table: HashTable, name: str, arguments: list[object]) -> object:
    """Methods of a hashtable."""
    match name.lower(), arguments:
        case (("get_item" | "item"), [item]):
            return table.get(item)
        case "set_item", [item, value]:
            table.set(item, value)
            return None
        case (("containskey" | "contains"), [item]) if name.lower() == "contains" or not table.ordered:
            return table.has(item)
    raise NotEmulated(
        f"method {name} of a hashtable with {len(arguments) or 'no'} argument{'s' * (len(arguments) != 1)}"
    )


def plain_property(owner: object, name: str) -> object:
    """Properties of strings, numbers and script blocks: length and count; others are null."""
    key = name.lower()
    if key == "length" and isinstance(owner, (str, bytes)) and not isinstance(owner, (Char, NumberText)):
        return len(owner)
    if key in ("length", "count"):
        return len(owner) if isinstance(owner, bytes) else 1
    if key in _HIDDEN or isinstance(owner, (bytes, ScriptBlock, TypeName)):
        raise NotEmulated(f"property {name}")
    return None


def list_property(owner: list[object], name: str) -> object:
    """Length and count of an array."""
    if name.lower() in ("length", "count"):
        if isinstance(owner, ArrayList) and name.lower() == "length":
            raise NotEmulated("property Length of an ArrayList")
        return len(owner)
    raise NotEmulated(f"property {name} of an array")


def is_list_property(name: str) -> bool:
    """Whether an array itself has it, so that it is not asked of the elements."""
    return name.lower() in {"length", "count", *_LIST_PROPERTIES, *_HIDDEN}


def _numbers(method: str, arguments: list[object]) -> list[int]:
    try:
        return [to_int(item) for item in arguments]
    except ValueError as error:
        raise invalid_cast(error) from None


def _substring(text: str, *given: object) -> str:
    start, length = [*_numbers("Substring", list(given)), -1][:2]
    if len(given) == 1:
        length = len(text) - start
    if not 0 <= start <= len(text) or (length < 0 or start + length > len(text)):
        which = "startIndex cannot be larger than length of string." if start > len(text) else (
            "Index and length must refer to a location within the string.")  # fmt: skip
        raise call_fault("Substring", len(given), which, "ArgumentOutOfRangeException")
    return text[start : start + length]


def _replaced(text: str, old: object, new: object) -> str:
    if not to_text(old):
        raise call_fault("Replace", 2, "String cannot be of zero length.", "ArgumentException")
    return text.replace(to_text(old), to_text(new))


_Method = Callable[..., object]
_STRING: dict[str, tuple[tuple[int, ...], _Method]] = {
    "trim": ((0,), str.strip),
    "trimstart": ((0,), str.lstrip),
    "trimend": ((0,), str.rstrip),
    "toupper": ((0,), str.upper),
    "tolower": ((0,), str.lower),
    "toupperinvariant": ((0,), str.upper),
    "tolowerinvariant": ((0,), str.lower),
    "contains": ((1,), lambda t, x: to_text(x) in t),
    "startswith": ((1,), lambda t, x: t.startswith(to_text(x))),
    "endswith": ((1,), lambda t, x: t.endswith(to_text(x))),
    "indexof": ((1,), lambda t, x: t.find(to_text(x))),
    "replace": ((2,), _replaced),
    "substring": ((1, 2), _substring),
    "tostring": ((0,), str),
}


def is_string_method(name: str) -> bool:
    """Whether strings have a method of that name here."""
    return name.lower() in _STRING or name.lower() == "split"


def string_method(text: str, name: str, arguments: list[object]) -> object:
    """Methods of a string."""
    key = name.lower()
    if any(item is None for item in arguments):
        raise NotEmulated(f"null as an argument of method {name}")
    if key == "split":
        return _split(text, arguments)
    counts, method = _STRING.get(key, ((), str))
    if len(arguments) not in counts:
        raise NotEmulated(
            f"method {name} of a string with {len(arguments) or 'no'} argument{'s' * (len(arguments) != 1)}"
        )
    if any(isinstance(item, (list, HashTable)) for item in arguments):
        raise NotEmulated(f"an array as an argument of method {name}")
    return method(str(text), *arguments)


def _split(text: str, arguments: list[object]) -> object:
    """At each of several characters."""
    match arguments:
        case []:
            separators = list(" \t\n\r\v\f")
        case [list() as several]:
            separators = [to_text(item) for item in several]
        case [separator]:
            separators = [to_text(separator)]
        case _:
            raise NotEmulated("method Split with options")
    if any(len(item) != 1 for item in separators):
        raise NotEmulated("method Split with a separator of several characters")
    parts: list[object] = []
    rest = text
    while True:
        found = [(rest.find(item), item) for item in separators if item in rest]
        if not found:
            return TypedList([*parts, rest])
        place, separator = min(found)
        parts.append(rest[:place])
        rest = rest[place + len(separator) :]


def plain_method(owner: object, name: str, arguments: list[object]) -> object:
    """Methods of numbers, truth values, characters and script blocks: their text."""
    if name.lower() != "tostring" or arguments or isinstance(owner, float):
        raise NotEmulated(f"method {name}")
    return to_text(owner)
