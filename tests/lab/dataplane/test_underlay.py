# SPDX-License-Identifier: Apache-2.0
"""Real packets and the kernel's real state: encapsulation, static entries, MTU, and a changed
VNI."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from hybridlab.dataplane.sandbox_socket import sandbox_socket
from tests.lab.dataplane.conftest import Lab

ETH_P_ALL = 3


@contextlib.contextmanager
def capture(lab: Any, where: Any, device: Any = None) -> Iterator[Any]:
    """On one device, or on all of the namespace."""
    sock = lab.run(
        sandbox_socket(
            lab.channel, where, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)
        )
    )
    with sock:
        if device is not None:
            sock.bind((device, ETH_P_ALL))
        sock.setblocking(False)
        yield sock


def frames(sock: Any) -> Any:
    """Everything captured so far."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(sock.recv(65536))
    return found


def encapsulated(captured: Any) -> Iterator[Any]:
    """(outer source, outer destination, UDP port, VNI, inner source, inner destination) of each VXLAN frame."""
    for frame in captured:
        if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_UDP:
            continue
        outer = frame[14:]
        udp = outer[20:]
        port = struct.unpack_from("!H", udp, 2)[0]
        inner = udp[8 + 8 + 14 :]
        yield (
            socket.inet_ntoa(outer[12:16]),
            socket.inet_ntoa(outer[16:20]),
            port,
            int.from_bytes(udp[12:15], "big"),
            socket.inet_ntoa(inner[12:16]),
            socket.inet_ntoa(inner[16:20]),
        )


@pytest.mark.parametrize(("where", "device"), [("fabric", None), ("node:l1", "eth0")])
def test_traffic_between_nodes_is_vxlan_with_vni_4096_on_udp_4789(
    lab: Lab, where: str, device: str | None
) -> None:
    with capture(lab, where, device) as sock:
        assert lab.tcp("l1a", "w2a").outcome == "open"
        seen = set(encapsulated(frames(sock)))
    request = ("10.0.0.11", "10.0.0.14", 4789, 4096, lab.address("l1a"), lab.address("w2a"))
    answer = ("10.0.0.14", "10.0.0.11", 4789, 4096, lab.address("w2a"), lab.address("l1a"))
    assert {request, answer} <= seen


def test_traffic_within_a_node_does_not_leave_it(lab: Lab) -> None:
    with capture(lab, "fabric") as sock:
        assert lab.tcp("l1a", "l1b").outcome == "open"
        assert list(encapsulated(frames(sock))) == []


def test_a_node_has_exactly_the_static_entries_that_felix_lays(lab: Lab) -> None:
    facts: Any = lab.run(lab.plane.facts("l1"))
    remote = [n for n in lab.nodes.values() if n.spec.name != "l1"]
    assert {(e["mac"], e["dst"]) for e in facts["fdb"] if e["dev"] == "vxlan.calico"} == {
        (n.tunnel.mac, n.spec.address) for n in remote
    }
    tunnels = {
        (n["dst"], n["lladdr"], n["permanent"])
        for n in facts["neighbours"]
        if n["dev"] == "vxlan.calico"
    }
    assert tunnels == {(n.tunnel.address, n.tunnel.mac, True) for n in remote}
    calico = {r["dst"]: r for r in facts["routes"] if r["protocol"] == 80}
    assert calico["192.168.1.0/26"]["type"] == "blackhole"
    for node in remote:
        route = calico[node.block]
        assert (route["gateway"], route["dev"], route["onlink"]) == (
            node.tunnel.address,
            "vxlan.calico",
            True,
        )
    vxlan = next(link for link in facts["links"] if link["ifname"] == "vxlan.calico")
    assert (vxlan["vni"], vxlan["port"], vxlan["mtu"], vxlan["up"]) == (4096, 4789, 1450, True)


def test_routes_that_are_no_longer_wanted_are_taken_away_and_come_back(lab: Lab) -> None:
    full = lab.routes("l1")
    fewer = dataclasses.replace(full, remote_blocks=full.remote_blocks[:1])
    lab.run(lab.plane.set_routes("l1", fewer))
    try:
        facts: Any = lab.run(lab.plane.facts("l1"))
        assert len([e for e in facts["fdb"] if e["dev"] == "vxlan.calico"]) == 1
        assert lab.outcomes("w2a", "l1a", "l2a") == ["timed out", "open"]
    finally:
        lab.run(lab.plane.set_routes("l1", full))
    assert lab.tcp("l1a", "w2a").outcome == "open"


def test_another_vni_cuts_a_node_off_until_it_is_set_back(lab: Lab) -> None:
    node = lab.nodes["l1"]

    async def move(vni: Any) -> None:
        await lab.plane.set_tunnel("l1", dataclasses.replace(node.tunnel, identifier=vni))
        await lab.plane.set_routes("l1", lab.routes("l1"))

    lab.run(move(4097))
    try:
        assert lab.outcomes("l1b", "l1a", "l2a", "w1a") == ["open", "timed out", "timed out"]
    finally:
        lab.run(move(4096))
    assert lab.outcomes("l1b", "l2a", "w1a") == ["open", "open"]


def test_a_pod_does_not_send_more_than_its_mtu(lab: Lab) -> None:
    with lab.socket("l1a", socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: never fragment
        sock.sendto(b"x" * (1450 - 28), (lab.address("l2a"), 9))
        with pytest.raises(OSError, match="Message too long"):
            sock.sendto(b"x" * (1450 - 27), (lab.address("l2a"), 9))
