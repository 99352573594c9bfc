# SPDX-License-Identifier: Apache-2.0
"""The base class of expectations about a subject such as pages or streams. It has the expectations
about traffic and the check loop."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from conformance.expect.check import Judged, check
from conformance.expect.context import End
from conformance.expect.guard import unless_changed
from conformance.expect.traffic import Expect
from conformance.model.decision import Half
from conformance.model.endpoint import Target, Workload

T = TypeVar("T")


@dataclass
class Subject:
    """The expectations of a test about a subject."""

    expect: Expect

    def check(
        self,
        half: Half,
        cases: Iterable[tuple[Workload | None, End, T]],
        judge: Callable[[T], Judged],
    ) -> None:
        """Judge each case independently, and raise the worst failure."""
        check(self.expect.context, half, cases, judge)

    def unless_changed(
        self, source: Workload, target: Target, wrong: Exception, *, want: bool = True
    ) -> Exception:
        """Return ``wrong``, or the error that explains it: a changed pod at an end of the path,
        or a foreign policy.
        """
        return unless_changed(self.expect, [source, *target.backends], wrong, want=want)
