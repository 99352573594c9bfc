# SPDX-License-Identifier: Apache-2.0
"""The world of the golden tables in real namespaces: the pods of its Windows node, and all pods
that send to them.

Policy goes from objects through the graph and a node's own policy source to the data plane, as in a
Felix. Pods have the addresses of the table, so that the table's verdicts can be compared with real
packets.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hybridlab.calico.acl_lists import AclLists
from hybridlab.calico.felix_faults import FelixFaults
from hybridlab.calico.felix_policy import NodePolicy, PolicySource
from hybridlab.calico.felix_windows_policy import WindowsNodePolicy
from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.model import (
    OS,
    EndpointProgram,
    NodeRoutes,
    NodeSpec,
    PodPort,
    PodSpec,
    PolicyUpdate,
    Tunnel,
    TunnelRoute,
)
from hybridlab.dataplane.sandbox_socket import sandbox_socket
from hybridlab.kernel.wire import Channel
from hybridlab.policy.flattener import FelixPanic
from hybridlab.policy.release import Release, as_shipped
from tests.golden.policy_objects import Objects
from tests.golden.policy_packets import Packet
from tests.golden.policy_tables import World

TCP, UDP = 6, 17
PORTS = {TCP: (80, 81, 443, 8080, 9000, 65535), UDP: (53, 80)}
ASKED, PEERS = "asked", "peers"
"""The two nodes: the pods of ``asked`` have policy, and all other pods are on ``peers``."""
BLOCKS = {
    ASKED: ("10.65.1.0/24",),
    PEERS: ("10.65.2.0/24", "192.0.2.9/32", "198.51.100.7/32", "203.0.113.50/32"),
}
ADDRESSES = {ASKED: "172.16.0.4", PEERS: "172.16.0.5"}
OUTSIDE = ("192.0.2.9", "198.51.100.7", "203.0.113.50")
DENIED_SECONDS = 0.4
PATIENCE_SECONDS = 3.0
"""s. The time limit for packets that must arrive: a SYN is sent again after 1 s."""


@dataclass(frozen=True)
class Opening:
    """A packet that opens a connection, from one pod to another."""

    source: str
    destination: str
    protocol: int
    source_port: int
    port: int


class GoldenLab:
    """A lab whose asked node has one operating system."""

    def __init__(self, channel: Channel, plane: Dataplane, world: World, os: OS) -> None:
        self._channel, self._plane, self._world, self._os = channel, plane, world, os
        self.ids = {pod["metadata"]["uid"]: pod for pod in world.objects if pod["kind"] == "Pod"}
        self._at: dict[str, str] = {}
        """Map each address to the pod's id."""
        self._listeners: dict[tuple[str, int, int], socket.socket] = {}
        self._unused_ports = itertools.count(10_000)
        self._any_source_port = True
        """True if no rule matches source ports. Then every connection uses a source port that no
        case has used, which conntrack does not know yet."""

    async def build(self) -> None:
        """Build nodes, pods and listeners."""
        vxlans = {node: _vxlan(number) for number, node in enumerate(BLOCKS, start=1)}
        for node, vxlan in vxlans.items():
            os: OS = self._os if node == ASKED else "linux"
            await self._plane.add_node(
                NodeSpec(name=node, os=os, address=ADDRESSES[node], prefix_length=24, tunnel=vxlan)
            )
        pools = tuple(cidr for cidrs in BLOCKS.values() for cidr in cidrs)
        for node, own in BLOCKS.items():
            other = PEERS if node == ASKED else ASKED
            remote = tuple(_remote(cidr, other, vxlans[other]) for cidr in BLOCKS[other])
            await self._plane.set_routes(
                node, NodeRoutes(own_blocks=own, remote_blocks=remote, pools=pools)
            )
        for uid, pod in self.ids.items():
            address = pod["metadata"]["annotations"]["cni.projectcalico.org/podIP"].partition("/")[
                0
            ]
            await self._add_pod(uid, address)
        for address in OUTSIDE:
            await self._add_pod(f"outside-{address}", address)
        open_all = {
            pod: EndpointProgram()
            for address, pod in self._at.items()
            if _node_of(address) == PEERS
        }
        await self._plane.update_policy(PEERS, PolicyUpdate(endpoints=open_all))
        for address, identity in self._at.items():
            for protocol, ports in PORTS.items():
                for port in ports:
                    self._listeners[address, protocol, port] = await self._listener(
                        identity, protocol, port
                    )

    async def _add_pod(self, identity: str, address: str) -> None:
        node = _node_of(address)
        gateway = "10.65.1.1" if node == ASKED and self._os == "windows" else "169.254.1.1"
        spec = PodSpec(
            id=identity,
            node=node,
            name=identity,
            namespace="n",
            address=address,
            port=PodPort(gateway=gateway),
        )
        await self._plane.add_pod(spec)
        self._at[address] = identity

    async def _listener(self, pod: str, protocol: int, port: int) -> socket.socket:
        made = await sandbox_socket(self._channel, pod, kind=_kind(protocol))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("0.0.0.0", port))
        if protocol == TCP:
            made.listen(64)
        return made

    def close(self) -> None:
        """Close the listeners."""
        for listener in self._listeners.values():
            listener.close()

    async def lay(self, case: Mapping[str, Any]) -> bool:
        """Replace the policies on the asked node by those of a case; return False if the node's
        Felix panics."""
        release = Release(case["calico"], as_shipped(case["calico"]))
        objects = Objects(release, self._world.hosts)
        source = self._source(objects, release)
        objects.graph.subscribe(self._world.node, source)
        objects.take(self._world.objects)
        objects.take(self._world.network_sets if case["network_sets"] else ())
        objects.take(case["objects"])
        assert not objects.unread, objects.unread
        source.everything_due()
        try:
            difference = source.difference()
        except FelixPanic:
            return False
        assert difference is not None
        await self._plane.update_policy(ASKED, difference.update)
        self._any_source_port = not _has_source_ports(case)
        return True

    def _source(self, objects: Objects, release: Release) -> PolicySource:
        node, faults = self._world.node, FelixFaults(self._world.node, lambda level, message: None)
        if self._os == "linux":
            return NodePolicy(node, objects.graph, faults, lambda: None)
        lists = AclLists(release.version)
        addresses = (ADDRESSES[ASKED],)
        return WindowsNodePolicy(
            node, lambda: addresses, objects.graph, release, lists, faults, lambda: None, faults.log
        )

    async def opened(
        self, openings: Iterable[Opening], expected: Mapping[Opening, bool]
    ) -> dict[Opening, bool]:
        """Return the packets that arrive; all are tried at once, and an expected packet may need a second SYN."""
        asked = tuple(openings)
        tried = await asyncio.gather(
            *(self._opens(opening, patient=expected[opening]) for opening in asked)
        )
        return dict(zip(asked, tried, strict=True))

    async def _opens(self, opening: Opening, *, patient: bool) -> bool:
        made = await sandbox_socket(
            self._channel, self._at[opening.source], kind=_kind(opening.protocol)
        )
        seconds = PATIENCE_SECONDS if patient else DENIED_SECONDS
        with made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(
                (
                    "0.0.0.0",
                    next(self._unused_ports) if self._any_source_port else opening.source_port,
                )
            )
            if opening.protocol == UDP:
                return await self._arrives(made, opening, seconds)
            # the socket is closed by a reset
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(seconds):
                    await loop.sock_connect(made, (opening.destination, opening.port))
                    accepted, _ = await loop.sock_accept(
                        self._listeners[opening.destination, TCP, opening.port]
                    )
            except TimeoutError:
                return False
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()
            return True

    async def _arrives(self, made: socket.socket, opening: Opening, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        listener = self._listeners[opening.destination, UDP, opening.port]
        word = f"{opening}".encode()
        await loop.sock_sendto(made, word, (opening.destination, opening.port))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await loop.sock_recv(listener, 1000) == word
        return False


def expected_of(case: Mapping[str, Any], column: str, world: World) -> dict[Opening, bool]:
    """Return the table's answer for each connection: it passes if both ends on the asked node allow
    it."""
    said: dict[Opening, bool] = {}
    for pod, packets in world.probes.items():
        for packet, letter in zip(packets, case[column][pod], strict=True):
            opening = _opening(packet)
            if opening is not None:
                said[opening] = said.get(opening, True) and letter == "A"
    return said


def _has_source_ports(case: Mapping[str, Any]) -> bool:
    rules = [
        rule
        for obj in case["objects"]
        for direction in ("ingress", "egress")
        for rule in (obj.get("spec") or {}).get(direction) or ()
    ]
    return any((rule.get("source") or {}).keys() & {"ports", "notPorts"} for rule in rules)


def _opening(packet: Packet) -> Opening | None:
    if (
        packet.protocol not in PORTS
        or packet.source_port is None
        or packet.destination_port is None
    ):
        return None
    return Opening(
        packet.source,
        packet.destination,
        packet.protocol,
        packet.source_port,
        packet.destination_port,
    )


def _kind(protocol: int) -> int:
    return socket.SOCK_STREAM if protocol == TCP else socket.SOCK_DGRAM


def _node_of(address: str) -> str:
    return ASKED if address.startswith("10.65.1.") else PEERS


def _vxlan(number: int) -> Tunnel:
    address = f"10.65.{number}.{240 + number}"
    mac = f"66:00:00:00:00:{number:02x}"
    return Tunnel(
        device="vxlan.calico", identifier=4096, port=4789, mtu=1450, address=address, mac=mac
    )


def _remote(cidr: str, node: str, vxlan: Tunnel) -> TunnelRoute:
    return TunnelRoute(
        cidr=cidr, node_address=ADDRESSES[node], tunnel_address=vxlan.address, tunnel_mac=vxlan.mac
    )
