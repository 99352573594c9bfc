# SPDX-License-Identifier: Apache-2.0
"""Versions and their ranges: Calico releases, Kubernetes releases, Windows builds with their
revisions.

A pre-release compares equal to the release of its version: documents of v3.32 also hold for its
candidates and development builds. An unknown version is newer than any other.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)(?:[-+_@~].*|\.[a-z]{2,}.*)?$")
"""Matches a version; the group leaves out vendors' suffixes: ``-eks1``, ``_vmware.1``, ``.el9``, a
digest."""
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
    """Comparable numbers. ``text`` is the version as it was written; it is not compared."""

    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Version:
        """Return a version, written ``v3.31.2``, ``3.32.0-rc1``, ``v3.33.0-0.dev-211-gabc`` or
        ``1.34.1+rke2r1``. Raise ValueError.
        """
        match = _NUMBERS.match(text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a version such as v3.31.2")
        return cls.of(*(int(part) for part in match[1].split(".")))

    @classmethod
    def of(cls, *numbers: int) -> Version:
        """Return the version with these numbers; missing numbers are 0."""
        return cls((tuple(numbers) + (0,) * _WIDTH)[:_WIDTH])

    def __str__(self) -> str:
        if self == NEWEST:
            return "newest"
        numbers = list(self.numbers)
        while len(numbers) > 2 and not numbers[-1]:
            numbers.pop()
        return ".".join(str(number) for number in numbers)


KNOWN = "v3.33"
"""The last release of Calico whose documents and code were read for the tables and known issues:
branch release-v3.33 at 6609dea54713 (21 August 2026), the notes of v3.33.0, and tigera/docs'
version-3.33.  v3.33.1 was not available."""
NEXT = Version.of(3, 34)
"""The first release that the suite does not know."""
NEWEST = Version((float("inf"),) * _WIDTH)
"""Stands for an unknown version, which counts as newer than every release."""


@dataclass(frozen=True)
class Range:
    """A range: the versions that satisfy all comparisons, such as ``>=3.16 <3.27``."""

    text: str

    def __post_init__(self) -> None:
        """Check that the versions can be read. Raise ValueError."""
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
