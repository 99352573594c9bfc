# SPDX-License-Identifier: Apache-2.0
"""Groups values by their keys."""

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Map each key to its values; keys and values keep their order."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
