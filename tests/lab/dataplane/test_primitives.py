# SPDX-License-Identifier: Apache-2.0
"""Every primitive of which planes are made has its documented effect in the kernel, and refuses
what is impossible."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hybridlab.dataplane.contract import DataplaneError
from hybridlab.dataplane.model import (
    DirectRoute,
    EndpointProgram,
    FabricRoute,
    FabricTable,
    HostEndpoint,
    NodeRoutes,
    NodeSpec,
    PodPort,
    PodSpec,
    TunnelRoute,
)
from tests.lab.dataplane.conftest import POOL, Answer, Lab, labd_lab
from tests.lab.dataplane.test_policy import ingress
from tests.lab.dataplane.test_underlay import capture, encapsulated, frames

BIRD = 12
DENY_ALL = ingress()
AMAZON = "a1"
"""A node whose pods' interfaces have another prefix."""


class BareLab(Lab):
    """The nodes and pods of the other tests, without tunnels and routes: what is laid is each test's own."""

    def __init__(self, runner: Any, channel: Any) -> None:
        super().__init__(runner, channel)
        self.nodes = {
            name: replace(node, spec=replace(node.spec, tunnel=None))
            for name, node in self.nodes.items()
        }

    async def build(self) -> None:
        for node in self.nodes.values():
            await self.plane.add_node(node.spec)
        await self.plane.add_node(
            NodeSpec(
                name=AMAZON, os="linux", address="10.0.0.20", prefix_length=24, pod_prefix="eni"
            )
        )
        for name in self.nodes:
            await self.add_pod(name, "a")
            await self.open_all(name)

    def direct(self, name: str, *, vias: dict[str, str] | None = None) -> NodeRoutes:
        """The node's routes by the other nodes' own addresses, or by others."""
        own, given = self.nodes[name], vias or {}
        routes = tuple(
            DirectRoute(cidr=node.block, via=given.get(other, node.spec.address), protocol=BIRD)
            for other, node in self.nodes.items()
            if node is not own
        )
        return NodeRoutes(own_blocks=(own.block,), own_protocol=BIRD, direct=routes, pools=(POOL,))

    def lay(self, **routes: NodeRoutes) -> None:
        for name, laid in routes.items():
            self.run(self.plane.set_routes(name, laid))

    def facts(self, node: str) -> Any:
        return self.run(self.plane.facts(node))


@pytest.fixture(scope="module")
def made() -> Iterator[BareLab]:
    with labd_lab(BareLab) as built:
        yield built


@pytest.fixture
def bare(made: BareLab) -> Iterator[BareLab]:
    """The lab with nothing laid on any node."""
    yield made
    made.run(made.plane.set_fabric(FabricTable()))
    for name, node in made.nodes.items():
        made.run(made.plane.set_tunnel(name, None))
        made.lay(**{name: NodeRoutes(own_blocks=(node.block,))})


def bare_packets(captured: list[bytes]) -> Iterator[tuple[str, str, int]]:
    """(source, destination, TTL) of each TCP packet on the wire, as it is there."""
    for frame in captured:
        if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_TCP:
            yield socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34]), frame[22]


def test_a_tunnel_has_the_name_identifier_and_port_it_is_given(bare: BareLab) -> None:
    tunnels = {
        n: replace(bare.nodes[n].tunnel, device="flannel.9", identifier=9, port=8472)
        for n in ("l1", "l2")
    }
    for name, other in (("l1", "l2"), ("l2", "l1")):
        bare.run(bare.plane.set_tunnel(name, tunnels[name]))
        end = tunnels[other]
        route = TunnelRoute(
            cidr=bare.nodes[other].block, node_address=bare.nodes[other].spec.address,
            tunnel_address=end.address, tunnel_mac=end.mac,
        )  # fmt: skip
        bare.lay(**{name: NodeRoutes(own_blocks=(bare.nodes[name].block,), remote_blocks=(route,))})
    with capture(bare, "fabric") as sock:
        assert bare.tcp("l1a", "l2a").outcome == "open"
        assert {(port, vni) for _, _, port, vni, *_ in encapsulated(frames(sock))} == {(8472, 9)}
    device = next(link for link in bare.facts("l1")["links"] if link["ifname"] == "flannel.9")
    assert (device["vni"], device["port"]) == (9, 8472)


def test_by_direct_routes_packets_are_on_the_underlay_as_pods_send_them(bare: BareLab) -> None:
    bare.lay(**{name: bare.direct(name) for name in bare.nodes})
    with capture(bare, "fabric") as sock:
        assert bare.tcp("l1a", "w2a") == Answer("open", bare.address("l1a"))
        captured = frames(sock)
    assert list(encapsulated(captured)) == []
    there, back = (
        (bare.address("l1a"), bare.address("w2a")),
        (bare.address("w2a"), bare.address("l1a")),
    )
    seen = {(source, destination): ttl for source, destination, ttl in bare_packets(captured)}
    assert seen == {there: 63, back: 63}, "each node forwards once"
    routes = {route["dst"]: route for route in bare.facts("l1")["routes"]}
    own, other = routes[bare.nodes["l1"].block], routes[bare.nodes["w2"].block]
    assert (own["type"], own["protocol"]) == ("blackhole", BIRD)
    assert (other["gateway"], other["dev"], other["protocol"]) == (
        bare.nodes["w2"].spec.address,
        "eth0",
        BIRD,
    )


def test_a_direct_route_that_goes_is_taken_away(bare: BareLab) -> None:
    bare.lay(**{name: bare.direct(name) for name in bare.nodes})
    full = bare.direct("l1")
    bare.lay(l1=replace(full, direct=full.direct[:1]))
    assert bare.outcomes("l1a", "l2a", "w1a") == ["open", "timed out"]


