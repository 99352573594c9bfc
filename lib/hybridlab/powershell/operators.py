# SPDX-License-Identifier: Apache-2.0
"""Operators and casts. As in PowerShell, the left operand decides the type."""

import re
from collections.abc import Callable

from hybridlab.powershell import regex
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import HashTable, NetObject, to_text, truth
from hybridlab.powershell.scanner import INT_MAX
from hybridlab.powershell.syntax import NotEmulated

Remember = Callable[[HashTable], None]
"""Receives the groups that become ``$Matches``."""


def to_int(value: object) -> int:
    """Return a value as an Int32. Raise NotEmulated if it is not a number in its usual spelling."""
    if value is None:
        return 0
    if isinstance(value, NetObject) and value.number is not None:
        return value.number
    if isinstance(value, int) or (isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value)):
        return int(value)
    raise NotEmulated("the conversion of this value to a number")


def cast(name: str, value: object) -> object:
    """Return ``[type]value``."""
    match name:
        case "int" | "int32":
            return to_int(value)
        case "string":
            return to_text(value)
        case "bool":
            return truth(value)
        case "char" if isinstance(value, str) and len(value) == 1:
            return NetObject("System.Char", text=value, number=ord(value))
        case "ordered" if isinstance(value, HashTable):
            value.ordered = True
            return value
    raise NotEmulated(f"the type [{name}]")


def add(left: object, right: object) -> object:
    """Return ``left + right``."""
    if isinstance(left, str):
        return left + to_text(right)
    if left is None:
        return right
    if isinstance(left, bool) or not isinstance(left, int):
        raise NotEmulated("operator + of these values")
    found = left + to_int(right)
    if max(abs(left), abs(found)) > INT_MAX:
        raise NotEmulated("a number of more than 32 bits")
    return found


def index(target: object, place: object) -> object:
    """Return ``target[place]``."""
    if target is None:
        raise Fault(
            "Cannot index into a null array.",
            "InvalidOperation: (:) [], RuntimeException",
            "NullArray",
        )
    if isinstance(target, HashTable):
        return target.get(place)
    if not isinstance(target, (list, bytes)) or not isinstance(place, int):
        raise NotEmulated("an index of this value")
    return target[place] if -len(target) <= place < len(target) else None


def compare(
    operator: str, left: object, right: object, remember: Remember, *, sensitive: bool = False
) -> bool:
    """Compare two single values, strings case-insensitively unless ``sensitive``.

    ``match`` sets ``$Matches``.
    """
    if isinstance(left, (list, bytes)):
        raise NotEmulated("a comparison of an array")
    match operator:
        case "eq" | "ne":
            return _equal(left, right, sensitive=sensitive) == (operator == "eq")
        case "match" | "notmatch":
            found = regex.compiled(to_text(right), sensitive=sensitive).search(to_text(left))
            if found:
                remember(regex.groups(found))
            return bool(found) == (operator == "match")
    if isinstance(left, bool) or not isinstance(left, int) or right is None:
        raise NotEmulated("the order of these values")
    order = left - to_int(right)
    return {"gt": order > 0, "ge": order >= 0, "lt": order < 0, "le": order <= 0}[operator]


def _equal(left: object, right: object, *, sensitive: bool) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, bool):
        return left == truth(right)
    if isinstance(left, int):
        return left == to_int(right)
    if (
        isinstance(left, NetObject)
        and left.text is not None
        and isinstance(right, (str, NetObject))
    ):
        return left.text.lower() == to_text(right).lower()
    if not isinstance(left, str):
        raise NotEmulated("a comparison of these values")
    text = to_text(right)
    return left == text or (not sensitive and left.lower() == text.lower())
