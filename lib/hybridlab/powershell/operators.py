"""Arithmetic and indexing of values, by PowerShell's rules of conversion."""

from collections.abc import Callable

from hybridlab.powershell.conversion import invalid_cast, to_int, to_number
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.numbers import Number, fit
from hybridlab.powershell.objects import (
    ArrayList,
    Char,
    HashTable,
    NetObject,
    NumberText,
    TypedList,
    to_text,
)
from hybridlab.powershell.syntax import Node, NotEmulated, ScriptBlock

_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_LARGEST_RANGE = 1_000_000


def arithmetic(operator: str, left: object, right: object, node: Node) -> object:
    """``+ - *``: the left side decides the type."""
    if isinstance(left, NumberText):
        left = left.value
    if isinstance(right, NumberText) and not isinstance(left, str):
        right = right.value
    special = _other_types(operator, left, right)
    if special is not None:
        return special[0]
    try:
        return _numbers(operator, to_number(left), to_number(right))
    except ValueError as error:
        raise invalid_cast(error, node) from None


def _other_types(operator: str, left: object, right: object) -> tuple[object] | None:
    """Operands that are no numbers, in a tuple; None when the two are to be computed as numbers."""
    if isinstance(left, (list, bytes)):
        raise NotEmulated(f"operator {operator} of an array")
    if isinstance(left, (Char, HashTable, NetObject, ScriptBlock)):
        raise NotEmulated(f"operator {operator} of these values")
    if operator == "+" and isinstance(left, str):
        return (left + to_text(right),)
    if operator == "*" and (left is None or isinstance(left, str)):
        raise NotEmulated("a text or null times something")
    if operator == "+" and left is None:
        return (right,)
    if isinstance(right, (list, bytes, HashTable)):
        raise NotEmulated(f"operator {operator} with a collection on its right")
    if isinstance(right, (NetObject, ScriptBlock)):
        raise NotEmulated(f"operator {operator} of these values")
    return None


def _numbers(operator: str, left: Number, right: Number) -> Number:
    if operator in "/%":
        raise NotEmulated(f"operator {operator}")
    if isinstance(left, int) and isinstance(right, int):
        return fit(_INTEGERS[operator](int(left), int(right)), left, right)
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def negate(value: object, sign: str, node: Node) -> object:
    """``-a`` and ``+a``."""
    if isinstance(value, (list, bytes, HashTable)):
        raise NotEmulated(f"operator {sign} of an array")
    return arithmetic("-" if sign == "-" else "+", 0, value, node)


def numbers_between(left: object, right: object) -> list[object]:
    """``..``."""
    texts = [side for side in (left, right) if isinstance(side, str) and not isinstance(side, NumberText)]
    if any(not text.strip().lstrip("-").isdigit() for text in texts) or [len(text) for text in texts] == [1, 1]:
        raise NotEmulated("a range of characters")
    try:
        start, end = to_int(left), to_int(right)
    except ValueError as error:
        raise invalid_cast(error) from None
    if abs(end - start) > _LARGEST_RANGE:
        raise NotEmulated("a range of more than a million")
    return list(range(start, end + 1)) if start <= end else list(range(start, end - 1, -1))


def index(target: object, place: object) -> object:
    """``target[place]``; several places give an array."""
    if target is None:
        raise Fault("Cannot index into a null array.", "InvalidOperation: (:) [], RuntimeException", "NullArray")
    if place is None:
        raise Fault("Array index evaluated to null.", "InvalidOperation: (:) [], RuntimeException", "NullArrayIndex")
    if isinstance(target, HashTable):
        if target.ordered and isinstance(place, int):
            raise NotEmulated("an index of an ordered hashtable by number")
        if isinstance(place, list):
            return [target.get(item) for item in place]
        return target.get(place)
    if isinstance(place, list):
        if not isinstance(target, (list, str, bytes)):
            raise NotEmulated("several indexes of this value")
        found = [_element(target, item) for item in place]
        return [one for one, there in found if there]
    if isinstance(target, (list, str, bytes)):
        return _element(target, place)[0]
    if isinstance(target, (int, float, NetObject)) and not isinstance(target, bool) and place in (0, -1):
        if isinstance(target, NetObject) and not target.custom:
            raise NotEmulated(f"an index of {target.type_name}")
        return target
    raise NotEmulated("an index of this value")


def _element(target: list[object] | str | bytes, place: object) -> tuple[object, bool]:
    """The element, and whether there is one."""
    if isinstance(target, (Char, NumberText)):
        raise NotEmulated("an index of this value")
    try:
        number = to_int(place)
    except ValueError as error:
        raise invalid_cast(error) from None
    if not -len(target) <= number < len(target):
        return None, False
    return (Char(target[number]) if isinstance(target, str) else target[number]), True


def set_element(target: object, place: object, value: object) -> None:
    """``target[place] = value``."""
    if isinstance(target, HashTable):
        if target.ordered and isinstance(place, int):
            raise NotEmulated("an index of an ordered hashtable by number")
        target.set(place, value)
        return
    if not isinstance(target, list) or isinstance(target, TypedList) or isinstance(place, list):
        raise NotEmulated("assignment to an element of this value")
    try:
        number = to_int(place)
    except ValueError as error:
        raise invalid_cast(error) from None
    if not -len(target) <= number < len(target) or (isinstance(target, ArrayList) and number < 0):
        raise Fault("Index was outside the bounds of the array.", "OperationStopped: (:) [], IndexOutOfRangeException",
                    "System.IndexOutOfRangeException")  # fmt: skip
    target[number] = value
