"""Expectations about what a web server says, not only that it answers."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.errors import Nonconformance
from conformance.expect import message
from conformance.expect.traffic import Expect
from conformance.model.attempt import Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


@dataclass
class Pages:
    """Expectations of one test about pages."""

    expect: Expect

    def show(self, source: Workload, target: Target, text: str, *, because: str) -> Observation:
        """The target answers every request with status 200 and a page that contains ``text``."""
        seen = self.expect.reachable(source, target, because=because, kind=Kind.HTTP)[-1]
        page = seen.body.decode("utf-8", errors="replace")
        if seen.status != 200 or text not in page:
            raise Nonconformance(
                message.connectivity(
                    self.expect.context.claims,
                    seen.attempt,
                    expected=f"HTTP 200 and {text!r}",
                    because=because,
                    seen=[seen],
                    seconds=seen.seconds,
                    observed=f"HTTP {seen.status}{' without it' if seen.status == 200 else ''}",
                    further={"page": f"HTTP {seen.status}: {' '.join(page.split())[:200] or 'empty'}"},
                ),
                seen=[seen],
            )
        return seen
