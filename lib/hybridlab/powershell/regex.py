"""Regular expressions of .NET, as far as Python's mean the same; the rest is refused by name."""

import re
from functools import lru_cache

from hybridlab.powershell.objects import HashTable
from hybridlab.powershell.syntax import NotEmulated

_TOKEN = re.compile(
    r"(?P<escape>\\(?:[dDwWsSbBAztrnfv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^A-Za-z0-9]))"
    r"|(?P<set>\[\^?\]?(?:\\[dDwWsStrnfv\W_]|[^\]\\])*\])"
    r"|(?P<name>\(\?(?:<[A-Za-z_]\w*>|'[A-Za-z_]\w*'))|(?P<options>\(\?[ims]+\))|(?P<group>\(\?(?::|=|!|<=|<!))"
    r"|(?P<numbered>\((?!\?))|(?P<quantifier>(?:[*+?]|\{\d+(?:,\d*)?\})\??(?![*+]))"
    r"|(?P<literal>(?!\{\d+(?:,\d*)?\})[^\\\[(*+?])",
    re.DOTALL,
)
"""What means the same in both, each after what it is called; anything else is refused."""
_BRACKET = re.compile(r"(\\.)|\[", re.DOTALL)


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
    kinds: set[str] = set()
    place = 0
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        kind, text = (found.lastgroup or "", found[0]) if found else ("", "")
        inside = text[1:-1]
        begins = kind in ("quantifier", "options") and bool(place) == (kind == "options")
        if not found or begins or (kind == "set" and ("-[" in inside or "[:" in text)):
            raise _refused(pattern)
        if kind == "set":
            text = "[" + _BRACKET.sub(lambda part: part[1] or r"\[", inside) + "]"
        elif kind == "name":
            text = f"(?P<{text[3:-1]}>"
        elif kind == "literal" and text in "{}":
            text = "\\" + text
        elif text == r"\z":
            text = r"\Z"
        parts.append(text)
        kinds.add(kind)
        place = found.end()
    if kinds >= {"name", "numbered"}:
        raise _refused(pattern)  # .NET numbers named groups after the others
    return "".join(parts)


def groups(found: re.Match[str]) -> HashTable:
    """``$Matches``: groups that took part, by number or name."""
    table = HashTable()
    names = {number: name for name, number in found.re.groupindex.items()}
    for number, text in enumerate([found[0], *found.groups()]):
        if text is not None:
            table.set(names.get(number, number), text)
    return table
