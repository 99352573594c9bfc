"""Operators on values: comparison, arithmetic, casts, indexing and formatting, by PowerShell's rules of conversion."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

from hybridlab.windows.powershell.faults import Fault
from hybridlab.windows.powershell.objects import HashTable, NetObject, enumerate_value, to_number, to_text, truth
from hybridlab.windows.powershell.syntax import Node, NotEmulated


def equal(left: object, right: object) -> bool:
    """``-eq``: the left side decides the type; strings without case."""
    if left is None or right is None:
        return left is right
    if isinstance(left, bool):
        return left == truth(right)
    if isinstance(left, (int, float)):
        try:
            return to_number(left) == to_number(right)
        except ValueError:
            return False
    return to_text(left).lower() == to_text(right).lower()


def format_text(template: str, arguments: list[object]) -> str:
    """The -f operator: ``{0}``, ``{0,8}``, ``{0:N2}`` and ``{0:D3}``."""

    def one(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        place = int(match[1])
        value = arguments[place] if place < len(arguments) else None
        text = to_text(value)
        if match[3]:
            kind, digits = match[3][0].upper(), match[3][1:]
            if kind == "N":
                text = f"{to_number(value):,.{int(digits or 2)}f}"
            elif kind == "D":
                text = f"{int(to_number(value)):0{int(digits or 1)}d}"
            elif kind == "X":
                text = f"{int(to_number(value)):0{int(digits or 1)}X}"
            else:
                raise NotEmulated(f"the format {{0:{match[3]}}}")
        width = int(match[2] or 0)
        return text.rjust(width) if width >= 0 else text.ljust(-width)

    return re.sub(r"\{\{|\}\}|\{(\d+)(?:,(-?\d+))?(?::([^}]*))?\}", one, template)


def compare(operator: str, left: object, right: object, remember: Callable[[HashTable], None]) -> bool:
    """A comparison; ``remember`` gets what becomes ``$Matches``."""
    match operator:
        case "eq":
            return equal(left, right)
        case "ne":
            return not equal(left, right)
        case "match" | "notmatch":
            found = re.search(to_text(right), to_text(left), re.IGNORECASE)
            if found:
                groups = HashTable()
                for key, text in [*enumerate([found[0], *found.groups()]), *found.groupdict().items()]:
                    groups.set(key, text)
                remember(groups)
            return bool(found) == (operator == "match")
        case "like" | "notlike":
            return fnmatchcase(to_text(left).lower(), to_text(right).lower()) == (operator == "like")
    if isinstance(left, str):
        a, b = to_text(left).lower(), to_text(right).lower()
        return {"gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b}[operator]
    x, y = to_number(left), to_number(right)
    return {"gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y}[operator]


def arithmetic(operator: str, left: object, right: object, node: Node) -> object:
    """``+ - * / %``: the left side decides the type."""
    if operator == "+":
        if isinstance(left, list):
            return left + (right if isinstance(right, list) else [right])
        if isinstance(left, str):
            return left + to_text(right)
        if left is None:
            return right
    if operator == "*" and isinstance(left, str):
        return left * int(to_number(right))
    try:
        a, b = to_number(left), to_number(right)
        match operator:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "%":
                return a % b
        result = a / b
        return int(result) if result == int(result) else result
    except ValueError as error:
        category = "InvalidArgument: (:) [], RuntimeException"
        raise Fault(str(error), category, "InvalidCastFromStringToInteger", at=node) from None
    except ZeroDivisionError:
        raise Fault("Attempted to divide by zero.", "NotSpecified: (:) [], RuntimeException", at=node) from None


def cast(type_name: str, value: object, node: Node) -> object:
    """``[type]value``."""
    try:
        match type_name:
            case "int" | "int32" | "int64" | "long" | "uint16":
                return round(to_number(value))
            case "double" | "float":
                return float(to_number(value))
            case "string":
                return to_text(value)
            case "bool":
                return truth(value)
            case "void":
                return None
            case "string[]" | "object[]" | "array":
                return enumerate_value(value)
            case "ordered" | "hashtable":
                return value
    except ValueError as error:
        raise Fault(
            str(error), "InvalidArgument: (:) [], RuntimeException", "InvalidCastFromStringToInteger", at=node
        ) from None
    raise NotEmulated(f"the type [{type_name}]")


def index(target: object, index: object) -> object:
    """``target[index]``."""
    if isinstance(target, HashTable):
        return target.get(index)
    if isinstance(target, (list, str, bytes)):
        place = int(to_number(index))
        return target[place] if -len(target) <= place < len(target) else None
    if target is None:
        raise Fault("Cannot index into a null array.", "InvalidOperation: (:) [], RuntimeException", "NullArray")
    if isinstance(target, NetObject) and int(to_number(index)) == 0:
        return target
    if isinstance(target, NetObject):
        return None
    raise NotEmulated("this index")
