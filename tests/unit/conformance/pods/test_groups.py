# SPDX-License-Identifier: Apache-2.0
"""Groups give the pairs that a path needs, and each node of a pair is identified."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.errors import MissingCapability, UsageProblem
from conformance.model.endpoint import OS, Workload
from conformance.pods.groups import Group, PodPairs
from tests.unit.conformance.builders import a_workload


def pod(role: str, node: str, build: str = "") -> Workload:
    os: OS = "windows" if build else "linux"
    name = f"{role}-{node}"
    return a_workload(name, os, role=role, node=node, windows_build=build)


def group(role: str, **builds: str) -> Group:
    return Group(pod(role, node, build) for node, build in builds.items())


LINUX = group("linux-client", l1="", l2="")
WINDOWS = group("windows-client", w1="17763.6414", w2="20348.2762", w3="20348.1")
SERVERS = group("windows-server", w1="17763.6414", w2="20348.2762", w3="20348.1")


def nodes(pairs: object) -> list[tuple[str, str]]:
    return [(client.node, server.node) for client, server in pairs]  # type: ignore[attr-defined]


def test_a_product_has_every_pair_and_no_pod_with_itself() -> None:
    assert len(LINUX.to(SERVERS)) == 6
    assert nodes(SERVERS.to(SERVERS)) == [
        (a, b) for a in ("w1", "w2", "w3") for b in ("w1", "w2", "w3") if a != b
    ]


def test_across_is_between_nodes_and_beside_within_one() -> None:
    across, beside = WINDOWS.across(SERVERS), WINDOWS.beside(SERVERS)
    assert nodes(beside) == [("w1", "w1"), ("w2", "w2"), ("w3", "w3")]
    assert len(across) == 6
    assert not set(nodes(across)) & set(nodes(beside))
    with pytest.raises(MissingCapability, match="windows-server on w1"):
        WINDOWS.at("w1").across(SERVERS.at("w1"))
    with pytest.raises(MissingCapability, match="needs a pair of pods on one node"):
        LINUX.beside(SERVERS)


@pytest.mark.parametrize("pairs", [Group.to, Group.across, Group.beside, Group.in_turns_to])
def test_pairs_of_an_empty_group_are_refused(pairs: Callable[[Group, Group], PodPairs]) -> None:
    for clients, servers in ((Group(), SERVERS), (LINUX, Group())):
        with pytest.raises(UsageProblem, match="one of the groups is empty"):
            pairs(clients, servers)
    with pytest.raises(UsageProblem, match="no node is named"):
        LINUX.at()


def test_a_pod_alone_lacks_another_one() -> None:
    with pytest.raises(
        MissingCapability,
        match="the test needs two pods, but has only: linux-client on l1; cover more",
    ):
        LINUX.at("l1").to(LINUX.at("l1"))


def test_one_per_build_has_each_build_on_each_side_in_as_few_pairs_as_it_takes() -> None:
    assert nodes(WINDOWS.to(SERVERS).one_per_build()) == [("w1", "w1"), ("w2", "w2")]
    assert nodes(WINDOWS.across(SERVERS).one_per_build()) == [("w1", "w2"), ("w2", "w1")]
    assert nodes(LINUX.to(SERVERS).one_per_build()) == [("l1", "w1"), ("l1", "w2")]
    assert nodes(LINUX.to(LINUX).one_per_build()) == [("l1", "l2")]
    assert [workload.node for workload in WINDOWS.one_per_build()] == ["w1", "w2"]


def test_routes_go_to_the_servers_own_port_or_to_what_stands_before_it() -> None:
    (source, target), *_ = LINUX.to(SERVERS).udp(8080)
    assert (source.node, target.protocol, target.port, target.backends) == (
        "l1",
        "udp",
        8080,
        (SERVERS[0],),
    )
    pairs = LINUX.to(SERVERS).through(lambda server: server.tcp(1))
    assert [target.port for _, target in pairs] == [1] * 6


def test_a_node_that_is_not_covered_is_named_with_the_option_that_covers_it() -> None:
    with pytest.raises(MissingCapability) as raised:
        WINDOWS.at("w2", "w9")
    assert "w9" in str(raised.value)
    assert "--nodes=w9" in raised.value.remedy
    assert [workload.node for workload in WINDOWS.at("w3", "w1")] == ["w3", "w1"]


def test_two_groups_together_are_a_group() -> None:
    both = LINUX + WINDOWS
    assert isinstance(both, Group)
    assert both.first.node == "l1"
    assert len(both.tcp(80)) == 5


def test_each_server_has_a_client_of_each_system_and_the_clients_take_turns() -> None:
    pairs = (LINUX + WINDOWS).in_turns_to(SERVERS)
    assert nodes(pairs) == [
        ("l1", "w1"), ("l2", "w2"), ("l1", "w3"), ("w1", "w1"), ("w2", "w2"), ("w3", "w3"),
    ]  # fmt: skip
    assert nodes(LINUX.in_turns_to(SERVERS)) == [("l1", "w1"), ("l2", "w2"), ("l1", "w3")]


def test_in_a_crowd_an_address_has_the_place_that_it_is_given_among_addresses_of_nobody() -> None:
    (one,) = client = LINUX.at("l1")
    for place in (1, 3, 4):
        crowd = client.in_crowd(place, 4)
        assert crowd[place - 1] == one.address
        assert len(set(crowd)) == 4
        assert all(address.startswith("198.18.") for address in crowd if address != one.address)
