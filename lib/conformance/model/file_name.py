# SPDX-License-Identifier: Apache-2.0
"""Names of files that are made from names of nodes, which may be as long as a file system takes."""

from hashlib import sha256

LONGEST = 120
"""Characters of such a name that are kept; endings, and what is made from the name, come on top."""


def file_name(text: str) -> str:
    """Return a name for a file: the text, or its beginning and a hash where it is too long."""
    rest = text[LONGEST:]
    return text[:LONGEST] + (f"-{sha256(rest.encode()).hexdigest()[:16]}" if rest else "")
