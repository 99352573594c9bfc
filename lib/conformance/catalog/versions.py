# SPDX-License-Identifier: Apache-2.0
"""Versions and ranges of them: Calico releases, Kubernetes releases, Windows builds with their revisions.

A pre-release orders as a release of its version: what is documented for v3.32 holds for its candidates and
development builds.  A version that cannot be told is newer than any.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)(?:[-+].*)?$")
_TERM = re.compile(r"(>=|<=|<|>|=)\s*(\S+)")
_COMPARE: dict[str, Callable[[tuple[float, ...], tuple[float, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_WIDTH = 4


@dataclass(frozen=True, order=True)
class Version:
    """Comparable numbers; ``text`` is how it was written and takes no part in comparing."""

    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Version:
        """``v3.31.2``, ``3.32.0-rc1``, ``v3.33.0-0.dev-211-gabc``, ``1.34.1+rke2r1``.  Raises ValueError."""
        match = _NUMBERS.match(text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a version such as v3.31.2")
        return cls.of(*(int(part) for part in match[1].split(".")))

    @classmethod
    def of(cls, *numbers: int) -> Version:
        """From its numbers; missing ones are 0."""
        return cls((tuple(numbers) + (0,) * _WIDTH)[:_WIDTH])

    def __str__(self) -> str:
        if self == NEWEST:
            return "newest"
        numbers = list(self.numbers)
        while len(numbers) > 2 and not numbers[-1]:
            numbers.pop()
        return ".".join(str(number) for number in numbers)


NEWEST = Version((float("inf"),) * _WIDTH)
"""Stands for a version that is not known: newer than every release."""


@dataclass(frozen=True)
class Range:
    """Versions that satisfy all comparisons: ``>=3.16 <3.27``."""

    text: str

    def __post_init__(self) -> None:
        """Refuse what cannot be read.  Raises ValueError."""
        _terms(self.text)

    def __contains__(self, version: Version) -> bool:
        return all(compare(version.numbers, bound.numbers) for compare, bound in _terms(self.text))

    def __str__(self) -> str:
        return self.text


@functools.cache
def _terms(
    text: str,
) -> tuple[tuple[Callable[[tuple[float, ...], tuple[float, ...]], bool], Version], ...]:
    terms = []
    rest = text.strip()
    while rest:
        match = _TERM.match(rest)
        if not match:
            raise ValueError(f"{text!r} is not a range such as '>=3.16 <3.27'")
        terms.append((_COMPARE[match[1]], Version.parse(match[2])))
        rest = rest[match.end() :].strip()
    if not terms:
        raise ValueError("an empty range")
    return tuple(terms)
