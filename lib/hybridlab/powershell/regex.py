# SPDX-License-Identifier: Apache-2.0
""".NET's regular expressions that mean the same in Python.

Other expressions are refused, and the error quotes them.
"""

import re
from functools import lru_cache

from hybridlab.powershell.objects import HashTable
from hybridlab.powershell.syntax import NotEmulated

_SAME = re.compile(
    r"(?:\\(?:[dDwWsSbBtrnfv]|u[0-9a-f]{4}|[^A-Za-z0-9])|\[\^?(?:\\(?:[dDwWsS\W_]|u[0-9a-f]{4})|[^\]\[\\])+\]|\((?:\?[:=!])?(?![?*+{])"
    r"|(?:[*+?]|\{\d+(?:,\d*)?\})\??(?![*+?])|[^\\\[\](){}*+?]|\))*",
    re.DOTALL,
)
"""Syntax that has the same meaning in .NET and Python: escapes, sets, groups, quantifiers and
letters."""


@lru_cache(maxsize=256)
def compiled(pattern: str, *, sensitive: bool = False) -> re.Pattern[str]:
    """Return a compiled pattern, case-insensitive unless ``sensitive``. Raise NotEmulated."""
    try:
        if not _SAME.fullmatch(pattern):
            raise re.error("it may mean something else to .NET")
        return re.compile(pattern, 0 if sensitive else re.IGNORECASE)
    except (re.error, OverflowError):
        raise NotEmulated(f"the regular expression '{pattern}'") from None


def groups(found: re.Match[str]) -> HashTable:
    """Return ``$Matches``: the groups that matched, by number."""
    table = HashTable()
    for number, text in enumerate([found[0], *found.groups()]):
        if text is not None:
            table.set(number, text)
    return table
