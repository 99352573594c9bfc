# SPDX-License-Identifier: Apache-2.0
"""When a Windows pod is programmed again, its established connections end, at the ends and in the
way that its node is made for.

On w1 only the far end is reset and the pod's own socket stalls (calico#10199); on w2 both ends are
reset.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from hybridlab.dataplane.model import (
    Backend,
    EndpointProgram,
    Match,
    PolicyUpdate,
    Rule,
    ServicePort,
    Tier,
)
from hybridlab.dataplane.sandbox_socket import sandbox_socket
from hybridlab.kernel.conntrack import ConntrackSocket
from tests.lab.dataplane.conftest import Lab
from tests.lab.dataplane.lists import with_list

SOON = 1.0
"""Seconds; far above the milliseconds that it takes."""
STALLED = 0.4
"""How long nothing may arrive for a socket to count as stalled."""
CLUSTER_IP = "10.96.7.7"
ALLOW_ALL = with_list(
    EndpointProgram(ingress=(Tier(name="default", rules=(Rule(action="allow", match=Match()),)),))
)
DENY_ALL = with_list(
    EndpointProgram(
        ingress=(Tier(name="default", rules=()),), egress=(Tier(name="default", rules=()),)
    )
)


@dataclass
class Connection:
    client: socket.socket
    server: socket.socket

    told: set[socket.socket] = field(default_factory=set)
    """Ends that learnt of their reset from sending: a socket says it once."""

    def end_at(self, where: str) -> socket.socket:
        return self.client if where == "client" else self.server

    def say(self, where: str) -> None:
        end = self.end_at(where)
        try:
            end.sendall(b"more")
        except ConnectionResetError:
            self.told.add(end)

    def fate(self, where: str, seconds: float) -> str:
        end = self.end_at(where)
        return "reset" if end in self.told else fate(end, seconds)


@contextlib.contextmanager
def connection(
    lab: Lab, source: Any, target: Any, address: Any = None, port: int = 8080
) -> Iterator[Connection]:
    """An established connection over which something was said in both directions."""
    with lab.socket(source) as client:
        with lab.listening(target) as listeners:
            client.connect((address or lab.address(target), port))
            listeners[target].settimeout(SOON)
            server, _ = listeners[target].accept()
        with server:
            server.settimeout(SOON)
            talk(client, server)
            yield Connection(client, server)


def talk(one: socket.socket, other: socket.socket) -> None:
    for sender, receiver in ((one, other), (other, one)):
        sender.sendall(b"hello")
        assert receiver.recv(100) == b"hello"


def fate(end: socket.socket, seconds: float) -> str:
    """Return what one end of the connection observes."""
    end.settimeout(seconds)
    try:
        return f"data {end.recv(100)!r}"
    except ConnectionResetError:
        return "reset"
    except TimeoutError:
        return "silence"


def reprogram(lab: Lab, *pods: Any, program: Any = ALLOW_ALL) -> None:
    """Give a pod's ACL list anew, as Felix does; what was allowed still is."""
    node = lab.pods[pods[0]].node
    lab.run(
        lab.plane.update_policy(
            node, PolicyUpdate(endpoints=dict.fromkeys(pods, program), reset=pods)
        )
    )


def forget(lab: Lab, node: str) -> None:
    """Delete all that a node tracks, as time does."""
    conntrack = ConntrackSocket.__new__(ConntrackSocket)
    conntrack._socket = lab.run(
        sandbox_socket(lab.channel, f"node:{node}", socket.AF_NETLINK, socket.SOCK_RAW, 12)
    )
    conntrack._socket.setblocking(True)
    with conntrack._socket:
        tracked = [entry for entry in conntrack.entries() if entry.protocol == "tcp"]
        assert tracked
        for item in tracked:
            conntrack.delete(item)


@pytest.fixture(autouse=True)
def open_again(lab: Lab) -> Iterator[None]:
    yield
    for node in ("l1", "w1", "w2"):
        lab.run(lab.open_all(node))


PATHS = {
    "pod is server, other node": ("l2a", "w1a"),
    "pod is client, other node": ("w1a", "l2a"),
    "same node": ("w1b", "w1a"),
    "same node, pod is client": ("w1a", "w1b"),
    "other Windows node": ("w2a", "w1a"),
    "to its own node": ("w1a", "node:w1"),
}


@pytest.mark.parametrize("speaks", ["nobody", "client", "server"])
@pytest.mark.parametrize("path", PATHS)
def test_the_far_end_is_reset_and_the_pods_own_end_stalls(lab: Lab, path: Any, speaks: str) -> None:
    source, target = PATHS[path]
    address = lab.nodes["w1"].spec.address if target == "node:w1" else None
    pods_end = "client" if source == "w1a" else "server"
    with connection(lab, source, target, address) as connected:
        far_end = "server" if pods_end == "client" else "client"
        reprogram(lab, "w1a")
        if speaks != "nobody":
            connected.say(speaks)
        assert connected.fate(far_end, SOON) == "reset"
        connected.say(pods_end)
        assert connected.fate(pods_end, STALLED) == "silence"


