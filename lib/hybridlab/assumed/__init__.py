# SPDX-License-Identifier: Apache-2.0
"""The lab's assumptions about Windows, as data (``assumptions.yaml``). The lab's code reads the
values from here, and ``hybridlab assumptions`` prints them for users who have measured a real node.
"""

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any, TypeVar

import yaml

T = TypeVar("T")


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


def words(name: str) -> tuple[str, str]:
    """Return the two parts of an assumption's value: its first word, which is a verdict, and the
    text after it."""
    verdict, _, detail = str(value(name)).partition(" ")
    return verdict, detail


def one_of(name: str, known: Mapping[str, T]) -> T:
    """Return the entry of ``known`` for an assumption's value, or for its first word.

    Raise ValueError for a value that is not in ``known``.
    """
    wanted = str(value(name))
    for key in (wanted, words(name)[0]):
        if key in known:
            return known[key]
    raise ValueError(f"not emulated: {name}: {wanted}; the lab supports {', '.join(known)}")
