"""Members of the values that are no .NET objects here: hashtables, strings, numbers, arrays."""

from hybridlab.powershell.objects import (
    ArrayList,
    Char,
    HashTable,
    NumberText,
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


def plain_method(owner: object, name: str, arguments: list[object]) -> object:
    """Methods of numbers, truth values, characters and script blocks: their text."""
    if name.lower() != "tostring" or arguments or isinstance(owner, float):
        raise NotEmulated(f"method {name}")
    return to_text(owner)