@pytest.mark.parametrize("speaks", ["nobody", "client", "server"])
@pytest.mark.parametrize(
    ("source", "target"), [("l2a", "w2a"), ("w2a", "l2a"), ("w2b", "w2a"), ("w1a", "w2a")]
)
def test_both_ends_are_reset_where_the_node_is_made_so(
    lab: Lab, source: str, target: str, speaks: str
) -> None:
    with connection(lab, source, target) as connected:
        reprogram(lab, "w2a")
        if speaks != "nobody":
            connected.say(speaks)
        assert [connected.fate(end, SOON) for end in ("client", "server")] == ["reset", "reset"]


@pytest.mark.parametrize("backend", ["l2a", "w1b", "w2a"])
@pytest.mark.parametrize("snat", [None, "192.168.1.130"], ids=["keeps its source", "source-NATed"])
def test_a_connection_through_a_cluster_ip_ends_likewise(
    lab: Lab, backend: str, snat: str | None
) -> None:
    port = ServicePort(
        name="default/web:http",
        protocol="tcp",
        cluster_ip=CLUSTER_IP,
        port=80,
        node_port=None,
        backends=(Backend(address=lab.address(backend), port=8080),),
    )
    with lab.services(port, snat={"w1": snat} if snat else None):
        with connection(lab, "w1a", backend, CLUSTER_IP, 80) as connected:
            reprogram(lab, "w1a")
            assert [fate(connected.server, SOON), fate(connected.client, STALLED)] == [
                "reset",
                "silence",
            ]
        with connection(lab, "w1a", backend, CLUSTER_IP, 80) as connected:
            talk(connected.client, connected.server)


@pytest.mark.parametrize("source", ["l2a", "node:l1"])
def test_a_connection_through_a_node_port_ends_likewise(lab: Lab, source: str) -> None:
    port = ServicePort(
        name="default/web:http",
        protocol="tcp",
        cluster_ip=CLUSTER_IP,
        port=80,
        node_port=30080,
        backends=(Backend(address=lab.address("w1a"), port=8080),),
    )
    with (
        lab.services(port),
        connection(lab, source, "w1a", lab.nodes["w1"].spec.address, 30080) as connected,
    ):
        reprogram(lab, "w1a")
        assert [fate(connected.client, SOON), fate(connected.server, STALLED)] == [
            "reset",
            "silence",
        ]


def test_a_new_connection_works_at_once_and_a_second_reprogramming_ends_it_too(lab: Lab) -> None:
    for _ in range(3):
        with connection(lab, "l2a", "w1a") as connected:
            reprogram(lab, "w1a")
            with connection(lab, "l2a", "w1a") as new:
                assert fate(connected.client, SOON) == "reset"
                talk(new.client, new.server)


def test_no_repetition_is_missed(lab: Lab) -> None:
    """Alternately idle and busy, as server and as client."""
    for number in range(20):
        source, target = [("l2a", "w1a"), ("w1a", "l2a")][number % 2]
        with connection(lab, source, target) as connected:
            reprogram(lab, "w1a")
            if number % 4 > 1:
                connected.say("client")
            assert connected.fate("client" if target == "w1a" else "server", SOON) == "reset"


def test_fifty_connections_end_together(lab: Lab) -> None:
    with contextlib.ExitStack() as opened, lab.listening("w1a") as listeners:
        clients = []
        for _ in range(50):
            client = opened.enter_context(lab.socket("l2a"))
            client.connect((lab.address("w1a"), 8080))
            opened.enter_context(listeners["w1a"].accept()[0])
            clients.append(client)
        reprogram(lab, "w1a")
        assert {fate(client, SOON) for client in clients} == {"reset"}


