# SPDX-License-Identifier: Apache-2.0
"""A small lab of real namespaces (two Linux and two Windows nodes with two pods each), and helpers
that send traffic in it.

The tests act *as* pods: labd gives them sockets that were created in a pod's namespace. One lab
serves all tests of a module; a test that changes policy, services or faults undoes its changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import selectors
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from socket import socket as Socket  # noqa: N812 (a class; Lab has a method of its name)
from typing import Any, TypeVar

import pytest

from hybridlab.dataplane.contract import remote_dataplane
from hybridlab.dataplane.model import (
    EndpointProgram,
    NodeRoutes,
    NodeSpec,
    PodPort,
    PodSpec,
    PolicyUpdate,
    ServicePort,
    ServiceTable,
    Tunnel,
    TunnelRoute,
)
from hybridlab.dataplane.sandbox_socket import sandbox_socket
from hybridlab.kernel.wire import Channel
from hybridlab.labd.launch import LabdSettings, launch
from tests.lab.dataplane.lists import with_list

T = TypeVar("T")
POOL = "192.168.0.0/16"
OPEN = EndpointProgram()
DENIED_SECONDS = 1.3
"""s. Longer than the first retransmission of a SYN (1 s, RFC 6298), so that a packet that a busy
machine loses does not count as a denial."""


@dataclass(frozen=True)
class TestNode:
    """The properties of a node of the test lab."""

    spec: NodeSpec
    block: str
    tunnel: Tunnel


@dataclass(frozen=True)
class Answer:
    """The result of an attempt: ``open`` with the source that the server received, or the name of
    the error."""

    outcome: str
    source: str = ""


class Lab:
    """The lab, with methods for attempts in it."""

    def __init__(self, runner: asyncio.Runner, channel: Channel) -> None:
        self.runner = runner
        self.channel = channel
        self.plane = remote_dataplane(channel)
        self.nodes = {n: _node(n, i) for i, n in enumerate(("l1", "l2", "w1", "w2"), start=1)}
        self.pods: dict[str, PodSpec] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def build(self) -> None:
        for node in self.nodes.values():
            await self.plane.add_node(node.spec)
        for node in self.nodes.values():
            await self.plane.set_routes(node.spec.name, self.routes(node.spec.name))
        await asyncio.gather(
            *(self.add_pod(node, letter) for node in self.nodes for letter in ("a", "b")),
        )
        for name in self.nodes:
            await self.open_all(name)

    def routes(self, name: str) -> NodeRoutes:
        own = self.nodes[name]
        remote = tuple(
            TunnelRoute(
                cidr=n.block,
                node_address=n.spec.address,
                tunnel_address=n.tunnel.address,
                tunnel_mac=n.tunnel.mac,
            )
            for n in self.nodes.values()
            if n is not own
        )
        return NodeRoutes(own_blocks=(own.block,), remote_blocks=remote, pools=(POOL,))

    async def add_pod(self, node: str, letter: str) -> PodSpec:
        number = list(self.nodes).index(node)
        windows = node.startswith("w")
        spec = PodSpec(
            id=f"{node}{letter}",
            node=node,
            name=f"{node}{letter}",
            namespace="default",
            address=f"192.168.1.{64 * number + 5 + 'abcdefgh'.index(letter)}",
            port=PodPort(gateway=f"192.168.1.{64 * number + 1}" if windows else "169.254.1.1"),
        )
        await self.plane.add_pod(spec)
        self.pods[spec.id] = spec
        return spec

    async def open_all(self, node: str) -> None:
        programs = {p.id: OPEN for p in self.pods.values() if p.node == node and p.address}
        await self.plane.update_policy(node, PolicyUpdate(endpoints=programs))

    def address(self, pod: str) -> str:
        found = self.pods[pod].address
        assert found is not None
        return found

    def program(self, pod: str, program: EndpointProgram, **sets: tuple[str, ...]) -> None:
        if self.pods[pod].node.startswith("w"):
            program, sets = with_list(program, sets), {}
        update = PolicyUpdate(endpoints={pod: program}, sets=sets)
        self.run(self.plane.update_policy(self.pods[pod].node, update))

    @contextlib.contextmanager
    def policy(self, pod: str, program: EndpointProgram, **sets: tuple[str, ...]) -> Iterator[None]:
        """Give the pod a program for the length of the block; then open it again."""
        self.program(pod, program, **sets)
        try:
            yield
        finally:
            node = self.pods[pod].node
            update = PolicyUpdate(
                endpoints={pod: OPEN}, removed_sets=() if node.startswith("w") else tuple(sets)
            )
            self.run(self.plane.update_policy(node, update))

    @contextlib.contextmanager
    def services(
        self,
        *ports: ServicePort,
        snat: dict[str, str] | None = None,
        node_ports: dict[str, str] | None = None,
        host_ports: dict[str, ServicePort] | None = None,
    ) -> Iterator[None]:
        """Set these services on every node for the length of the block. ``snat``, ``node_ports``
        and ``host_ports`` map nodes to their source addresses and host ports."""
        self.run(self._services(ports, snat or {}, node_ports or {}, host_ports or {}))
        try:
            yield
        finally:
            self.run(self._services((), {}, {}, {}))

    async def _services(
        self,
        ports: tuple[ServicePort, ...],
        snat: dict[str, str],
        node_ports: dict[str, str],
        host_ports: dict[str, ServicePort],
    ) -> None:
        for node in self.nodes:
            table = ServiceTable(
                ports=ports,
                snat_local_pods_to=snat.get(node),
                snat_node_ports_to=node_ports.get(node),
                host_ports=(host_ports[node],) if node in host_ports else (),
            )
            await self.plane.set_services(node, table)

    @contextlib.contextmanager
    def fault(self, scope: str, *rules: tuple[str, str]) -> Iterator[None]:
        """Set fault rules named ``test`` for the length of the block."""
        self.run(self.plane.set_fault_rules(scope, "test", rules))
        try:
            yield
        finally:
            self.run(self.plane.clear_fault_rules(scope, "test"))

    def socket(self, where: str, kind: int = socket.SOCK_STREAM) -> Socket:
        sock = self.run(sandbox_socket(self.channel, where, socket.AF_INET, kind))
        sock.settimeout(DENIED_SECONDS)
        return sock

    @contextlib.contextmanager
    def listening(self, *where: str, port: int = 8080) -> Iterator[dict[str, Socket]]:
        """Open TCP listeners in these sandboxes."""
        with contextlib.ExitStack() as opened:
            listeners = {}
            for name in where:
                sock = opened.enter_context(self.socket(name))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(("0.0.0.0", port))
                sock.listen(128)
                listeners[name] = sock
            yield listeners

    def attempt(self, source: str, address: str, port: int, *listeners: Socket) -> Answer:
        """Open one TCP connection from a sandbox. The listener that accepts it shows the source."""
        with self.socket(source) as client:
            try:
                client.connect((address, port))
            except TimeoutError:
                return Answer("timed out")
            except OSError as error:
                return Answer(type(error).__name__)
            for listener in listeners:
                listener.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    accepted, peer = listener.accept()
                    accepted.close()
                    return Answer("open", peer[0])
            return Answer("open")

    def outcomes(self, target: str, *sources: str) -> list[str]:
        """Connect from all sources at once to a pod's port 8080, and return the outcome of each."""
        with (
            contextlib.ExitStack() as opened,
            self.listening(target),
            selectors.DefaultSelector() as waiting,
        ):
            results = ["timed out"] * len(sources)
            clients: list[Socket] = []
            for number, source in enumerate(sources):
                client = opened.enter_context(self.socket(source))
                clients.append(client)
                client.setblocking(False)
                client.connect_ex((self.address(target), 8080))
                waiting.register(client, selectors.EVENT_WRITE, number)
            end = time.monotonic() + DENIED_SECONDS
            while waiting.get_map() and (left := end - time.monotonic()) > 0:
                for key, _ in waiting.select(left):
                    waiting.unregister(key.fileobj)
                    number = clients[key.data].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    results[key.data] = errno.errorcode[number] if number else "open"
            return results

    def tcp(self, source: str, target: str) -> Answer:
        """Connect from a sandbox to a pod's port 8080."""
        with self.listening(target) as listeners:
            return self.attempt(source, self.address(target), 8080, listeners[target])


