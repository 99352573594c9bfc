# SPDX-License-Identifier: Apache-2.0
"""The expectation that pods reach an address outside the IP pools, whatever source address the
server receives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.expect import owners
from conformance.expect.check import Judged
from conformance.expect.poll import poll
from conformance.expect.subject import Subject
from conformance.expect.subjects.ping import asked_for
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict

ARRIVED = (Verdict.CONNECTED, Verdict.REFUSED)
"""Verdicts that count as an answer. A refusal is an answer, too: it shows that packets leave the
pools and return."""


@dataclass
class WayOut(Subject):
    """The expectation of a test about pods' paths to addresses outside the pools."""

    def leads(
        self,
        clients: Sequence[Workload],
        targets: Sequence[Target],
        pools: Mapping[str, Fact[str]],
        *,
        because: str,
    ) -> None:
        """Expect each client to get an answer by TCP from each target outside the ``pools``: a
        connection, or a refusal.

        Raise MissingCapability if one of the pools has no natOutgoing, or if policies of other
        owners certainly close all paths; Nonconformance if a client gets no answer.
        """
        asked_for(pools)
        attempts = [self.expect.attempt(client, goal) for client in clients for goal in targets]
        others = self.expect.context.world.others
        owners.demand_open(others, attempts, all_needed=False)
        polled = poll(
            self.expect, attempts, lambda round_: all(map(_arrived, round_)), because=because
        )

        def judge(place: int) -> Judged:
            attempt = attempts[place]
            if polled.agreed(place, _arrived):
                return f"{because}: {attempt.label}: {polled.observations(place)[-1].verdict}"
            advice = {
                "do": f"compare OutBoundNAT of the endpoint on node {attempt.source.node} and "
                "its exceptions with natOutgoing of its IPPool, and look for firewalls beyond "
                "the node"
            }
            wrong = polled.nonconformance(place, "an answer", advice)
            if by := owners.excused(others, attempt, polled.observations(place), want=True):
                return owners.decided(others, str(wrong), by)
            return self.unless_changed(attempt.source, targets[place % len(targets)], wrong)

        self.check("open", polled.cases(), judge)


def _arrived(observation: Observation) -> bool:
    return observation.verdict in ARRIVED
