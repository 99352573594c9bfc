# SPDX-License-Identifier: Apache-2.0
"""Puts texts of other owners into Markdown so that they are not interpreted as markup."""

import re

_MARKS = re.compile(r"[\\|\[*`~]|(?<![^\W_])_|_(?![^\W_])")
"""Matches signs of markup. An underscore within a word is no such sign."""
_MENTION = re.compile(r"(?<!\w)@(?=\w)")


def cell(text: str) -> str:
    """Return a text as one line in which nothing counts as markup: no links, images, table cells or
    mentions. A zero-width character follows each ``@``, since a mention would notify people.
    """
    line = _MARKS.sub(r"\\\g<0>", " ".join(text.splitlines()))
    return _MENTION.sub("@\u200c", line).replace("<", "&lt;")


def fenced(text: str, language: str = "") -> str:
    """Return a block of code that no text inside it can end."""
    ticks = "`" * max([3, *(len(found) + 1 for found in re.findall("`+", text))])
    return f"{ticks}{language}\n{text}\n{ticks}"
