# SPDX-License-Identifier: Apache-2.0
"""Seams: places in a lab through which messages of one kind pass, and where functions, called taps,
may change them.

Faults add taps while a lab runs. Tests of the judge add taps when they start a lab, through
``hybridlab.faults.model.Taps``. A lab without taps passes every message on unchanged.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

M = TypeVar("M")


class Seam(Generic[M]):
    """A place through which messages of one kind pass."""

    def __init__(self) -> None:
        self.taps: dict[str, Callable[..., M]] = {}
        """The taps by name. A tap is a function that receives a message and its subject, and
        returns the message that takes its place."""

    def __call__(self, message: M, *about: Any) -> M:
        """Return the message after all taps have changed it, in the order in which they were
        added."""
        for tap in list(self.taps.values()):
            message = tap(message, *about)
        return message
