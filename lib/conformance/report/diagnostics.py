# SPDX-License-Identifier: Apache-2.0
"""Collectors that run when a test fails; each failure becomes a bundle of attachments.

If a collector itself raises an exception, the bundle contains this exception and the failure stays
as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.report.attach import Attachments


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed test with its error."""

    test: str
    claims: tuple[str, ...]
    error: BaseException
    observations: Sequence[Any] = ()
    """The observations that the exception carries."""


Collector = Callable[[Failure], Mapping[str, str | bytes]]
"""A function that returns texts by name for a failure, for example ``{"events": ..., "calico-node
of win-1": ...}``; bytes are the content of a pcap file."""


class Diagnostics:
    """The collectors of diagnostics in a process."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        """Add a collector."""
        self._collectors.append(collector)

    def collect(self, failure: Failure, attachments: Attachments) -> list[Path]:
        """Run all collectors and attach their output."""
        paths = []
        for collector in self._collectors:
            name = getattr(collector, "__qualname__", repr(collector))
            try:
                found = collector(failure)
            except Exception as error:
                found = {f"{name} broke": f"{type(error).__name__}: {error}"}
            paths += [
                attachments.text(title, body)
                if isinstance(body, str)
                else attachments.pcap(title, body)
                for title, body in found.items()
            ]
        return paths
