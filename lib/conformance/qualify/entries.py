# SPDX-License-Identifier: Apache-2.0
"""YAML files with a list of entries that a person wrote: waivers, attestations."""

from pathlib import Path
from typing import Any

import yaml

from conformance.errors import UsageProblem


def read(path: Path, what: str, of: str) -> list[tuple[str, Any]]:
    """Return the entries of a file, each with a text that names its place in messages.

    ``what``: the file's name in messages; ``of``: the kind of its entries. Raise UsageProblem.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageProblem(f"{what} {path}: cannot be read: {why}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        why = getattr(error, "problem", error)
        raise UsageProblem(f"{what} {path}{line}: not YAML: {why}") from None
    if not isinstance(content, list):
        raise UsageProblem(f"{what} {path}: expected a list of {of}")
    return [(f"{what} {path}, entry {number}", entry) for number, entry in enumerate(content, 1)]


def refuse(where: str, *checks: tuple[object, str]) -> None:
    """Raise UsageProblem with the message of the first check whose condition holds."""
    for is_wrong, message in checks:
        if is_wrong:
            raise UsageProblem(f"{where}: {message}")