def _node(name: str, number: int) -> TestNode:
    """Return node N: address 10.0.0.10+N, block 192.168.1.64*(N-1)/26, tunnel address .0 on Linux
    and .1 on Windows."""
    windows = name.startswith("w")
    base = 64 * (number - 1)
    tunnel = Tunnel(
        device="vxlan.calico",
        identifier=4096,
        port=4789,
        mtu=1450,
        address=f"192.168.1.{base + 1 if windows else base}",
        mac=f"66:00:00:00:00:{number:02x}",
    )
    spec = NodeSpec(
        name=name,
        os="windows" if windows else "linux",
        address=f"10.0.0.{10 + number}",
        prefix_length=24,
        tunnel=tunnel,
        reset="both" if name == "w2" else "remote",  # the two Windows nodes differ in this setting
    )
    return TestNode(spec=spec, block=f"192.168.1.{base}/26", tunnel=tunnel)


LabType = TypeVar("LabType", bound=Lab)


@contextlib.contextmanager
def labd_lab(kind: Callable[[asyncio.Runner, Channel], LabType]) -> Iterator[LabType]:
    """Build a lab of this kind over its own labd."""
    labd = launch(LabdSettings(services=("dataplane",)))
    with asyncio.Runner() as runner:
        try:
            channel = runner.run(labd.connect())
            built = kind(runner, channel)
            runner.run(built.build())
            yield built
        finally:
            runner.run(labd.close())


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with labd_lab(Lab) as built:
        yield built
