# SPDX-License-Identifier: Apache-2.0
"""If Calico does not route pods' packets, the message about a closed path names the missing
route."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from conformance.errors import ProbeBroken
from conformance.expect.explain.routed import RoutedPaths
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact
from conformance.model.host import HnsEndpoint, LinuxFacts, RouteEntry
from tests.unit.conformance.builders import a_node, a_workload, some_facts

L1 = a_workload("l", node="l1", address="10.244.1.4", node_address="10.0.0.1")
L2 = a_workload("m", node="l2", address="10.244.2.4", node_address="10.0.0.2")
W1 = a_workload("w", "windows", node="w1", address="10.244.3.4", node_address="10.0.0.3")
W2 = a_workload("x", "windows", node="w2", address="10.244.4.4", node_address="10.0.0.4")


def route(to: str, by: str) -> RouteEntry:
    return RouteEntry(destination=to, gateway=by, device="eth0", onlink=False, table=254)


DEFAULT = route("0.0.0.0/0", "10.0.0.1")
LAID = tuple(route(f"10.244.{number}.0/24", f"10.0.0.{number}") for number in (1, 2, 3, 4))


@dataclass
class Hosts:
    """Hosts whose Linux nodes have these routes, and whose Windows nodes these endpoints."""

    routes: tuple[RouteEntry, ...] = (DEFAULT, *LAID)
    endpoints: tuple[str, ...] = ("cbr0_ep", "abc_cbr0")

    def linux(self, node: str) -> LinuxFacts:
        return LinuxFacts(node=node, links=(), routes=self.routes, fdb=(), neighbours=())

    def hns_networks(self, node: str) -> Any:
        return ()

    def hns_endpoints(self, node: str) -> list[HnsEndpoint]:
        return [
            HnsEndpoint(id=name, name=name, address="", mac="", network="")
            for name in self.endpoints
        ]


def paths(hosts: Any, cni: str = "win-bridge") -> RoutedPaths:
    nodes = [
        a_node(pod.node, pod.os, address=pod.node_address, cni=Fact(cni, "a test"))
        for pod in (L1, L2, W1, W2)
    ]
    return RoutedPaths(hosts, some_facts(*nodes))


def blamed(hosts: Any, source: Workload, server: Workload, cni: str = "win-bridge") -> Any:
    return paths(hosts, cni).blamed(source, server.tcp(8080))


@pytest.mark.parametrize("pair", [(L1, L2), (L2, L1)])
def test_a_route_that_a_linux_node_lacks_is_named_in_either_direction(pair: Any) -> None:
    without = Hosts(routes=(DEFAULT, *(one for one in LAID if "10.244.2" not in one.destination)))
    found = blamed(without, *pair)
    assert found.wrong == ("route of node l1 to pods of node l2: no route",)
    assert found.sound == ""


def test_a_route_to_another_node_is_named() -> None:
    led_astray = Hosts(routes=(DEFAULT, *LAID[:2], route("10.244.3.0/24", "10.0.0.4")))
    assert blamed(led_astray, L1, W1).wrong == (
        "route of node l1 to pods of node w1: through 10.0.0.4, which is another node",
    )


def test_a_missing_endpoint_of_the_host_is_named_and_none_where_a_cloud_gives_none() -> None:
    bare = Hosts(endpoints=("abc_cbr0",))
    assert blamed(bare, L1, W1).wrong == (
        "endpoint of node w1 in its pods' network, which is their gateway: missing",
    )
    assert blamed(bare, L1, W1, cni="AzureVNET").wrong == ()


def test_where_all_is_right_what_a_windows_host_has_is_left() -> None:
    found = blamed(Hosts(), L1, W1)
    assert found.wrong == ()
    assert (
        "a route of node w1 is missing (Get-NetRoute), or the fabric's source check" in found.sound
    )
    assert "a route of node w1 or node w2 is missing" in blamed(Hosts(), W1, W2).sound
    assert "Get-NetRoute" not in blamed(Hosts(), L1, L2).sound


@pytest.mark.parametrize(("source", "server"), [(L1, L2), (W1, L1), (W1, W2)])
def test_without_routes_on_nodes_the_fabrics_routes_are_left(
    source: Workload, server: Workload
) -> None:
    found = blamed(Hosts(routes=(DEFAULT,)), source, server, cni="AzureVNET")
    assert found.wrong == ()
    assert found.sound.startswith(
        "nodes have no routes to pods: a route of the fabric to pods of "
        f"node {source.node} or node {server.node}"
    )


BY_TUNNEL = tuple(route(f"10.244.{number}.0/24", f"10.244.{number}.0") for number in (1, 2, 3, 4))
"""Routes of flannel's overlay: the next hop is the address of the other node's device."""


def in_overlay(source: Workload, server: Workload, *routes: RouteEntry) -> Any:
    """Return the suspected cause on flannel's overlay, whose Windows hosts have no endpoint."""
    plane = Fact("overlay", "a test")
    nodes = [
        a_node(
            pod.node,
            pod.os,
            address=pod.node_address,
            cni=Fact("flannel", "a test"),
            plane=plane,
            pod_networks=(f"10.244.{number}.0/24",),
        )
        for number, pod in enumerate((L1, L2, W1, W2), start=1)
    ]
    hosts: Any = Hosts(routes=(DEFAULT, *routes), endpoints=())
    return RoutedPaths(hosts, some_facts(*nodes)).blamed(source, server.tcp(8080))


def test_a_route_that_is_missing_in_flannels_overlay_is_named() -> None:
    found = in_overlay(L1, L2, BY_TUNNEL[0], *BY_TUNNEL[2:])
    assert found.wrong == ("route of node l1 to pods of node l2: no route",)


def test_where_all_is_right_in_flannels_overlay_its_port_and_windows_routes_are_left() -> None:
    found = in_overlay(L1, W1, *BY_TUNNEL)
    assert found.wrong == ()
    assert found.sound == (
        "Linux nodes' routes to pods are right: a route of node w1 is missing "
        "(RemoteSubnetRoute of Get-HnsNetwork), or "
        "UDP port 4789 does not pass between node l1 and node w1"
    )
    assert "RemoteSubnetRoute" not in in_overlay(L1, L2, *BY_TUNNEL).sound


def test_within_a_node_nothing_is_named_and_what_cannot_be_read_is() -> None:
    assert not blamed(Hosts(), L1, replace(L2, node="l1")).sound

    class Mute(Hosts):
        def linux(self, node: str) -> LinuxFacts:
            raise ProbeBroken("no answer")

    found = blamed(Mute(), L1, L2)
    assert (found.wrong, found.unread, found.sound) == (
        (),
        "node l1 could not be read: no answer",
        "",
    )
