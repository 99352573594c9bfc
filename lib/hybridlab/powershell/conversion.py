"""Conversions between types: numbers from values, and casts."""

from decimal import Decimal

from hybridlab.powershell.faults import Fault
from hybridlab.powershell.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, Long, Number, parse_number
from hybridlab.powershell.objects import (
    Char,
    HashTable,
    NetObject,
    NumberText,
    TypedList,
    enumerate_value,
    to_text,
    truth,
)
from hybridlab.powershell.syntax import Node, NotEmulated


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
        raise NotEmulated("a number from a collection")
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


def _cast(name: str, value: object) -> object:  # noqa: PLR0911 - one per type
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
        case "object[]" | "array":
            return value if type(value) is list or value is None else enumerate_value(value)
        case "string[]":
            return None if value is None else TypedList(to_text(item) for item in enumerate_value(value))
        case "int[]":
            return None if value is None else TypedList(to_int(item) for item in enumerate_value(value))
        case "hashtable" if isinstance(value, HashTable) and not value.ordered:
            return value
    raise NotEmulated(f"the type [{name}]")
