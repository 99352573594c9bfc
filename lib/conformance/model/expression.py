# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that a cluster's settings contain, read as Felix reads them.

Go's syntax is RE2's (https://github.com/google/re2/wiki/Syntax). RE2's time grows only with the
text, whatever the expression. Python's ``re`` may never end, and reads some expressions
differently.
"""

import functools
from typing import Any

LONGEST = 1000
"""The maximum number of characters of an expression. Names of networks take a few dozen."""
MEMORY = 1 << 20
"""The maximum memory that RE2 may use for an expression, in bytes."""


def problem(expression: str) -> str:
    """Return why an expression cannot be used; an empty string if it can."""
    import re2  # the import takes 15 ms, and most clusters name no expression

    if len(expression) > LONGEST:
        return f"it has {len(expression)} characters, but at most {LONGEST} are read"
    try:
        _compiled(expression)
    except re2.error as error:
        text = error.args[0] if error.args else error
        return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    except ValueError:
        return "it is not text"
    return ""


def matches(expression: str, text: str) -> bool:
    """Return whether an expression matches anywhere in a text, ignoring case."""
    return _compiled(expression).search(text.encode(errors="replace").decode()) is not None


@functools.cache
def _compiled(expression: str) -> Any:
    import re2  # as in :func:`problem`

    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = MEMORY
    return re2.compile(expression, options)