def test_a_stream_in_full_flow_ends_at_both_ends(lab: Lab) -> None:
    with connection(lab, "l2a", "w2a") as connected:
        fates: dict[str, str] = {}

        def pump(name: str, end: socket.socket) -> None:
            end.settimeout(3 * SOON)
            try:
                while end.recv(1 << 16):
                    pass
            except OSError as error:
                fates.setdefault(name, type(error).__name__)

        def flood(end: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while True:
                    end.sendall(bytes(1 << 16))

        ends = {"client": connected.client, "server": connected.server}
        threads = [threading.Thread(target=pump, args=item) for item in ends.items()]
        threads += [threading.Thread(target=flood, args=(end,)) for end in ends.values()]
        for thread in threads:
            thread.start()
        time.sleep(0.1)  # the flow has to be in full swing
        reprogram(lab, "w2a")
        for thread in threads:
            thread.join(5 * SOON)
            assert not thread.is_alive()
        # One thread of an end gets the error, which may be the one that sends.
        assert set(fates.values()) <= {"ConnectionResetError"}


def test_a_pod_whose_list_is_left_alone_and_linux_pods_keep_theirs(lab: Lab) -> None:
    with connection(lab, "l2a", "w1b") as beside, connection(lab, "l2b", "l1a") as linux:
        reprogram(lab, "w1a")
        lab.run(lab.plane.update_policy("w1", PolicyUpdate(endpoints={"w1b": ALLOW_ALL})))
        lab.program("l1a", ALLOW_ALL)
        for survivor in (beside, linux):
            talk(survivor.client, survivor.server)


def test_a_denial_takes_the_connection_with_it(lab: Lab) -> None:
    with connection(lab, "l2a", "w1a") as connected:
        reprogram(lab, "w1a", program=DENY_ALL)
        assert fate(connected.client, SOON) == "reset"
        connected.server.sendall(b"into the void")
        assert fate(connected.server, STALLED) == "silence"
        assert lab.attempt("l2a", lab.address("w1a"), 8080).outcome == "timed out"


def test_the_first_program_ends_what_the_pod_opened_before_it(lab: Lab) -> None:
    spec = lab.run(lab.add_pod("w1", "d"))
    try:
        with connection(lab, spec.id, "l2a") as connected:
            reprogram(lab, spec.id)
            assert fate(connected.server, SOON) == "reset"
    finally:
        lab.run(lab.plane.remove_pod(spec.id))
        del lab.pods[spec.id]


def test_a_stalled_pod_hears_nothing_even_when_its_connection_is_forgotten(lab: Lab) -> None:
    """Mid-stream packets of an unknown connection are dropped: were they not, the far end would answer with a reset."""
    with connection(lab, "l2a", "w1a") as connected:
        reprogram(lab, "w1a")
        assert fate(connected.client, SOON) == "reset"
        forget(lab, "w1")
        connected.server.sendall(b"again and again")
        assert fate(connected.server, 3 * STALLED) == "silence"


def test_each_of_several_new_pods_loses_what_it_opened_before_its_own_program(lab: Lab) -> None:
    pod_spec, other = (lab.run(lab.add_pod("w1", letter)) for letter in ("d", "e"))
    try:
        with connection(lab, other.id, "l2a") as connected:
            reprogram(lab, pod_spec.id)
            reprogram(lab, other.id)
            assert fate(connected.server, SOON) == "reset"
    finally:
        for spec in (pod_spec, other):
            lab.run(lab.plane.remove_pod(spec.id))
            del lab.pods[spec.id]


@pytest.mark.parametrize(
    ("source", "target"), [("l2a", "w1a"), ("w1a", "l2a"), ("w1b", "w1a"), ("w1a", "w1b")]
)
def test_an_established_flow_of_datagrams_lasts_only_while_the_list_allows_it(
    lab: Lab, source: str, target: str
) -> None:
    with (
        lab.socket(target, socket.SOCK_DGRAM) as server,
        lab.socket(source, socket.SOCK_DGRAM) as client,
    ):
        server.bind(("0.0.0.0", 8080))
        client.connect((lab.address(target), 8080))
        for end in (client, server):
            end.settimeout(STALLED)
        client.send(b"hello")
        server.connect(server.recvfrom(100)[1])
        talk(server, client)
        reprogram(lab, "w1a")
        talk(client, server)
        reprogram(lab, "w1a", program=DENY_ALL)
        for sender, receiver in ((client, server), (server, client)):
            sender.send(b"hello")
            with pytest.raises(TimeoutError):
                receiver.recv(100)
        reprogram(lab, "w1a")
        talk(client, server)


@pytest.mark.parametrize(("source", "target"), [("l2a", "l1a"), ("l1a", "l2a"), ("l1b", "l1a")])
def test_a_linux_pods_connections_end_only_when_a_fault_says_so(
    lab: Lab, source: str, target: str
) -> None:
    with connection(lab, source, target) as connected:
        reprogram(lab, "l1a")
        assert [fate(connected.client, SOON), fate(connected.server, SOON)] == ["reset", "reset"]
        with connection(lab, source, target) as new:
            talk(new.client, new.server)


def test_held_rules_stay_as_they_are(lab: Lab) -> None:
    update = PolicyUpdate(endpoints={"w1a": DENY_ALL}, held=("w1a",))
    with connection(lab, "l2a", "w1a") as connected:
        lab.run(lab.plane.update_policy("w1", update))
        talk(connected.client, connected.server)
        assert lab.tcp("l2a", "w1a").outcome == "open"