def test_a_next_hop_off_the_underlay_is_refused_by_name_and_the_other_routes_are_laid(
    bare: BareLab,
) -> None:
    bare.lay(**{name: bare.direct(name) for name in ("l2", "w1", "w2")})
    with pytest.raises(DataplaneError) as refused:
        bare.lay(l1=bare.direct("l1", vias={"w1": "10.7.0.9"}))
    assert f"{bare.nodes['w1'].block} via 10.7.0.9" in str(refused.value)
    assert "is not on the underlay 10.0.0.0/24" in str(refused.value)
    assert bare.outcomes("l1a", "l2a", "w1a") == ["open", "timed out"]


def test_a_host_speaks_to_its_pods_from_its_endpoint_among_them(bare: BareLab) -> None:
    node = bare.nodes["w1"]
    endpoint = f"{node.block.rpartition('.')[0]}.130"
    bare.lay(
        w1=replace(
            bare.direct("w1"), host_endpoint=HostEndpoint(name="Calico_ep", address=endpoint)
        )
    )
    late = bare.run(bare.add_pod("w1", "h"))
    bare.run(bare.open_all("w1"))
    for pod in ("w1a", late.id):
        assert bare.tcp("node:w1", pod) == Answer("open", endpoint), (
            "whether the pod or the endpoint came first"
        )
    assert bare.tcp("w1a", late.id).source == bare.address("w1a")
    addresses = {(item["dev"], item["local"]) for item in bare.facts("w1")["addresses"]}
    assert ("Calico_ep", endpoint) in addresses
    bare.lay(w1=bare.direct("w1"))
    assert bare.tcp("node:w1", "w1a") == Answer("open", node.spec.address)
    assert "Calico_ep" not in {link["ifname"] for link in bare.facts("w1")["links"]}
    bare.run(bare.plane.remove_pod(late.id))


def test_pods_interfaces_have_the_prefix_of_their_node_and_policy_holds_there(
    bare: BareLab,
) -> None:
    spec = PodSpec(id="eni", node=AMAZON, name="eni", namespace="default", address="192.168.2.5")
    bare.run(bare.plane.add_pod(spec))
    bare.pods[spec.id] = spec
    bare.run(bare.open_all(AMAZON))
    assert {
        link["ifname"][:3] for link in bare.facts(AMAZON)["links"] if link.get("kind") == "veth"
    } == {"eth", "eni"}
    assert bare.tcp(f"node:{AMAZON}", "eni").outcome == "open"
    with contextlib.ExitStack() as held:
        other = replace(spec, id="eni2", name="eni2", address="192.168.2.6")
        bare.run(bare.plane.add_pod(other))
        bare.pods[other.id] = other
        held.callback(lambda: bare.run(bare.plane.remove_pod(other.id)))
        bare.program(other.id, EndpointProgram())
        assert bare.outcomes("eni", other.id) == ["open"]
        with bare.policy("eni", DENY_ALL):
            assert bare.outcomes("eni", other.id) == ["timed out"]
    bare.run(bare.plane.remove_pod(spec.id))


@pytest.mark.parametrize("node", ["l1", "w1"])
def test_a_pod_that_is_open_at_first_takes_anything_until_it_is_programmed(
    bare: BareLab, node: str
) -> None:
    bare.lay(**{name: bare.direct(name) for name in bare.nodes})
    address = f"192.168.1.{64 * list(bare.nodes).index(node) + 40}"
    for port, outcome in ((PodPort(), "timed out"), (PodPort(initial="open"), "open")):
        spec = PodSpec(
            id="first", name="first", namespace="default", node=node, address=address, port=port
        )
        bare.run(bare.plane.add_pod(spec))
        bare.pods[spec.id] = spec
        assert bare.outcomes(spec.id, "l2a") == [outcome]
        bare.program(spec.id, DENY_ALL)
        assert bare.outcomes(spec.id, "l2a") == ["timed out"]
        bare.run(bare.plane.remove_pod(spec.id))


def test_the_underlay_routes_to_the_nodes_that_it_is_told(bare: BareLab) -> None:
    assert bare.outcomes("l2a", "l1a") == ["timed out"], "nobody routes yet"
    routes = tuple(FabricRoute(cidr=node.block, node=name) for name, node in bare.nodes.items())
    bare.run(bare.plane.set_fabric(FabricTable(routes=routes)))
    with capture(bare, "fabric") as sock:
        assert bare.tcp("l1a", "l2a") == Answer("open", bare.address("l1a"))
        ttls = {
            ttl for source, _, ttl in bare_packets(frames(sock)) if source == bare.address("l1a")
        }
    assert ttls == {63, 62}, "the node forwards, and the underlay's router"
    bare.run(bare.plane.set_fabric(FabricTable(routes=routes[:1])))
    assert bare.outcomes("l2a", "l1a") == ["timed out"]


def test_a_checked_port_lets_out_what_belongs_to_it_alone(bare: BareLab) -> None:
    bare.lay(**{name: bare.direct(name) for name in bare.nodes})
    assert bare.outcomes("l2a", "l1a", "w1a") == ["open", "open"]
    bare.run(bare.plane.set_fabric(FabricTable(source_check=("l1",))))
    assert bare.outcomes("l2a", "l1a", "w1a") == ["timed out", "open"], (
        "a pod's address is not the port's own"
    )
    assert bare.tcp("node:l1", "l2a").outcome == "open"
    routes = (FabricRoute(cidr=bare.nodes["l1"].block, node="l1"),)
    bare.run(bare.plane.set_fabric(FabricTable(routes=routes, source_check=("l1",))))
    assert bare.outcomes("l2a", "l1a") == ["open"], "what is routed to a port belongs to it"
