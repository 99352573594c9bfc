# SPDX-License-Identifier: Apache-2.0
"""ClusterIP, NodePort, hairpin, refusal without endpoints, source NAT by mode, and UDP flows
that must move to another backend."""

from __future__ import annotations

import errno
import socket
import time
from typing import Any

import pytest

from hybridlab.dataplane.model import (
    Backend,
    EndpointProgram,
    Match,
    Rule,
    ServicePort,
    ServiceTable,
    Tier,
)
from tests.lab.dataplane.conftest import Lab

CLUSTER_IP = "10.96.1.1"


def web(lab: Lab, *pods: Any, **other: Any) -> ServicePort:
    backends = tuple(Backend(address=lab.address(p), port=8080) for p in pods)
    fields: dict[str, Any] = {
        "protocol": "tcp",
        "cluster_ip": CLUSTER_IP,
        "port": 80,
        "node_port": 30080,
    } | other
    return ServicePort(name="default/web:http", backends=backends, **fields)


@pytest.mark.parametrize("source", ["l1a", "w2b"])
@pytest.mark.parametrize("backend", ["l1b", "w1b"])
def test_a_pod_reaches_a_cluster_ip_and_keeps_its_address(
    lab: Lab, source: str, backend: str
) -> None:
    with lab.services(web(lab, backend)), lab.listening(backend) as listeners:
        answer = lab.attempt(source, CLUSTER_IP, 80, listeners[backend])
    assert (answer.outcome, answer.source) == ("open", lab.address(source))


def test_calls_spread_over_all_endpoints(lab: Lab) -> None:
    backends = ("l1b", "l2b", "w1b")
    reached = set()
    with lab.services(web(lab, *backends)), lab.listening(*backends) as listeners:
        for sock in listeners.values():
            sock.settimeout(0)
        for _ in range(60):
            assert lab.attempt("l1a", CLUSTER_IP, 80).outcome == "open"
        for name, sock in listeners.items():
            try:
                sock.accept()[0].close()
                reached.add(name)
            except BlockingIOError:
                pass
    assert reached == set(backends)


def test_an_endpoint_reaches_itself_through_its_service_with_the_nodes_address(lab: Lab) -> None:
    with lab.services(web(lab, "l2b")), lab.listening("l2b") as listeners:
        answer = lab.attempt("l2b", CLUSTER_IP, 80, listeners["l2b"])
    assert (answer.outcome, answer.source) == ("open", "10.0.0.12")


@pytest.mark.parametrize(("backend", "seen"), [("l1b", "10.0.0.11"), ("w1b", "192.168.1.0")])
def test_a_node_reaches_a_cluster_ip(lab: Lab, backend: str, seen: str) -> None:
    with lab.services(web(lab, backend)), lab.listening(backend) as listeners:
        answer = lab.attempt("node:l1", CLUSTER_IP, 80, listeners[backend])
    assert (answer.outcome, answer.source) == ("open", seen)


@pytest.mark.parametrize(("backend", "seen"), [("l2b", "10.0.0.12"), ("w1b", "192.168.1.64")])
def test_a_node_port_masquerades_to_the_node_it_came_in_by(
    lab: Lab, backend: str, seen: str
) -> None:
    with lab.services(web(lab, backend)), lab.listening(backend) as listeners:
        answer = lab.attempt("node:l1", "10.0.0.12", 30080, listeners[backend])
    assert (answer.outcome, answer.source) == ("open", seen)


def test_a_pod_reaches_a_node_port(lab: Lab) -> None:
    with lab.services(web(lab, "w1b")), lab.listening("w1b") as listeners:
        assert lab.attempt("w2a", "10.0.0.11", 30080, listeners["w1b"]).outcome == "open"


@pytest.mark.parametrize(
    ("source", "port"), [("l1a", 80), ("node:l1", 80), ("l1a", 30080), ("node:l2", 30080)]
)
def test_a_service_without_endpoints_refuses(lab: Lab, source: str, port: int) -> None:
    address = CLUSTER_IP if port == 80 else "10.0.0.11"
    with lab.services(web(lab)):
        assert lab.attempt(source, address, port).outcome == "ConnectionRefusedError"


