"""Whom a policy keeps out of what: sources of another namespace are asked by another port, where a server has it."""

from __future__ import annotations

from dataclasses import replace

from conformance.model.endpoint import OS, Pair
from conformance.pods.groups import Group
from conformance.pods.sides import Sides
from tests.unit.conformance.expect.stand_ins import workload


def pod(role: str, node: str, namespace: str = "ns") -> Group:
    os: OS = "windows" if role.startswith("windows") else "linux"
    return Group(
        [replace(workload(f"{namespace}-{role}", os), role=role, node=node, namespace=namespace)]
    )


FRIEND, NEAR, AWAY = (
    pod("linux-client", "l1"),
    pod("windows-client", "w1"),
    pod("linux-client", "l2", "ns-elsewhere"),
)
SERVER, CLIENT = pod("linux-server", "l1"), pod("linux-client", "l3")
SIDES = Sides(FRIEND, NEAR + AWAY, SERVER + CLIENT, two_ports=True)


def told(pairs: list[Pair]) -> set[tuple[str, str, str]]:
    return {
        (source.pod, target.backends[0].pod, f"{target.port}/{target.protocol}")
        for source, target in pairs
        if target.protocol == "tcp"
    }


def test_strangers_of_another_namespace_come_by_another_port_where_there_is_one() -> None:
    assert told(SIDES.closed) == {
        ("ns-windows-client", "ns-linux-server", "8080/tcp"),
        ("ns-windows-client", "ns-linux-client", "8080/tcp"),
        ("ns-elsewhere-linux-client", "ns-linux-server", "8081/tcp"),
        ("ns-elsewhere-linux-client", "ns-linux-client", "8080/tcp"),
    }


def test_a_friend_shows_each_port_by_which_strangers_are_kept_out() -> None:
    shut = {(target.backends[0].uid, target.port, target.protocol) for _, target in SIDES.closed}
    opened = {(target.backends[0].uid, target.port, target.protocol) for _, target in SIDES.opened}
    assert shut <= opened


def test_where_one_port_is_asked_who_is_let_in_later_is_asked_by_it_before() -> None:
    first, second = (
        replace(SIDES.between(FRIEND, NEAR + AWAY), two_ports=False),
        Sides(NEAR, FRIEND + AWAY, SERVER),
    )
    before = {
        (source.uid, target.host, target.port) for source, target in [*first.opened, *first.closed]
    }
    ways = {
        (source.uid, target.host, target.port)
        for source, target in second.opened
        if target.backends[0] in SERVER
    }
    assert ways <= before


def test_without_strangers_of_another_namespace_nobody_asks_for_another_port() -> None:
    alone = SIDES.between(FRIEND, NEAR)
    assert {target.port for _, target in [*alone.opened, *alone.closed]} == {8080}


def test_each_denied_path_is_asked_by_both_protocols() -> None:
    paths = [
        (source.uid, target.host, target.port, target.protocol)
        for source, target in SIDES.closed_both_ways
    ]
    by_tcp, by_udp = (
        {path[:3] for path in paths if path[3] == protocol} for protocol in ("tcp", "udp")
    )
    assert by_tcp == by_udp


def test_what_is_closed_both_ways_is_closed_from_servers_too() -> None:
    ways = {(source.pod, target.backends[0].pod) for source, target in SIDES.closed_both_ways}
    assert ways == {way[::-1] for way in ways}
    assert ("ns-linux-server", "ns-windows-client") in ways


def test_strangers_of_each_system_ping_each_server_in_turns() -> None:
    away, beside = (
        AWAY + pod("linux-client", "l1", "ns-elsewhere"),
        NEAR + pod("windows-client", "w2"),
    )
    pings = Sides(FRIEND, beside + away, SERVER + CLIENT).pings
    assert {(source.os, there.uid) for source, there in pings} == {
        (os, there.uid) for os in ("linux", "windows") for there in SERVER + CLIENT
    }
    assert len(pings) == 4
    assert {source.node for source, _ in pings} == {"l1", "l2", "w1", "w2"}


def test_strangers_of_a_node_that_has_servers_may_be_asked_with_these_alone() -> None:
    near = Sides(
        FRIEND,
        NEAR + pod("linux-client", "l1", "ns-elsewhere") + AWAY,
        SERVER + CLIENT,
        own_node=True,
    )
    ways = {(source.node, target.backends[0].node) for source, target in near.closed_both_ways}
    assert ("l1", "l1") in ways
    assert not {("l1", "l3"), ("l3", "l1")} & ways
    assert {("l2", "l1"), ("l2", "l3"), ("w1", "l3")} <= ways
