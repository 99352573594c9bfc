# SPDX-License-Identifier: Apache-2.0
"""Finds the known name that a user meant, ignoring case, and names with a similar spelling."""

import difflib
from collections.abc import Collection


def known_as(word: str, known: Collection[str]) -> str | None:
    """Return the known name that equals a word, ignoring case; None if no name does."""
    if word in known:
        return word
    return next((name for name in known if name.casefold() == word.casefold()), None)


def meant(word: str, known: Collection[str]) -> str:
    """Return ``; did you mean a or b?`` with the names similar to an unknown word; an empty string
    if no known name is similar."""
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), names, 3, 0.5)
    return f"; did you mean {' or '.join(names[name] for name in near)}?" if near else ""
