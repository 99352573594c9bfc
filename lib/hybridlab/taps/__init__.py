# SPDX-License-Identifier: Apache-2.0
"""Seams: places in a lab where messages of a kind pass, and where taps may change them.

Faults put taps there while a lab runs. Tests of the judge put taps there when they start a lab, by
``hybridlab.faults.model.Taps``. A lab without taps passes every message on unchanged.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

M = TypeVar("M")


class Seam(Generic[M]):
    """A place where messages of a kind pass."""

    def __init__(self) -> None:
        self.taps: dict[str, Callable[..., M]] = {}
        """Name of a tap to the tap: a message, and what it is about, to the message in its
        place."""

    def __call__(self, message: M, *about: Any) -> M:
        """Return the message as the taps leave it, in the order in which they came."""
        for tap in list(self.taps.values()):
            message = tap(message, *about)
        return message
