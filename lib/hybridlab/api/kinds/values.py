# SPDX-License-Identifier: Apache-2.0
"""Checks of single values that many kinds share, worded as the real server words them."""

from collections.abc import Iterator, Sequence
from typing import Any

from hybridlab.api.errors import Cause, invalid_value, unsupported


def invalid_if(wrong: object, at: str, value: object, detail: str) -> Iterator[Cause]:
    """Yield a cause for an invalid value if ``wrong`` is true."""
    if wrong:
        yield invalid_value(at, value, detail)


def malformed(at: str, value: object, problem: str | None) -> Iterator[Cause]:
    """Yield a cause for an invalid value if a check of its form found a ``problem``."""
    if problem:
        yield invalid_value(at, value, problem)


def one_of(at: str, value: object, allowed: Sequence[str]) -> Iterator[Cause]:
    """Yield a cause for an unsupported value unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        yield unsupported(at, value, allowed)


def in_range(at: str, value: int, low: int, high: int) -> Iterator[Cause]:
    """Yield a cause for an invalid value unless ``low`` <= ``value`` <= ``high``."""
    if not low <= value <= high:
        yield invalid_value(at, value, f"must be between {low} and {high}, inclusive")


def at_least_zero(at: str, value: int) -> Iterator[Cause]:
    """Yield a cause for an invalid value if ``value`` is negative."""
    if value < 0:
        yield invalid_value(at, value, "must be greater than or equal to 0")


def unchanged(at: str, value: Any, before: Any) -> Iterator[Cause]:
    """Yield a cause for an invalid value if an immutable field has another value than
    ``before``."""
    if value != before:
        yield invalid_value(at, value, "field is immutable")