def test_a_service_that_is_gone_times_out(lab: Lab) -> None:
    with lab.services(web(lab, "l1b")):
        pass
    with lab.listening("l1b"):
        assert lab.attempt("l1a", CLUSTER_IP, 80).outcome == "timed out"


@pytest.mark.parametrize("source", ["l1a", "w1a", "node:l1", "node:w1"])
def test_a_client_port_that_came_too_early_reaches_the_service_soon_afterwards(
    lab: Lab, source: str
) -> None:
    with lab.listening("l1b"):
        assert _connects_from_one_port(lab, source) == errno.ETIMEDOUT
        with lab.services(web(lab, "l1b")):
            assert _connects_from_one_port(lab, source) == 0


def _connects_from_one_port(lab: Lab, source: str) -> int:
    """Return the error of a connection to the Service from a port that is always the same."""
    with lab.socket(source) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("", 40_123))
        try:
            client.connect((CLUSTER_IP, 80))
        except TimeoutError:
            return errno.ETIMEDOUT
        return 0


SOURCE_VIP = "192.168.1.130"


@pytest.mark.parametrize("backend", ["w1b", "w2b", "l1b"])
def test_windows_without_dsr_gives_its_pods_another_source_on_the_way_to_a_cluster_ip(
    lab: Lab, backend: str
) -> None:
    with (
        lab.services(web(lab, backend), snat={"w1": SOURCE_VIP}),
        lab.listening(backend) as listeners,
    ):
        by_service = lab.attempt("w1a", CLUSTER_IP, 80, listeners[backend])
        direct = lab.attempt("w1a", lab.address(backend), 8080, listeners[backend])
        other_node = lab.attempt("w2a", CLUSTER_IP, 80, listeners[backend])
    assert (by_service.source, direct.source) == (SOURCE_VIP, lab.address("w1a"))
    assert other_node.source == lab.address("w2a")


def test_windows_without_dsr_gives_its_pods_the_nodes_address_where_the_backend_is_a_node(
    lab: Lab,
) -> None:
    on_node = ServicePort(
        name="default/node:http", protocol="tcp", cluster_ip=CLUSTER_IP, port=80, node_port=None,
        backends=(Backend(address="10.0.0.11", port=8080),),
    )  # fmt: skip
    with lab.services(on_node, snat={"w1": SOURCE_VIP}), lab.listening("node:l1") as listeners:
        answer = lab.attempt("w1a", CLUSTER_IP, 80, listeners["node:l1"])
    assert (answer.outcome, answer.source) == ("open", "10.0.0.13")


@pytest.mark.parametrize("backend", ["w1b", "w2b"])
@pytest.mark.parametrize("by_policy", [SOURCE_VIP, "192.168.1.133"])
def test_policy_of_windows_pods_sees_the_source_that_they_get(
    lab: Lab, backend: str, by_policy: Any
) -> None:
    allowed = EndpointProgram(
        ingress=(
            Tier(
                name="default",
                rules=(Rule(action="allow", match=Match(src_nets=(f"{by_policy}/32",))),),
            ),
        )
    )
    assert lab.address("w1a") == "192.168.1.133"
    with (
        lab.services(web(lab, backend), snat={"w1": SOURCE_VIP}),
        lab.listening(backend) as listeners,
        lab.policy(backend, allowed),
    ):
        by_service = lab.attempt("w1a", CLUSTER_IP, 80, listeners[backend]).outcome
        direct = lab.attempt("w1a", lab.address(backend), 8080, listeners[backend]).outcome
    assert (by_service, direct) == (
        ("open", "timed out") if by_policy == SOURCE_VIP else ("timed out", "open")
    )


