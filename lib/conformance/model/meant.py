# SPDX-License-Identifier: Apache-2.0
"""The known name that a user meant, in whatever case, and the names that are spelled nearly
alike."""

import difflib
from collections.abc import Collection


def known_as(word: str, known: Collection[str]) -> str | None:
    """Return the known name that equals a word, ignoring case; None: no name does."""
    if word in known:
        return word
    return next((name for name in known if name.casefold() == word.casefold()), None)


def meant(word: str, known: Collection[str]) -> str:
    """Return ``; meant a or b?`` with the names that an unknown word is near to; empty: it is near
    to none."""
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), names, 3, 0.5)
    return f"; meant {' or '.join(names[name] for name in near)}?" if near else ""
