# SPDX-License-Identifier: Apache-2.0
"""Protection of secrets in the journal. A secret must not be recorded, and a field that is not
recorded cannot be restored. Therefore a field with a secret may not be changed."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.errors import SuiteError

SECRET_KINDS = ("Secret", "TokenRequest", "CertificateSigningRequest")
_NAME = re.compile(
    r"(password|passwd|token|secret|credentials?|private[-_.]?key|api[-_.]?key|access[-_.]?key)$",
    re.I,
)
"""Matches the endings of names whose text values count as secrets: ``DB_PASSWORD``,
``bearerToken``; not ``secretName``."""
REDACTED = "(redacted)"


class JournalRefused(SuiteError):
    """The change is refused, because its journal entry must not or cannot be written. Nothing was
    changed."""


def secret_fields(value: Any, at: str = "") -> Iterator[str]:
    """Yield the fields with a name that marks a secret, including environment variables."""
    if isinstance(value, Mapping):
        variable = value.get("name")
        if (
            isinstance(variable, str)
            and _NAME.search(variable)
            and isinstance(value.get("value"), str)
        ):
            yield f"{at}.{variable}"
        for name, inner in value.items():
            if isinstance(inner, str) and inner and _NAME.search(str(name)):
                yield f"{at}.{name}"
            else:
                yield from secret_fields(inner, f"{at}.{name}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from secret_fields(inner, f"{at}[{index}]")


def redacted(value: Any) -> Any:
    """Return a copy for messages and logs, without values of fields with secret-looking names."""
    if isinstance(value, Mapping):
        hidden = bool(_NAME.search(str(value.get("name") or "")))
        return {
            name: REDACTED
            if isinstance(inner, str)
            and inner
            and (_NAME.search(str(name)) or (hidden and name == "value"))
            else redacted(inner)
            for name, inner in value.items()
        }
    return [redacted(inner) for inner in value] if isinstance(value, list | tuple) else value
