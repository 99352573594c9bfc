# SPDX-License-Identifier: Apache-2.0
"""What the lab assumes of Windows, as data (``assumptions.yaml``): its code reads the values from
here, and ``hybridlab assumptions`` prints them for whoever has measured a real node."""

import functools
from importlib import resources
from typing import Any

import yaml


@functools.cache
def assumptions() -> dict[str, dict[str, Any]]:
    """Return the assumptions by id."""
    text = resources.files(__package__).joinpath("assumptions.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = yaml.load(
        text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return found


def value(name: str) -> Any:
    """Return the value of an assumption."""
    return assumptions()[name]["value"]