@pytest.mark.parametrize(
    ("backend", "kept", "seen"),
    [
        ("w1b", False, SOURCE_VIP),
        ("w2b", False, SOURCE_VIP),
        ("l2b", False, SOURCE_VIP),
        ("w1b", True, "10.0.0.11"),
    ],
)
def test_a_node_port_of_windows_gives_its_source_vip_unless_the_client_is_kept(
    lab: Lab, backend: str, kept: bool, seen: Any
) -> None:
    port = web(lab, backend, node_port_keeps_client=kept)
    with lab.services(port, node_ports={"w1": SOURCE_VIP}), lab.listening(backend) as listeners:
        answer = lab.attempt("node:l1", "10.0.0.13", 30080, listeners[backend])
    assert (answer.outcome, answer.source) == ("open", seen)


def test_a_node_port_of_linux_keeps_the_client_where_traffic_stays_on_the_node(lab: Lab) -> None:
    with (
        lab.services(web(lab, "l2b", node_port_keeps_client=True)),
        lab.listening("l2b") as listeners,
    ):
        answer = lab.attempt("node:l1", "10.0.0.12", 30080, listeners["l2b"])
    assert (answer.outcome, answer.source) == ("open", "10.0.0.11")


def test_policy_of_windows_pods_sees_a_node_ports_source_vip(lab: Lab) -> None:
    allowed = EndpointProgram(
        ingress=(
            Tier(
                name="default",
                rules=(Rule(action="allow", match=Match(src_nets=(f"{SOURCE_VIP}/32",))),),
            ),
        )
    )
    port = web(lab, "w1b")
    with (
        lab.services(port, node_ports={"w1": SOURCE_VIP}),
        lab.listening("w1b") as there,
        lab.policy("w1b", allowed),
    ):
        assert lab.attempt("node:l1", "10.0.0.13", 30080, there["w1b"]).outcome == "open"
        assert lab.attempt("node:l1", lab.address("w1b"), 8080, there["w1b"]).outcome == "timed out"


def test_a_udp_flow_moves_on_when_its_endpoint_is_gone(lab: Lab) -> None:
    def dns(*pods: Any) -> Any:
        return web(lab, *pods, protocol="udp", port=53, node_port=None)

    def server(pod: Any) -> Any:
        sock = lab.socket(pod, socket.SOCK_DGRAM)
        sock.bind(("0.0.0.0", 8080))
        return sock

    with server("l1b") as old, server("w1b") as new, lab.socket("l2a", socket.SOCK_DGRAM) as client:
        with lab.services(dns("l1b")):
            client.sendto(b"one", (CLUSTER_IP, 53))
            assert old.recv(10) == b"one"
            with lab.services(dns("w1b")):
                client.sendto(b"two", (CLUSTER_IP, 53))
                assert new.recv(10) == b"two"


def test_an_unwanted_change_is_refused_whole(lab: Lab) -> None:
    good = web(lab, "l1b")
    bad = ServicePort(
        name="default/bad:",
        protocol="tcp",
        cluster_ip="not-an-address",
        port=1,
        node_port=None,
        backends=good.backends,
    )
    with lab.services(good), lab.listening("l1b") as listeners:
        with pytest.raises(Exception, match="not-an-address"):
            with lab.services(bad):
                pass
        assert lab.attempt("l1a", CLUSTER_IP, 80, listeners["l1b"]).outcome == "open"


EXTERNAL = "203.0.113.80"


@pytest.mark.parametrize(
    ("source", "backend", "seen"),
    [
        ("l1a", "l2b", "10.0.0.11"),
        ("node:l1", "l2b", "10.0.0.11"),
        ("w1a", "l2b", SOURCE_VIP),
        ("l2b", "l2b", "10.0.0.12"),
    ],
)
def test_an_external_address_leads_to_a_backend_with_the_source_of_a_node_port(
    lab: Lab, source: str, backend: str, seen: str
) -> None:
    port = web(lab, backend, external_ips=(EXTERNAL,), node_port=None)
    with lab.services(port, node_ports={"w1": SOURCE_VIP}), lab.listening(backend) as listeners:
        answer = lab.attempt(source, EXTERNAL, 80, listeners[backend])
        assert lab.attempt(source, EXTERNAL, 81).outcome == "timed out"
    assert (answer.outcome, answer.source.replace("192.168.1.0", "10.0.0.11")) == ("open", seen)


