"""Conversions between types: numbers from values, casts, type tests and the names of types."""

from __future__ import annotations

from decimal import Decimal

from hybridlab.powershell.faults import Fault
from hybridlab.powershell.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, Long, Number, parse_number
from hybridlab.powershell.objects import (
    CUSTOM_OBJECT,
    ArrayList,
    Char,
    HashTable,
    NetObject,
    NumberText,
    TypedList,
    enumerate_value,
    to_text,
    truth,
)
from hybridlab.powershell.syntax import Node, NotEmulated, ScriptBlock

CANONICAL = {
    "int": "System.Int32",
    "int32": "System.Int32",
    "long": "System.Int64",
    "int64": "System.Int64",
    "double": "System.Double",
    "string": "System.String",
    "char": "System.Char",
    "bool": "System.Boolean",
    "boolean": "System.Boolean",
    "byte": "System.Byte",
    "array": "System.Array",
    "object[]": "System.Object[]",
    "string[]": "System.String[]",
    "int[]": "System.Int32[]",
    "byte[]": "System.Byte[]",
    "hashtable": "System.Collections.Hashtable",
    "collections.hashtable": "System.Collections.Hashtable",
    "scriptblock": "System.Management.Automation.ScriptBlock",
    "datetime": "System.DateTime",
    "timespan": "System.TimeSpan",
}
"""Types that ``-is`` and ``.GetType()`` know, by the names that scripts use."""


def type_name(value: object) -> str:  # noqa: PLR0911 - one per type
    """The full name of a value's type.  Raises NotEmulated where it is not known."""
    match value:
        case NumberText():
            return type_name(value.value)
        case bool():
            return "System.Boolean"
        case Long():
            return "System.Int64"
        case int():
            return "System.Int32"
        case float():
            return "System.Double"
        case Char():
            return "System.Char"
        case str():
            return "System.String"
        case bytes():
            return "System.Byte[]"
        case ArrayList():
            return "System.Collections.ArrayList"
        case HashTable():
            return "System.Collections.Specialized.OrderedDictionary" if value.ordered else CANONICAL["hashtable"]
        case ScriptBlock():
            return CANONICAL["scriptblock"]
        case NetObject():
            return CUSTOM_OBJECT if value.custom else value.type_name
    if type(value) is list:
        return "System.Object[]"
    raise NotEmulated("the type of this value")


def is_type(value: object, name: str) -> bool:
    """``-is``."""
    wanted = CANONICAL.get(name)
    if wanted is None:
        raise NotEmulated(f"-is [{name}]")
    if value is None:
        return False
    if name == "array":
        return isinstance(value, (list, bytes)) and not isinstance(value, ArrayList)
    if isinstance(value, TypedList) and name in ("object[]", "string[]", "int[]"):
        raise NotEmulated(f"-is [{name}] of an array")
    return type_name(value) == wanted if not isinstance(value, TypedList) else False


def to_number(value: object) -> Number:
    """The value as a number, as arithmetic converts it; raises ValueError with PowerShell's words."""
    if isinstance(value, NumberText):
        return value.value
    if isinstance(value, bool):
        return int(value)
    if value is None:
        return 0
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, NetObject) and value.number is not None:
        return value.number
    if isinstance(value, Char):
        return ord(value)
    if isinstance(value, str):
        found = parse_number(value)
        if found is not None:
            return found
        why = 'Error: "Input string was not in a correct format."'
        raise ValueError(f'Cannot convert value "{value}" to type "System.Int32". {why}')
    if isinstance(value, (list, bytes, HashTable)):
        kind = "System.Object[]" if isinstance(value, list) else type_name(value)
        raise ValueError(f'Cannot convert the "{kind}" value of type "{kind}" to type "System.Int32".')
    raise NotEmulated("a number from this value")


def to_int(value: object, *, long: bool = False) -> int:
    """[int] and [long]: halves go to the even number.  Raises ValueError with PowerShell's words."""
    number = to_number(value)
    whole = round(Decimal(number)) if isinstance(number, float) else int(number)
    low, high = (LONG_MIN, LONG_MAX) if long else (INT_MIN, INT_MAX)
    if not low <= whole <= high:
        kind = "System.Int64" if long else "System.Int32"
        raise ValueError(f'Cannot convert value "{to_text(value)}" to type "{kind}". Error: "Value was either too '
                         f'large or too small for an {kind.removeprefix("System.")}."')  # fmt: skip
    return Long(whole) if long else whole


def invalid_cast(error: ValueError, node: Node | None = None) -> Fault:
    """A conversion that failed, as a statement sees it."""
    return Fault(str(error), "InvalidArgument: (:) [], RuntimeException", "InvalidCastFromStringToInteger", at=node,
                 kind="System.Management.Automation.RuntimeException")  # fmt: skip


def cast(name: str, value: object, node: Node | None = None) -> object:
    """``[type]value``."""
    try:
        return _cast(name, value)
    except ValueError as error:
        raise invalid_cast(error, node) from None


def _cast(name: str, value: object) -> object:  # noqa: PLR0911, PLR0912 - one per type
    match name:
        case "int" | "int32":
            return to_int(value)
        case "long" | "int64":
            return to_int(value, long=True)
        case "double":
            return float(to_number(value))
        case "string":
            return to_text(value)
        case "bool" | "boolean":
            return truth(value)
        case "object" | "psobject":
            return value
        case "void":
            return None
        case "char":
            return _char(value)
        case "object[]" | "array":
            return value if type(value) is list or value is None else enumerate_value(value)
        case "string[]":
            return None if value is None else TypedList(to_text(item) for item in enumerate_value(value))
        case "int[]":
            return None if value is None else TypedList(to_int(item) for item in enumerate_value(value))
        case "byte[]":
            return _bytes(value)
        case "byte":
            raise NotEmulated("the type [byte]")
        case "hashtable" if isinstance(value, HashTable) and not value.ordered:
            return value
        case "pscustomobject":
            return _custom_object(value)
        case "switch":
            return truth(value)
    raise NotEmulated(f"the type [{name}]")


def _char(value: object) -> Char:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise NotEmulated("a [char] from this value")
    if isinstance(value, str):
        if len(value) != 1:
            raise ValueError(
                f'Cannot convert value "{value}" to type "System.Char". Error: "String must be exactly one '
                'character long."'
            )
        return Char(value)
    if not 0 <= value < 0xD800:
        raise NotEmulated("this [char]")
    return Char(chr(value))


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    numbers = [to_int(item) for item in enumerate_value(value)]
    if any(not 0 <= number <= 255 for number in numbers):
        raise ValueError('Cannot convert value to type "System.Byte". Error: "Value was either too large or too small '
                         'for an unsigned byte."')  # fmt: skip
    return bytes(numbers)


def _custom_object(value: object) -> object:
    if not isinstance(value, HashTable):
        raise NotEmulated("[pscustomobject] of something that is no hashtable")
    properties = {to_text(key): item for key, item in value.items()}
    return NetObject.of_properties(CUSTOM_OBJECT, properties)
