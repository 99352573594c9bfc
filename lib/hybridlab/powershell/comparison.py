"""Comparisons: the left side decides the type, strings are compared without case unless the operator begins with c."""

from collections.abc import Callable

from hybridlab.powershell import regex
from hybridlab.powershell.conversion import to_number
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import Char, HashTable, NetObject, NumberText, to_text, truth
from hybridlab.powershell.syntax import NotEmulated

Remember = Callable[[HashTable], None]
"""Gets what becomes ``$Matches``."""


def equal(left: object, right: object, *, sensitive: bool = False) -> bool:
    """``-eq`` of single values."""
    if isinstance(left, NumberText):
        left = left.value
    if left is None or right is None:
        return left is right
    if isinstance(left, Char):
        if not isinstance(right, str) or len(right) != 1:
            raise NotEmulated("a character compared with this value")
        return same_text(str(left), str(right), sensitive=sensitive)
    if isinstance(left, str):
        return same_text(left, to_text(right), sensitive=sensitive)
    if isinstance(left, bool):
        return left == truth(right)
    if isinstance(left, (int, float)):
        if isinstance(right, (list, bytes)):
            raise NotEmulated("a number compared with an array")
        try:
            return left == to_number(right)
        except ValueError:
            return False
    if isinstance(left, NetObject) and left.text is not None and isinstance(right, (str, NetObject)):
        other = right if isinstance(right, str) else right.words()
        return same_text(left.text, other, sensitive=False)
    if isinstance(left, NetObject) and left.number is not None and isinstance(right, int):
        return left.number == right
    if left is right:
        return True
    raise NotEmulated("a comparison of these values")


def same_text(left: str, right: str, *, sensitive: bool) -> bool:
    """Whether two strings are equal."""
    if sensitive:
        return left == right
    return left == right or left.lower() == right.lower()


def order(left: object, right: object) -> int:
    """Below, at or above 0.  Raises Fault when PowerShell cannot compare the two."""
    if isinstance(left, NumberText):
        left = left.value
    if left is None or right is None:
        raise NotEmulated("the order of null and this value")
    if isinstance(left, str):
        raise NotEmulated("the order of texts")
    if isinstance(left, bool):
        raise NotEmulated("the order of these values")
    if isinstance(left, (int, float)):
        try:
            other = to_number(right)
        except ValueError as error:
            words = f'Could not compare "{to_text(left)}" to "{to_text(right)}". Error: "{error}"'
            raise Fault(words, "InvalidOperation: (:) [], RuntimeException", "ComparisonFailure") from None
        return (left > other) - (left < other)
    raise NotEmulated("the order of these values")


def compare(operator: str, left: object, right: object, remember: Remember, *, sensitive: bool = False) -> bool:
    """One comparison of single values."""
    match operator:
        case "eq":
            return equal(left, right, sensitive=sensitive)
        case "ne":
            return not equal(left, right, sensitive=sensitive)
        case "match" | "notmatch":
            found = regex.compiled(to_text(right), sensitive=sensitive).search(to_text(left))
            if found:
                remember(regex.groups(found))
            return bool(found) == (operator == "match")
    found_order = order(left, right)
    return {"gt": found_order > 0, "ge": found_order >= 0, "lt": found_order < 0, "le": found_order <= 0}[operator]
