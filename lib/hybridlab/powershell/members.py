"""Members of the values that are no .NET objects here: hashtables, strings, numbers, arrays; and ``.GetType()``."""

from __future__ import annotations

from collections.abc import Callable

from hybridlab.powershell.conversion import invalid_cast, to_int, to_number, type_name
from hybridlab.powershell.faults import call_fault
from hybridlab.powershell.formats import format_value
from hybridlab.powershell.objects import (
    ArrayList,
    Char,
    HashTable,
    NetObject,
    NumberText,
    TypedList,
    Unordered,
    to_text,
)
from hybridlab.powershell.syntax import NotEmulated, ScriptBlock, TypeName

_TABLE_PROPERTIES = frozenset(
    ("isreadonly", "isfixedsize", "syncroot", "issynchronized", "psobject", "psbase", "length")
)
_LIST_PROPERTIES = frozenset(
    ("rank", "longlength", "isreadonly", "isfixedsize", "syncroot", "issynchronized", "capacity")
)
_LIST_METHODS = frozenset(
    (
        *("foreach", "where", "getenumerator", "clone", "tostring", "equals", "indexof", "contains", "getvalue"),
        *("copyto", "getupperbound", "setvalue", "getlength", "initialize", "clear", "remove", "insert"),
    )
)
"""An array's own, so that they are not asked of its elements."""
_HIDDEN = frozenset(("psobject", "psbase", "psadapted", "psextended", "pstypenames", "chars"))


def get_type(value: object) -> NetObject:
    """``.GetType()``."""
    if isinstance(value, TypedList):
        raise NotEmulated("the type of this array")
    full = type_name(value)
    namespace, _, name = full.rpartition(".")
    if full == "System.Management.Automation.PSCustomObject":
        raise NotEmulated("the type of a custom object")
    return NetObject("System.RuntimeType", text=full, Name=name, FullName=full, Namespace=namespace)


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
        case "add", [item, value]:
            if table.has(item):
                raise call_fault("Add", 2, "Item has already been added. Key in dictionary.", "ArgumentException")
            table.set(item, value)
            return None
        case (("containskey" | "contains"), [item]) if name.lower() == "contains" or not table.ordered:
            return table.has(item)
        case "remove", [item]:
            table.remove(item)
            return None
        case "clear", []:
            table.clear()
            return None
        case "getenumerator", []:
            return table.listed([entry(key, value) for key, value in table.items()])
        case "gettype", []:
            return get_type(table)
    raise NotEmulated(
        f"method {name} of a hashtable with {len(arguments) or 'no'} argument{'s' * (len(arguments) != 1)}"
    )


def entry(key: object, value: object) -> NetObject:
    """A DictionaryEntry."""
    return NetObject("System.Collections.DictionaryEntry", text="System.Collections.DictionaryEntry",
                     Key=key, Name=key, Value=value)  # fmt: skip


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


def list_method(owner: list[object], name: str, arguments: list[object]) -> tuple[object] | None:
    """The result in a tuple; None when the method is one of the elements'."""
    key = name.lower()
    match key, arguments:
        case "contains", [item] if not isinstance(owner, Unordered):
            return (any(_same(element, item) for element in owner),)
        case "indexof", [item] if isinstance(owner, ArrayList):
            return (next((place for place, one in enumerate(owner) if _same(one, item)), -1),)
        case "gettype", []:
            return (get_type(owner),)
    if isinstance(owner, ArrayList):
        match key, arguments:
            case "add", [item]:
                owner.append(item)
                return (len(owner) - 1,)
            case "addrange", [list() as items]:
                owner.extend(items)
                return (None,)
            case "clear", []:
                owner.clear()
                return (None,)
    elif key == "add":
        raise call_fault("Add", len(arguments), "Collection was of a fixed size.", "NotSupportedException")
    if isinstance(owner, ArrayList) or key in _LIST_METHODS:
        raise NotEmulated(f"method {name} of an array")
    return None


def _same(left: object, right: object) -> bool:
    """.NET's Equals: of one type, and strings with their case."""
    plain = (bool, int, float, str)
    if not isinstance(left, plain) or not isinstance(right, plain):
        raise NotEmulated("Contains with this value")
    return type(left) is type(right) and left == right


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


def _removed(text: str, *given: object) -> str:
    start, length = [*_numbers("Remove", list(given)), len(text)][:2]
    if not 0 <= start <= len(text) or (len(given) > 1 and not 0 <= length <= len(text) - start):
        raise call_fault("Remove", len(given), "Index was out of range.", "ArgumentOutOfRangeException")
    return text[:start] + (text[start + length :] if len(given) > 1 else "")


