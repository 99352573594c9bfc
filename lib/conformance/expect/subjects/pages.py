# SPDX-License-Identifier: Apache-2.0
"""Expectations about the content of a web server's answer."""

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
    """The expectations of a test about pages."""

    def show(self, source: Workload, targets: Sequence[Target], text: str, *, because: str) -> None:
        """Expect a backend of each target to answer in each round with status 200 and a page with
        this text."""
        self.expect.reachable(source, targets, because=because, kind=Kind.HTTP)
        self.check(
            "behaviour",
            [(source, target, target) for target in targets],
            lambda target: self._find_text(source, target, text, because),
        )

    def _find_text(self, source: Workload, target: Target, text: str, because: str) -> Judged:
        polled = poll(
            self.expect,
            [self.expect.attempt(source, target, Kind.HTTP)],
            lambda observations: (
                as_wanted(observations[0], True)
                and observations[0].status == 200
                and text in _page(observations[0])
            ),
            because=because,
        )
        if polled.converged:
            return with_who(because, polled.observations(0)[-polled.agree :])
        observations = polled.observations(0)
        page = f"{_describe(observations[-1], text)}: {' '.join(_page(observations[-1]).split())[:200] or 'empty'}"
        observed = message.tally([_describe(observation, text) for observation in observations])
        pods = " and ".join(f"{pod.namespace}/{pod.pod}" for pod in target.backends) or target.label
        do = (
            f"read the log of {pods}, and request the page by hand: another server or image "
            "may answer there"
        )
        expected = f"HTTP 200 and {text!r}"
        return self.unless_changed(
            source,
            target,
            polled.nonconformance(0, expected, {"page": page, "do": do}, observed=observed),
        )


def _page(observation: Observation) -> str:
    return observation.body.decode("utf-8", errors="replace")


def _describe(observation: Observation, text: str) -> str:
    """Describe an answer in a few words."""
    if observation.verdict is not Verdict.CONNECTED:
        return observation.verdict.value
    if other := unexpected_backend(observation):
        return f"an answer of {other}"
    return (
        "HTTP "
        f"{observation.status}{' without the text' if observation.status == 200 and text not in _page(observation) else ''}"
    )
