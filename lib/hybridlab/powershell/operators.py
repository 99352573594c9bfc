"""Arithmetic, joining, splitting and indexing of values, by PowerShell's rules of conversion."""

from __future__ import annotations

from collections.abc import Callable

from hybridlab.powershell import regex
from hybridlab.powershell.clock import DateTime, TimeSpan
from hybridlab.powershell.conversion import invalid_cast, to_int, to_number, type_name
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.numbers import Long, Number, divide, fit, remainder
from hybridlab.powershell.objects import (
    ArrayList,
    Char,
    HashTable,
    NetObject,
    NumberText,
    TypedList,
    enumerate_value,
    to_text,
)
from hybridlab.powershell.syntax import Node, NotEmulated, ScriptBlock

_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_NAMES = {"+": "op_Addition", "-": "op_Subtraction", "*": "op_Multiply", "/": "op_Division", "%": "op_Modulus"}
_LARGEST_RANGE = 1_000_000
_LARGEST_PRODUCT = 10_000_000
"""Characters or elements that ``*`` may make: all containers of the lab share one process."""


def arithmetic(operator: str, left: object, right: object, node: Node) -> object:
    """``+ - * / %``: the left side decides the type."""
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
    except ZeroDivisionError:
        raise Fault(
            "Attempted to divide by zero.",
            "NotSpecified: (:) [], RuntimeException",
            "RuntimeException",
            at=node,
            kind="System.Management.Automation.RuntimeException",
        ) from None


def _other_types(operator: str, left: object, right: object) -> tuple[object] | None:
    """Operands that are no numbers, in a tuple; None when the two are to be computed as numbers."""
    if isinstance(left, (DateTime, TimeSpan)):
        return (_times(operator, left, right),)
    if isinstance(left, (list, bytes)):
        return (_arrays(operator, left, right),)
    if isinstance(left, HashTable):
        return (_tables(operator, left, right),)
    if isinstance(left, (Char, NetObject, ScriptBlock)):
        raise NotEmulated(f"operator {operator} of these values")
    if operator == "+" and isinstance(left, str):
        return (left + to_text(right),)
    if left is None and operator == "*":
        raise NotEmulated("null times something")
    if operator == "+" and left is None:
        return (right,)
    if operator == "*" and isinstance(left, str):
        return (left * _times_over(right, len(left)),)
    if isinstance(right, (list, bytes, HashTable)):
        kind = "System.Object[]" if isinstance(right, list) else type_name(right)
        words = f'Cannot convert the "{to_text(right)}" value of type "{kind}" to type "System.Int32".'
        raise Fault(words, "InvalidArgument: (:) [], RuntimeException", "ConvertToFinalInvalidCastException")
    if isinstance(right, (NetObject, ScriptBlock)):
        raise NotEmulated(f"operator {operator} of these values")
    return None


def _times_over(value: object, size: int) -> int:
    try:
        count = to_int(value)
    except ValueError as error:
        raise invalid_cast(error) from None
    if count < 0 or count * size > _LARGEST_PRODUCT:
        raise NotEmulated(f"{count} times")
    return count


def _arrays(operator: str, left: list[object] | bytes, right: object) -> object:
    items = list(left)
    if operator == "+":
        return items + (list(right) if isinstance(right, (list, bytes)) else [right])
    if operator == "*":
        return items * _times_over(right, len(items))
    raise _no_operator(operator, "System.Object[]")


def _tables(operator: str, left: HashTable, right: object) -> object:
    if operator != "+" or not isinstance(right, HashTable):
        raise _no_operator(operator, type_name(left))
    made = HashTable(ordered=left.ordered)
    for table in (left, right):
        for key, value in table.items():
            if made.has(key):
                raise Fault("Item has already been added.", "OperationStopped: (:) [], ArgumentException",
                            "System.ArgumentException")  # fmt: skip
            made.set(key, value)
    return made


def _no_operator(operator: str, kind: str) -> Fault:
    words = f"Method invocation failed because [{kind}] does not contain a method named '{_NAMES[operator]}'."
    return Fault(words, f"InvalidOperation: ({_NAMES[operator]}:String) [], RuntimeException", "MethodNotFound")


def _times(operator: str, left: DateTime | TimeSpan, right: object) -> object:
    if operator == "-" and isinstance(left, DateTime):
        return left.minus(right)
    if operator in "+-" and isinstance(right, TimeSpan):
        ticks = right.ticks if operator == "+" else -right.ticks
        return left.later(ticks) if isinstance(left, DateTime) else TimeSpan(left.ticks + ticks)
    raise NotEmulated(f"operator {operator} of a date or a time span")


def _numbers(operator: str, left: Number, right: Number) -> Number:
    if operator == "/":
        return divide(left, right)
    if operator == "%":
        return remainder(left, right)
    if isinstance(left, int) and isinstance(right, int):
        return fit(_INTEGERS[operator](int(left), int(right)), left, right)
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def bitwise(operator: str, left: object, right: object) -> object:
    """``-band``, ``-bor``, ``-bxor`` of integers."""
    try:
        a, b = to_number(left), to_number(right)
    except ValueError as error:
        raise invalid_cast(error) from None
    if isinstance(a, float) or isinstance(b, float) or isinstance(left, bool):
        raise NotEmulated(f"operator -{operator} of these values")
    value = {"band": a & b, "bor": a | b, "bxor": a ^ b}[operator]
    return Long(value) if isinstance(a, Long) or isinstance(b, Long) else int(value)


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


def join(value: object, separator: str) -> str:
    """``-join``."""
    return separator.join(to_text(item) for item in enumerate_value(value))


def split(left: object, right: object, *, sensitive: bool) -> list[object]:
    """``-split``, with a limit where one is given."""
    if isinstance(right, (ScriptBlock, bytes)) or (isinstance(right, list) and len(right) > 2):
        raise NotEmulated("options of -split")
    pattern, limit = [*right, 0][:2] if isinstance(right, list) else (right, 0)
    if isinstance(pattern, ScriptBlock) or isinstance(limit, str):
        raise NotEmulated("options of -split")
    texts = [to_text(item) for item in left] if isinstance(left, list) else [to_text(left)]
    try:
        count = to_int(limit)
    except ValueError as error:
        raise invalid_cast(error) from None
    return TypedList(part for text in texts for part in regex.split(to_text(pattern), text, count, sensitive=sensitive))


def replace(left: object, right: object, *, sensitive: bool) -> object:
    """``-replace``: of each element, when the left side is an array."""
    if isinstance(right, list) and not 1 <= len(right) <= 2:
        raise NotEmulated("-replace with more than two arguments")
    pattern, replacement = [*right, ""][:2] if isinstance(right, list) else (right, "")
    if isinstance(replacement, ScriptBlock):
        raise NotEmulated("-replace with a script block")
    args = (to_text(pattern), to_text(replacement))
    if isinstance(left, list):
        return [regex.replace(*args, to_text(item), sensitive=sensitive) for item in left]
    return regex.replace(*args, to_text(left), sensitive=sensitive)


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
