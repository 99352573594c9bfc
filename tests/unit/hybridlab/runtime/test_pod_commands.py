# SPDX-License-Identifier: Apache-2.0
"""``ip``, ``ping`` and ``nslookup`` print what busybox prints, from stand-ins of the network."""

from __future__ import annotations

import socket
import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hybridlab.runtime.applets import busybox, dns, icmp
from hybridlab.runtime.applets.nslookup import nslookup

from .conftest import Ran

if TYPE_CHECKING:
    from .conftest import Harness

DEVICES = {
    1: ("lo", "127.0.0.1", "255.0.0.0", 65536, bytes(6)),
    4: ("eth0", "10.0.0.7", "255.255.255.0", 1450, b"\x02\0\0\x01\x02\x03"),
}
LO = """\
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue \n\
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
       valid_lft forever preferred_lft forever
"""
ETH0 = """\
4: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP,M-DOWN> mtu 1450 qdisc noqueue \n\
    link/ether 02:00:00:01:02:03 brd ff:ff:ff:ff:ff:ff
    inet 10.0.0.7/24 scope global eth0
       valid_lft forever preferred_lft forever
"""


def ioctl(_: int, request: int, given: bytes) -> bytes:
    """The kernel's answers about two devices."""
    if request == 0x8910:
        index = struct.unpack("16si236x", given)[1]
        if index not in DEVICES:
            raise OSError
        return DEVICES[index][0].encode().ljust(16, b"\0")
    asked = given.rstrip(b"\0").decode()
    _name, address, mask, mtu, mac = next(one for one in DEVICES.values() if one[0] == asked)
    answers = {
        0x8915: bytes(4) + socket.inet_aton(address),
        0x891B: bytes(4) + socket.inet_aton(mask),
        0x8921: struct.pack("i", mtu),
        0x8927: bytes(2) + mac,
    }
    return bytes(16) + answers[request]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ip addr", Ran(0, LO + ETH0, "")),
        ("ip -4 addr show dev eth0", Ran(0, ETH0, "")),
        ("ip addr show dev eth9", Ran(1, "", "ip: can't find device 'eth9'\n")),
        ("ip -o addr", Ran(1, "", "not emulated: ip -o addr\n")),
        ("ip route", Ran(1, "", "not emulated: ip route\n")),
    ],
)
def test_ip_shows_devices_with_their_address(
    harness: Harness, monkeypatch: Any, command: str, expected: Ran
) -> None:
    monkeypatch.setattr(busybox, "fcntl", SimpleNamespace(ioctl=ioctl))
    assert harness.run(busybox.ip, *command.split()) == expected


@pytest.mark.parametrize(
    ("kinds", "code", "summary"),
    [
        (
            ["reply", "timeout", "reply"],
            0,
            "3 packets transmitted, 2 packets received, 33% packet loss\n"
            "round-trip min/avg/max = 0.500/1.500/2.500 ms\n",
        ),
        (
            ["timeout", "unreachable", "timeout"],
            1,
            "3 packets transmitted, 0 packets received, 100% packet loss\n",
        ),
    ],
)
def test_ping_counts_replies_and_their_times(
    harness: Harness, monkeypatch: Any, kinds: list[str], code: int, summary: str
) -> None:
    async def echo(_: Any, address: str, sequence: int, **__: Any) -> icmp.Echo:
        return icmp.Echo(kinds[sequence], address, 63, sequence + 0.5)

    monkeypatch.setattr(icmp, "echo", echo)
    ran = harness.run(busybox.ping, *["ping", "-q", "-i", "0", "-c", "3", "127.0.0.1"])
    head = "PING 127.0.0.1 (127.0.0.1): 56 data bytes\n\n--- 127.0.0.1 ping statistics ---\n"
    assert ran == Ran(code, head + summary, "")


SERVER = "Server:\t\t127.0.0.1\nAddress:\t127.0.0.1:53\n\n"
LONG = "web.demo.svc.cluster.local"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "web",
            Ran(
                0,
                f"{SERVER}Name:\t{LONG}\nAddress: 10.96.0.7\n\n"
                f"*** Can't find {LONG}: No answer\n\n",
                "",
            ),
        ),
        (
            "gone.example.",
            Ran(1, SERVER + "** server can't find gone.example: NXDOMAIN\n\n" * 2, ""),
        ),
        (
            "alias.example",
            Ran(
                0,
                f"{SERVER}alias.example\tcanonical name = web.example\n"
                "Name:\tweb.example\nAddress: 10.96.0.7\n\n"
                "*** Can't find alias.example: No answer\n\n",
                "",
            ),
        ),
        ("silent.example", Ran(1, ";; connection timed out; no servers could be reached\n\n", "")),
        (
            "closed.example 10.0.0.9",
            Ran(
                1,
                ";; connection timed out; no servers could be reached\n\n",
                "nslookup: write to '10.0.0.9': Connection refused\n",
            ),
        ),
        ("web web", Ran(1, "", "not emulated: nslookup with server 'web'\n")),
        ("-type=a web", Ran(1, "", "not emulated: nslookup -type=a web\n")),
    ],
)
def test_nslookup_asks_for_both_address_families(
    harness: Harness, monkeypatch: Any, command: str, expected: Ran
) -> None:
    async def query(_: Any, name: str, kind: str, *, server: str) -> dns.Answer:
        first = name.partition(".")[0]
        if first == "silent":
            raise dns.ResolverSilent(name)
        if first == "closed":
            raise ConnectionRefusedError
        if first == "gone":
            return dns.Answer(server, "NXDOMAIN", name, ())
        if kind == "AAAA":
            return dns.Answer(server, "NOERROR", name, ())
        if first == "alias":
            aliases = ((name, "web.example"),)
            return dns.Answer(server, "NOERROR", "web.example", ("10.96.0.7",), aliases)
        return dns.Answer(server, "NOERROR", name, ("10.96.0.7",))

    monkeypatch.setattr(dns, "query", query)
    assert harness.run(nslookup, "nslookup", *command.split()) == expected
