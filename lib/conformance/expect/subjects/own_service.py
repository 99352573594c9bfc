# SPDX-License-Identifier: Apache-2.0
"""Expectations that pods reach themselves through their own Service, on nodes that are known to
support this."""

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.expect.engine.answered import unexpected_backend
from conformance.expect.subjects.windows_nodes import WindowsNodes
from conformance.expect.traffic import Expect
from conformance.model.attempt import Kind
from conformance.model.endpoint import Pair
from conformance.model.observation import Verdict


@dataclass
class OwnService:
    """Expectations about pods, each with a Service whose only backend is the pod itself."""

    expect: Expect
    nodes: WindowsNodes

    def is_reached(self, pairs: Iterable[Pair], *, because: str) -> None:
        """Expect each pod to reach its own Service. If it is not known whether a node uses direct
        server return (DSR), record NOT_RUN with the observation."""
        asked = list(pairs)
        unknown = [pair for pair in asked if pair[0].node in self.nodes.undecided]
        known = [pair for pair in asked if pair not in unknown]
        observed = [(pair, self._once(pair)) for pair in unknown]
        if known:
            self.expect.reachable(known, because=because)
        self.nodes.leave_undecided(self.expect.context, observed, nothing_else=not known)

    def _once(self, pair: Pair) -> str:
        source, target = pair
        observations = self.expect.prober.observe([self.expect.attempt(source, target, Kind.HTTP)])[
            0
        ]
        if observations.verdict is not Verdict.CONNECTED:
            return f"the pod did not reach itself ({observations.verdict})"
        if other := unexpected_backend(observations):
            return f"{other} answered in place of the pod"
        return f"the pod saw source {observations.seen_client or 'unknown'}"
