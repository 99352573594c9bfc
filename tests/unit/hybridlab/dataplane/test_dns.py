# SPDX-License-Identifier: Apache-2.0
"""What the resolver answers, without sockets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dnslib
import pytest

from hybridlab.dataplane.dns import Resolver
from hybridlab.dataplane.model import Zone

ZONE = Zone(
    domain="cluster.local",
    a={
        "web.default.svc.cluster.local": ("10.96.1.1",),
        "headless.default.svc.cluster.local": tuple(f"192.168.1.{i}" for i in range(60)),
        "pod-1.headless.default.svc.cluster.local": ("192.168.1.1",),
    },
    srv={
        "_http._tcp.headless.default.svc.cluster.local": (
            (80, "pod-1.headless.default.svc.cluster.local"),
        )
    },
    ptr={"10.96.1.1": "web.default.svc.cluster.local"},
    cname={
        "out.default.svc.cluster.local": "db.example.com",
        "in.default.svc.cluster.local": "Web.default.svc.cluster.local",
        "twice.default.svc.cluster.local": "in.default.svc.cluster.local",
        "a.loop.svc.cluster.local": "b.loop.svc.cluster.local",
        "b.loop.svc.cluster.local": "a.loop.svc.cluster.local",
    },
)


def ask(name: Any, kind: str = "A", *, stream: bool = False, edns: bool = False) -> Any:
    resolver = Resolver()
    resolver.set_zone(ZONE)
    query = dnslib.DNSRecord.question(name, kind)
    if edns:
        query.add_ar(dnslib.EDNS0(udp_len=4096))
    answer = resolver.answer(dnslib, query.pack(), stream=stream)
    return dnslib.DNSRecord.parse(answer)


def values(answer: Any) -> list[Any]:
    return [str(record.rdata) for record in answer.rr]


@pytest.mark.parametrize(
    ("name", "kind", "code", "expected"),
    [
        ("web.default.svc.cluster.local", "A", "NOERROR", ["10.96.1.1"]),
        ("WEB.Default.svc.cluster.local", "A", "NOERROR", ["10.96.1.1"]),
        ("web.default.svc.cluster.local", "AAAA", "NOERROR", []),
        ("default.svc.cluster.local", "A", "NOERROR", []),
        ("nosuch.default.svc.cluster.local", "A", "NXDOMAIN", []),
        ("nosuch.default.svc.cluster.local", "AAAA", "NXDOMAIN", []),
        ("web.default", "A", "NXDOMAIN", []),
        ("out.default.svc.cluster.local", "A", "NOERROR", ["db.example.com."]),
        ("out.default.svc.cluster.local", "CNAME", "NOERROR", ["db.example.com."]),
        ("out.default.svc.cluster.local", "MX", "NOERROR", []),
        (
            "in.default.svc.cluster.local",
            "A",
            "NOERROR",
            ["Web.default.svc.cluster.local.", "10.96.1.1"],
        ),
        ("in.default.svc.cluster.local", "AAAA", "NOERROR", ["Web.default.svc.cluster.local."]),
        ("twice.default.svc.cluster.local", "CNAME", "NOERROR", ["in.default.svc.cluster.local."]),
        ("loop.svc.cluster.local", "A", "NOERROR", []),
        ("example.com", "A", "NXDOMAIN", []),
        ("notcluster.local", "A", "NXDOMAIN", []),
        ("1.1.96.10.in-addr.arpa", "PTR", "NOERROR", ["web.default.svc.cluster.local."]),
        ("2.1.96.10.in-addr.arpa", "PTR", "NXDOMAIN", []),
    ],
)
def test_answers(name: str, kind: str, code: str, expected: Any) -> None:
    answer = ask(name, kind)
    assert (dnslib.RCODE[answer.header.rcode], values(answer)) == (code, expected)
    forwarded = name in {"web.default", "example.com", "notcluster.local", "2.1.96.10.in-addr.arpa"}
    assert (answer.header.aa, answer.header.ra) == (not forwarded, forwarded)


@pytest.mark.parametrize(
    ("kind", "code"), [("A", "NOERROR"), ("AAAA", "NXDOMAIN"), ("SRV", "NXDOMAIN")]
)
def test_a_name_that_is_denied_has_its_addresses_alone(kind: str, code: str) -> None:
    name = "web.default.svc.cluster.local"
    resolver = Resolver()
    resolver.set_zone(replace(ZONE, denied=(name,)))
    answer = resolver.answer(dnslib, dnslib.DNSRecord.question(name, kind).pack(), stream=False)
    assert dnslib.RCODE[dnslib.DNSRecord.parse(answer).header.rcode] == code


def test_names_that_stand_for_each_other_end() -> None:
    assert len(values(ask("a.loop.svc.cluster.local", edns=True))) == 8


def test_a_chain_of_names_ends_with_the_address() -> None:
    answer = ask("twice.default.svc.cluster.local")
    owners = [(str(record.rname), str(record.rdata)) for record in answer.rr]
    assert owners == [
        ("twice.default.svc.cluster.local.", "in.default.svc.cluster.local."),
        ("in.default.svc.cluster.local.", "Web.default.svc.cluster.local."),
        ("Web.default.svc.cluster.local.", "10.96.1.1"),
    ]


def test_srv_brings_its_targets_address() -> None:
    answer = ask("_http._tcp.headless.default.svc.cluster.local", "SRV")
    assert values(answer) == ["0 100 80 pod-1.headless.default.svc.cluster.local."]
    assert [str(record.rdata) for record in answer.ar] == ["192.168.1.1"]


def test_an_answer_too_long_for_udp_is_cut_off_and_whole_over_tcp_or_edns() -> None:
    name = "headless.default.svc.cluster.local"
    short = ask(name)
    assert (short.header.tc, values(short)) == (1, [])
    assert len(values(ask(name, stream=True))) == 60
    assert len(values(ask(name, edns=True))) == 60


def test_an_empty_answer_names_the_zone() -> None:
    for name in ("nosuch.default.svc.cluster.local", "default.svc.cluster.local"):
        (authority,) = ask(name).auth
        assert str(authority.rname) == "cluster.local."


@pytest.mark.parametrize("junk", [b"", b"\0" * 5, b"\xff" * 40])
def test_what_is_no_query_gets_no_answer(junk: Any) -> None:
    resolver = Resolver()
    assert resolver.answer(dnslib, junk, stream=False) is None


def test_a_response_gets_no_answer() -> None:
    reply = dnslib.DNSRecord.question("web.default.svc.cluster.local").reply()
    assert Resolver().answer(dnslib, reply.pack(), stream=False) is None


def test_clients_of_a_slow_network_wait_and_others_do_not() -> None:
    resolver = Resolver()
    resolver.set_zone(replace(ZONE, late=(("192.168.1.0/26", 2.0), ("192.168.1.5/32", 3.0))))
    assert [
        resolver.delay(client) for client in ("192.168.1.4", "192.168.1.5", "192.168.1.70")
    ] == [2.0, 3.0, 0.0]
