# SPDX-License-Identifier: Apache-2.0
"""A Windows node's status is empty, or filled, once a Linux node's beside it has been filled three times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.own_node_status import OwnNodeStatus
from conformance.errors import ControlBroken, MissingCapability
from conformance.kube.refused import ApiRefused
from tests.unit.conformance.expect.stand_ins import Clock

PERIOD = 10.0


class Cluster:
    """A cluster whose calico-node fills the objects of the nodes that are named, each period."""

    def __init__(self, *filled: str, refuses: ApiRefused | None = None) -> None:
        self.clock, self.refuses, self._filled = Clock(), refuses, filled
        self.there: dict[str, dict[str, Any]] = {}
        self.most, self.decided = 0, list[tuple[str, str]]()
        run, kube = (
            SimpleNamespace(namespace="calico-demo-a-main"),
            SimpleNamespace(find=self._find),
        )
        self.changes = SimpleNamespace(run=run, kube=kube, delete=self._delete)

    def create(self, obj: dict[str, Any], why: str) -> None:
        if self.refuses:
            raise self.refuses
        self.there[obj["metadata"]["name"]] = obj | {"since": self.clock.now}
        self.most = max(self.most, len(self.there))

    def _find(self, version: str, kind: str, name: str) -> dict[str, Any]:
        obj = self.there[name]
        times = int((self.clock.now - obj["since"]) // obj["spec"]["updatePeriodSeconds"])
        return (
            {"status": {"lastUpdated": f"at {times}"}}
            if obj["spec"]["node"] in self._filled
            else {}
        )

    def _delete(self, target: Any, why: str, *, foreign: bool) -> None:
        del self.there[target.name]

    def ask(self) -> None:
        def decided(
            source: Any, target: Any, verdict: Any, reason: str, half: str, **_: Any
        ) -> None:
            self.decided.append((target.name, verdict.value))

        windows: Any = [SimpleNamespace(name="w1"), SimpleNamespace(name="w2")]
        context: Any = SimpleNamespace(decided=decided)
        linux: Any = SimpleNamespace(name="l1")
        asked = OwnNodeStatus(
            self,  # type: ignore[arg-type]
            context,
            self.clock,
            period=PERIOD,
            windows=windows,
            linux=linux,
        )
        asked.stay_empty(because="x")


def test_what_stays_empty_is_as_known_and_what_is_filled_is_lifted() -> None:
    cluster = Cluster("l1", "w2")
    cluster.ask()
    assert cluster.decided == [("w1", "CONFIRMED"), ("w2", "LIFTED")]
    assert (cluster.there, cluster.most) == ({}, 2)
    assert cluster.clock.now >= 2 * 2 * PERIOD, "two periods for each node"


def test_without_the_linux_nodes_nothing_is_shown_and_nothing_is_left() -> None:
    cluster = Cluster("w1")
    with pytest.raises(
        ControlBroken, match="CalicoNodeStatus of node l1  expected filled 3 times, observed 0"
    ):
        cluster.ask()
    assert cluster.there == {}
    assert {verdict for _, verdict in cluster.decided} == {"INCONCLUSIVE"}


def test_who_may_not_make_them_is_told_the_role() -> None:
    with pytest.raises(
        MissingCapability, match=r"bind the role of manifests/rbac/node-status\.yaml"
    ):
        Cluster(
            refuses=ApiRefused(403, "Forbidden", "may not create", "POST caliconodestatuses")
        ).ask()
