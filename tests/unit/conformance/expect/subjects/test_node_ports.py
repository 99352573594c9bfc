# SPDX-License-Identifier: Apache-2.0
"""If the NodePort range is closed between nodes, the cluster lacks an open range; an open range
proves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from conformance.errors import MissingCapability
from conformance.expect.subjects.node_ports import NodePorts
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import Clock, ImmediateAsking, observation


@dataclass
class Firewall:
    """Nodes whose NodePorts others reach, or not."""

    open: bool
    asked: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    def asking(self) -> ImmediateAsking:
        return ImmediateAsking(self)

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        self.asked += [attempt.target.host for attempt in batch if attempt.target]
        return [
            observation(attempt, Verdict.CONNECTED if self.open else Verdict.TIMED_OUT)
            for attempt in batch
        ]

    def unchanged(self, workloads: object) -> None:
        pass


def at(node: str, address: str) -> Workload:
    return a_workload(f"on-{node}", "linux", node=node, node_address=address)


HERE, THERE = at("l1", "192.0.2.1"), at("l2", "192.0.2.2")


def node_port(backend: Workload) -> Target:
    return replace(backend.tcp(31000), host=backend.node_address, path=Addressing.NODE_PORT)


def ask(firewall: Firewall, *backends: Workload) -> None:
    expect = an_expect(firewall, "CONN-7")
    NodePorts(expect).pass_between_nodes(
        [HERE], [node_port(backend) for backend in backends], because="nobody doubts it"
    )


def test_an_open_range_is_seen_at_other_nodes_only() -> None:
    ask(firewall := Firewall(open=True), HERE, THERE)
    assert set(firewall.asked) == {"192.0.2.2"}


def test_a_closed_range_is_what_the_cluster_lacks() -> None:
    with pytest.raises(
        MissingCapability,
        match=r"cannot be reached between nodes either: .*; open the NodePort range",
    ):
        ask(Firewall(open=False), THERE)


def test_a_single_node_tells_nothing_apart() -> None:
    ask(firewall := Firewall(open=False), HERE)
    assert firewall.asked == []
