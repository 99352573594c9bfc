# SPDX-License-Identifier: Apache-2.0
"""Expectations about what a web server says, not only that it answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.expect.check import Judged
from conformance.expect.engine.answered import as_wanted, unexpected_backend, with_who
from conformance.expect.explain import message
from conformance.expect.poll import poll
from conformance.expect.subject import Subject
from conformance.model.attempt import Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict


@dataclass
class Pages(Subject):
    """Expectations of one test about pages."""

    def show(self, source: Workload, targets: Sequence[Target], text: str, *, because: str) -> None:
        """A backend of each target answers, several times in a row, with status 200 and a page with this text."""
        self.expect.reachable(source, targets, because=because, kind=Kind.HTTP)
        self.check(
            "behaviour",
            [(source, target, target) for target in targets],
            lambda target: self._shown(source, target, text, because),
        )

    def _shown(self, source: Workload, target: Target, text: str, because: str) -> Judged:
        polled = poll(
            self.expect,
            [self.expect.attempt(source, target, Kind.HTTP)],
            lambda seen: (
                as_wanted(seen[0], True) and seen[0].status == 200 and text in _page(seen[0])
            ),
            because=because,
        )
        if polled.converged:
            return with_who(because, polled.seen(0)[-polled.agree :])
        seen = polled.seen(0)
        page = f"{_said(seen[-1], text)}: {' '.join(_page(seen[-1]).split())[:200] or 'empty'}"
        observed = message.tally([_said(observation, text) for observation in seen])
        pods = " and ".join(f"{pod.namespace}/{pod.pod}" for pod in target.backends) or target.label
        do = f"read the log of {pods}, and ask for the page by hand: another server or image may answer there"
        expected = f"HTTP 200 and {text!r}"
        return self.unless_changed(
            source,
            target,
            polled.nonconformance(0, expected, {"page": page, "do": do}, observed=observed),
        )


def _page(seen: Observation) -> str:
    return seen.body.decode("utf-8", errors="replace")


def _said(seen: Observation, text: str) -> str:
    """One answer, in a few words."""
    if seen.verdict is not Verdict.CONNECTED:
        return seen.verdict.value
    if other := unexpected_backend(seen):
        return f"an answer of {other}"
    return f"HTTP {seen.status}{' without it' if seen.status == 200 and text not in _page(seen) else ''}"
