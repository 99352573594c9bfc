# SPDX-License-Identifier: Apache-2.0
"""Makes names of files from names of nodes, which may be longer than a file system allows."""

from hashlib import sha256

LONGEST = 120
"""The number of characters that the name of a file keeps. Endings, and additions to the name, are
not counted."""


def file_name(text: str) -> str:
    """Return a name for a file: the text, or, if it is too long, its beginning and a hash."""
    rest = text[LONGEST:]
    return text[:LONGEST] + (f"-{sha256(rest.encode()).hexdigest()[:16]}" if rest else "")
