"""Regular expressions of .NET, as far as Python's mean the same; the rest is refused by name."""

import re
from functools import lru_cache

from hybridlab.powershell.objects import HashTable
from hybridlab.powershell.syntax import NotEmulated

_GROUP = re.compile(r"\((?:\?(?P<kind>:|=|!|<=|<!|[ims]+\)|<(?P<name>[A-Za-z_]\w*)>|'(?P<quoted>[A-Za-z_]\w*)'))?")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})")
_ESCAPE = re.compile(r"\\(?:[dDwWsSbBAtrnfv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^A-Za-z0-9])")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


def compiled(pattern: str, *, sensitive: bool = False) -> re.Pattern[str]:
    """The pattern, without case unless ``sensitive``.  Raises NotEmulated."""
    return _compiled(pattern, 0 if sensitive else re.IGNORECASE)


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    try:
        return re.compile(_translate(pattern), flags)
    except (re.error, OverflowError):
        raise _refused(pattern) from None


def _refused(pattern: str) -> NotEmulated:
    return NotEmulated(f"the regular expression '{pattern}'")


def _translate(pattern: str) -> str:
    parts: list[str] = []
    place = named = unnamed = 0
    while place < len(pattern):
        here = pattern[place]
        if here == "\\":
            text, place = _escape(pattern, place)
        elif here == "[":
            text, place = _class(pattern, place)
        elif here == "(":
            match = _GROUP.match(pattern, place)
            if match is None or (pattern.startswith("(?", place) and match["kind"] is None):
                raise _refused(pattern)
            name = match["name"] or match["quoted"]
            if match["kind"] and match["kind"].endswith(")") and place:
                raise _refused(pattern)
            named += bool(name)
            unnamed += match["kind"] is None
            text, place = (f"(?P<{name}>" if name else match[0]), match.end()
        elif quantifier := _QUANTIFIER.match(pattern, place):
            if not parts:
                raise _refused(pattern)
            text, place = quantifier[0], quantifier.end()
            if pattern[place : place + 1] in ("+", "*"):
                raise _refused(pattern)
            if pattern[place : place + 1] == "?":
                text, place = text + "?", place + 1
        else:
            text, place = ("\\" + here if here in "{}" else here), place + 1
        parts.append(text)
    if named and unnamed:
        raise _refused(pattern)  # .NET numbers named groups after the others
    return "".join(parts)


def _escape(pattern: str, place: int) -> tuple[str, int]:
    if pattern.startswith("\\z", place):
        return "\\Z", place + 2
    match = _ESCAPE.match(pattern, place)
    if not match:
        raise _refused(pattern)
    return match[0], match.end()


def _class(pattern: str, place: int) -> tuple[str, int]:
    match = _CLASS.match(pattern, place)
    if not match or "-[" in match[0] or "[:" in match[0]:
        raise _refused(pattern)
    for escape in re.finditer(r"\\(.)", match[0], re.DOTALL):
        if escape[1].isalnum() and escape[1] not in "dDwWsStrnfv":
            raise _refused(pattern)
    return match[0][0] + match[0][1:-1].replace("[", "\\[").replace("\\\\[", "\\\\\\[") + "]", match.end()


def groups(found: re.Match[str]) -> HashTable:
    """``$Matches``: groups that took part, by number or name."""
    table = HashTable()
    names = {number: name for name, number in found.re.groupindex.items()}
    for number, text in enumerate([found[0], *found.groups()]):
        if text is not None:
            table.set(names.get(number, number), text)
    return table