def test_an_external_address_without_endpoints_refuses(lab: Lab) -> None:
    with lab.services(web(lab, external_ips=(EXTERNAL,))):
        assert lab.attempt("l1a", EXTERNAL, 80).outcome == "ConnectionRefusedError"


@pytest.mark.parametrize(
    ("own", "source", "seen"),
    [
        ((), "node:l1", "10.0.0.11"),
        ((), "l1a", "10.0.0.11"),  # natOutgoing: the host is outside the pools
        ((), "l2a", "192.168.1.69"),
        (("10.0.0.12",), "node:l1", "10.0.0.11"),
        ((), "l2b", "10.0.0.12"),
        (("10.0.0.99",), "node:l1", ""),
    ],
)
def test_a_host_port_leads_to_its_pod_and_keeps_the_client(
    lab: Lab, own: tuple[str, ...], source: str, seen: str
) -> None:
    port = ServicePort(
        name="default/l2b:7777 (host)", protocol="tcp", cluster_ip=None, port=7777, node_port=None if own else 7777,
        external_ips=own, node_port_keeps_client=True, backends=(Backend(address=lab.address("l2b"), port=8080),),
    )  # fmt: skip
    with lab.services(host_ports={"l2": port}), lab.listening("l2b") as listeners:
        answer = lab.attempt(source, "10.0.0.12", 7777, listeners["l2b"])
        assert lab.attempt(source, "10.0.0.11", 7777).outcome == "ConnectionRefusedError"
    assert (answer.outcome, answer.source) == (
        ("open", seen) if seen else ("ConnectionRefusedError", "")
    )


def reached(
    lab: Lab, source: str, listeners: dict[str, Any], calls: int, port: int = 80
) -> set[str]:
    """The backends that so many calls of one client get to."""
    for _ in range(calls):
        assert lab.attempt(source, CLUSTER_IP, port).outcome == "open"
    found = set()
    for name, sock in listeners.items():
        sock.settimeout(0)
        try:
            while True:
                sock.accept()[0].close()
                found.add(name)
        except BlockingIOError:
            continue
    return found


@pytest.mark.parametrize("sticky", [3600, 0])
def test_a_client_of_a_sticky_service_keeps_its_backend(lab: Lab, sticky: int) -> None:
    backends = ("l1b", "l2b", "w1b", "w2b")
    clients = ("l1a", "l2a", "w1a", "w2a", "node:l1", "node:l2")
    with lab.services(web(lab, *backends, sticky=sticky)), lab.listening(*backends) as listeners:
        chosen = {client: reached(lab, client, listeners, 12) for client in clients}
    assert [len(found) for found in chosen.values()] == [1] * len(clients), chosen
    assert len(set.union(*chosen.values())) > 1, chosen


def test_a_client_gets_another_backend_once_its_time_is_over_or_its_backend_gone(lab: Lab) -> None:
    backends = ("l1b", "l2b", "w1b", "w2b")
    with lab.services(web(lab, *backends, sticky=1)), lab.listening(*backends) as listeners:
        found: set[str] = set()
        for _ in range(6):
            found |= reached(lab, "l1a", listeners, 1)
            time.sleep(1.2)
        assert len(found) > 1
    with lab.listening(*backends) as listeners:
        with lab.services(web(lab, *backends, sticky=3600)):
            (first,) = reached(lab, "l1a", listeners, 3)
            left = [name for name in backends if name != first]
            lab.run(
                lab.plane.set_services("l1", ServiceTable(ports=(web(lab, *left, sticky=3600),)))
            )
            (second,) = reached(lab, "l1a", listeners, 8)
            assert second != first
            lab.run(
                lab.plane.set_services(
                    "l1", ServiceTable(ports=(web(lab, *backends, sticky=3600),))
                )
            )
            assert reached(lab, "l1a", listeners, 8) == {second}
