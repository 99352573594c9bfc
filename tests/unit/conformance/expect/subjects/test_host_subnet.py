# SPDX-License-Identifier: Apache-2.0
"""The observation of a server in a node's network decides once packets of Linux pods arrive there;
a firewall of the node does not decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conformance.errors import ControlBroken, MissingCapability, Nonconformance
from conformance.expect.context import Context, Sink
from conformance.expect.subjects.host_subnet import HostSubnet
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact
from conformance.pods.groups import PodPairs
from tests.unit.conformance.builders import a_workload

WINDOWS, LINUX = a_workload("windows", "windows"), a_workload("linux")
NODE = a_workload("node", address="10.0.0.11", host_network=True)
NATTED = {"IPPool a .spec.natOutgoing": Fact("True", "its .spec.natOutgoing")}


@dataclass
class Heard:
    """Streams that a server saw from this address; a pod that ``shut_out`` names is not heard."""

    seen: str
    shut_out: Sequence[str] = ()
    beyond: str | None = WINDOWS.node_address
    """What a server beyond the cluster sees; empty: nothing; None: there is none."""
    kept: list[Decision] = field(default_factory=list)

    def open(self, *pairs: tuple[Workload, Workload]) -> list[Any]:
        for client, _ in pairs:
            if client.pod in self.shut_out:
                raise ControlBroken(f"{client.label}  stream  expected to open", control="stream")
        return [
            SimpleNamespace(client=client, target=server.tcp(40000)) for client, server in pairs
        ]

    @property
    def streams(self) -> Any:
        state = SimpleNamespace(server=SimpleNamespace(remote=f"{self.seen}:50123"))
        return SimpleNamespace(look=lambda streams: [state for _ in streams])

    @property
    def expect(self) -> Any:
        return SimpleNamespace(context=Context(claims=("XNAT-2",), sink=Sink(self.kept)))

    @property
    def outside(self) -> str | None:
        return None if self.beyond is None else "198.51.100.10"

    def source_of(self, client: Workload) -> str:
        return self.beyond or ""

    def ask(self, pools: dict[str, Fact[str]] = NATTED) -> list[ClaimVerdict]:
        ways, beside = PodPairs([(WINDOWS, NODE)]), PodPairs([(LINUX, NODE)])
        subject = HostSubnet(cast("Any", self), cast("Any", self))
        exclusions = Fact("IPPoolsOnly", "the default")
        subject.is_natted(ways, pools, exclusions, beside=beside, because="x")
        return [decision.verdict for decision in self.kept]


def test_the_node_of_the_pod_confirms_and_the_pod_itself_lifts() -> None:
    assert Heard(WINDOWS.node_address).ask() == [ClaimVerdict.CONFIRMED]
    assert Heard(WINDOWS.address).ask() == [ClaimVerdict.LIFTED]


def test_nothing_is_lifted_unless_the_pods_traffic_beyond_the_cluster_is_translated() -> None:
    unknown = Heard(WINDOWS.address, beyond=None)
    with pytest.raises(MissingCapability, match=r"whether the node translates .*--external-target"):
        unknown.ask()
    assert [decision.verdict for decision in unknown.kept] == [ClaimVerdict.NOT_RUN]
    for beyond in ("", WINDOWS.address):
        with pytest.raises(ControlBroken, match="see NAT-2, and compare OutBoundNAT"):
            Heard(WINDOWS.address, beyond=beyond).ask()


def test_a_third_address_violates() -> None:
    with pytest.raises(
        Nonconformance,
        match=r"^XNAT-2: windows-1 to a node\'s own port: expected source .* observed source 192\.0\.2\.9",
    ):
        Heard("192.0.2.9").ask()


def test_where_linux_pods_are_not_heard_or_nothing_is_to_be_translated_nothing_is_decided() -> None:
    with pytest.raises(
        MissingCapability, match=r"no free port of a node accepts connections from Linux pods"
    ):
        Heard(WINDOWS.address, shut_out=["linux"]).ask()
    with pytest.raises(MissingCapability, match="no outgoing NAT is configured"):
        Heard(WINDOWS.address).ask(
            {"IPPool a .spec.natOutgoing": Fact("False", "its .spec.natOutgoing")}
        )


def test_a_windows_pod_that_is_not_heard_decides_nothing() -> None:
    with pytest.raises(ControlBroken):
        Heard(WINDOWS.address, shut_out=["windows"]).ask()