def _replaced(text: str, old: object, new: object) -> str:
    if not to_text(old):
        raise call_fault("Replace", 2, "String cannot be of zero length.", "ArgumentException")
    return text.replace(to_text(old), to_text(new))


def _padded(text: str, width: object, fill: object, *, left: bool) -> str:
    if len(to_text(fill)) != 1:
        raise NotEmulated("padding with several characters")
    (count,) = _numbers("PadLeft", [width])
    return text.rjust(count, to_text(fill)) if left else text.ljust(count, to_text(fill))


def _characters(given: object) -> str:
    return "".join(to_text(item) for item in given) if isinstance(given, list) else to_text(given)


_Method = Callable[..., object]
_STRING: dict[str, tuple[tuple[int, ...], _Method]] = {
    "trim": ((0, 1), lambda t, c=None: t.strip(None if c is None else _characters(c))),
    "trimstart": ((0, 1), lambda t, c=None: t.lstrip(None if c is None else _characters(c))),
    "trimend": ((0, 1), lambda t, c=None: t.rstrip(None if c is None else _characters(c))),
    "toupper": ((0,), str.upper),
    "tolower": ((0,), str.lower),
    "toupperinvariant": ((0,), str.upper),
    "tolowerinvariant": ((0,), str.lower),
    "contains": ((1,), lambda t, x: to_text(x) in t),
    "startswith": ((1,), lambda t, x: t.startswith(to_text(x))),
    "endswith": ((1,), lambda t, x: t.endswith(to_text(x))),
    "indexof": ((1,), lambda t, x: t.find(to_text(x))),
    "lastindexof": ((1,), lambda t, x: t.rfind(to_text(x))),
    "replace": ((2,), _replaced),
    "substring": ((1, 2), _substring),
    "remove": ((1, 2), _removed),
    "padleft": ((1, 2), lambda t, w, c=" ": _padded(t, w, c, left=True)),
    "padright": ((1, 2), lambda t, w, c=" ": _padded(t, w, c, left=False)),
    "tochararray": ((0,), lambda t: TypedList(Char(c) for c in t)),
    "equals": ((1,), lambda t, x: isinstance(x, str) and t == x),
    "tostring": ((0,), str),
}


def is_string_method(name: str) -> bool:
    """Whether strings have a method of that name here."""
    return name.lower() in _STRING or name.lower() == "split"


def string_method(text: str, name: str, arguments: list[object], *, seven: bool) -> object:
    """Methods of a string."""
    key = name.lower()
    if key == "gettype" and not arguments:
        return get_type(text)
    if any(item is None for item in arguments):
        raise NotEmulated(f"null as an argument of method {name}")
    if key == "split":
        return _split(text, arguments, seven=seven)
    counts, method = _STRING.get(key, ((), str))
    if len(arguments) not in counts:
        raise NotEmulated(
            f"method {name} of a string with {len(arguments) or 'no'} argument{'s' * (len(arguments) != 1)}"
        )
    if not key.startswith("trim") and any(isinstance(item, (list, HashTable)) for item in arguments):
        raise NotEmulated(f"an array as an argument of method {name}")
    return method(str(text), *arguments)


def _split(text: str, arguments: list[object], *, seven: bool) -> object:
    """At each of several characters; 7 takes a longer string as one separator, which 5.1 takes as its characters."""
    match arguments:
        case []:
            separators = list(" \t\n\r\v\f")
        case [list() as several]:
            separators = [to_text(item) for item in several]
        case [separator]:
            separators = [to_text(separator)]
        case _:
            raise NotEmulated("method Split with options")
    if any(len(item) != 1 for item in separators) and not (seven and len(separators) == 1 and separators[0]):
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
    """Methods of numbers, truth values, characters and script blocks."""
    match name.lower(), arguments:
        case "gettype", []:
            return get_type(owner)
        case "tostring", []:
            return format_plain(owner)
        case "tostring", [str() as form] if isinstance(owner, (int, float)) and not isinstance(owner, bool):
            return format_value(owner, form)
        case "equals", [other] if isinstance(owner, (int, float)):
            return type(owner) is type(other) and owner == other
        case "compareto", [other] if type(owner) is int and isinstance(other, int):
            return (owner > to_number(other)) - (owner < to_number(other))
    raise NotEmulated(f"method {name}")


def format_plain(value: object) -> str:
    """.ToString(): of doubles only where both versions of .NET print the same."""
    if isinstance(value, float) and len(repr(value).replace(".", "").strip("0-")) > 15:
        raise NotEmulated("the text of this double")
    if isinstance(value, (list, HashTable)):
        raise NotEmulated("method ToString")
    return to_text(value)
