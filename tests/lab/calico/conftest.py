# SPDX-License-Identifier: Apache-2.0
"""Calico over a real data plane: an API in the process, labd's namespaces, and connection attempts
of pods."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from hybridlab.api.contract import Obj
from hybridlab.api.core import Core, Settings
from hybridlab.api.interference import Interference
from hybridlab.calico.cluster import Calico
from hybridlab.cluster.installs.installed import Installed
from hybridlab.dataplane.contract import Dataplane, remote_dataplane
from hybridlab.dataplane.model import FabricTable, NodeSpec
from hybridlab.dataplane.sandbox_socket import sandbox_socket
from hybridlab.faults.gates import ZoneGate
from hybridlab.faults.injector import Injector
from hybridlab.faults.lab_parts import LabParts
from hybridlab.kernel.wire import Channel
from hybridlab.labd.launch import LabdSettings, launch
from hybridlab.networks.registry import fault_types, plane_of
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines, pod_cidr

T = TypeVar("T")
PORT = 8080
DENIED_SECONDS = 0.3
PATIENCE = 5.0
POLICIES = "networkpolicies.networking.k8s.io"


async def _no_containers(pod: Obj, container: str) -> None:
    raise AssertionError(f"container {container} was to be killed, but this lab runs no containers")


class CountingChannel:
    """Counts policy updates: once when they are sent and once when they are done."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.updates = 0

    async def call(self, method: str, params: object = None) -> Any:
        counts = method == Dataplane.update_policy.__qualname__
        self.updates += counts
        result = await self._channel.call(method, params)
        self.updates += counts
        return result


class CalicoLab:
    """A cluster of six nodes with the pods that a test adds."""

    def __init__(
        self, runner: asyncio.Runner, channel: Channel, *overrides: str, profile: str = "default"
    ) -> None:
        self.runner, self.channel, self.counting = runner, channel, CountingChannel(channel)
        self.plane = plane = remote_dataplane(self.counting)
        self.profile = load(profile, overrides)
        self.core = Core(Settings())
        self.client = self.core.client("admin")
        network = plane_of(self.profile)
        self.calico = Calico(
            self.core.client, plane, self.profile, network, Installed(self.profile, network)
        )
        harness = LabParts(
            plane, self.calico, self.client, ZoneGate(plane), Interference(), _no_containers
        )
        self.injector = Injector(harness, fault_types())
        self.pods: dict[str, Obj] = {}
        self.addresses: dict[str, str] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def build(self) -> None:
        for name in ("calico-system", "tigera-operator", "demo", "other"):
            await self.client.create("namespaces", {"metadata": {"name": name}})
        for machine in machines(self.profile):
            head = {"name": machine.name, "labels": dict(machine.group.labels)}
            own = {"metadata": head, "spec": {"podCIDR": pod_cidr(machine, self.profile)}}
            await self.client.create("nodes", own)
            spec = NodeSpec(
                name=machine.name,
                os=machine.os,
                address=machine.address,
                prefix_length=machine.prefix_length,
                pod_prefix=self.calico.plane.pod_prefix,
            )
            await self.plane.add_node(spec)
        if len({machine.subnet for machine in machines(self.profile)}) > 1:
            await self.plane.set_fabric(FabricTable())
        await self.calico.start()
        for node in self.calico.nodes:
            self.calico.felix_started(node)
            for container in ("calico-node", "confd"):
                self.calico.plane.ran(node, container, now=True)
        await self.until(
            lambda: all(felix.routing.routes for felix in self.calico.felixes.values())
        )

    async def until(self, test: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not test():  # noqa: ASYNC110 -- what is waited for has no event
                await asyncio.sleep(0.001)

    async def settled(self) -> None:
        """Wait until nothing has been programmed in two consecutive intervals."""
        seen, quiet = -1, 0
        while quiet < 2:  # on a busy machine, more work may follow after one quiet interval
            quiet, seen = quiet + 1 if seen == self.counting.updates else 0, self.counting.updates
            await asyncio.sleep(0.05)

    def start_felix(self, node: str) -> None:
        """Start a node's Felix unless it runs; return when Felix has programmed everything."""

        async def start() -> None:
            self.calico.felix_started(node)
            await self.settled()

        self.run(start())

    def stop_felix(self, node: str) -> None:
        self.run(self.calico.felix_stopped(node))

    def pod(self, name: str, node: str, namespace: str = "demo", **labels: str) -> str:
        self.run(self._pod(name, node, namespace, labels))
        return self.addresses[name]

    async def _pod(self, name: str, node: str, namespace: str, labels: dict[str, str]) -> None:
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "busybox"}]}
        meta = {"name": name, "namespace": namespace, "labels": labels}
        obj = await self.client.create("pods", {"metadata": meta, "spec": spec})
        attachment = await self.calico.pod_network.attach(obj, node)
        change = {"metadata": {"annotations": attachment.annotations}}
        self.pods[name] = await self.client.patch("pods", name, change, namespace)
        self.addresses[name] = attachment.address
        # pods of other plugins have no other entry
        address = {"status": {"podIP": attachment.address}}
        await self.client.patch("pods", name, address, namespace, subresource="status")
        await self.settled()

    def remove(self, name: str) -> None:
        self.run(self._remove(self.pods.pop(name)))

    async def _remove(self, pod: Obj) -> None:
        meta = pod["metadata"]
        await self.calico.pod_network.detach(meta["uid"])
        await self.client.delete("pods", meta["name"], meta["namespace"], grace_period_seconds=0)
        await self.settled()

    @contextlib.contextmanager
    def policy(
        self, spec: Obj, resource: str = POLICIES, namespace: str | None = "demo", name: str = "p"
    ) -> Iterator[None]:
        """Apply a policy for the length of the block."""
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        self.run(self.client.create(resource, {"metadata": meta, "spec": spec}))
        self.run(self.settled())
        try:
            yield
        finally:
            self.run(self.client.delete(resource, name, namespace))
            self.run(self.settled())

    @contextlib.contextmanager
    def fault(self, name: str, **parameters: str) -> Iterator[str]:
        identity = self.run(self.injector.inject(name, parameters))
        try:
            yield identity
        finally:
            self.run(self.injector.heal(identity))

    def socket(self, pod: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
        sock = self.run(
            sandbox_socket(self.channel, self.pods[pod]["metadata"]["uid"], socket.AF_INET, kind)
        )
        sock.settimeout(DENIED_SECONDS)
        return sock

    def attempt(
        self, source: str, target: str, port: int = PORT, *, by: tuple[str, int] | None = None
    ) -> str:
        """Open one TCP connection between pods. Return the source that the target received, or
        ``timed out``, or the name of an error.

        ``by``: the address and port of a Service through which the connection goes.
        """
        with self.socket(target) as listener, self.socket(source) as client:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("0.0.0.0", port))
            listener.listen(8)
            try:
                client.connect(by or (self.addresses[target], port))
            except TimeoutError:
                return "timed out"
            except OSError as error:
                return type(error).__name__
            accepted, peer = listener.accept()
            accepted.close()
            return str(peer[0])

    def datagram_passes(
        self, source: str, target: str, size: int, port: int = PORT, *, whole: bool = True
    ) -> bool:
        """Return whether an IPv4 packet of this size arrives; with ``whole``, it must not be
        fragmented."""
        with (
            self.socket(target, socket.SOCK_DGRAM) as server,
            self.socket(source, socket.SOCK_DGRAM) as client,
        ):
            server.bind(("0.0.0.0", port))
            if whole:
                client.setsockopt(socket.IPPROTO_IP, 10, 3)  # IP_MTU_DISCOVER, IP_PMTUDISC_PROBE
            client.sendto(b"x" * (size - 28), (self.addresses[target], port))
            try:
                return len(server.recv(65536)) == size - 28
            except TimeoutError:
                return False

    def reaches(self, source: str, target: str, port: int = PORT) -> bool:
        """Return whether the target answers; any result but a connection or silence is an error."""
        outcome = self.attempt(source, target, port)
        assert outcome == "timed out" or outcome[0].isdigit(), outcome
        return outcome != "timed out"


@contextlib.contextmanager
def calico_lab(*overrides: str, profile: str = "default") -> Iterator[CalicoLab]:
    """Run a lab of a profile with these changed fields."""
    labd = launch(LabdSettings(services=("dataplane",)))
    with asyncio.Runner() as runner:
        try:
            made = CalicoLab(runner, runner.run(labd.connect()), *overrides, profile=profile)
            runner.run(made.build())
            yield made
            runner.run(made.calico.stop())
        finally:
            runner.run(labd.close())


def six_pods(lab: CalicoLab) -> CalicoLab:
    """Add two Linux and two Windows pods, each on its own node, and a second pod beside the first
    pod of each system."""
    for name, node in (
        ("l1", "linux-1"),
        ("l2", "linux-2"),
        ("w1", "windows-2022"),
        ("w2", "windows-2019"),
    ):
        lab.pod(name, node, app=name)
    lab.pod("l1b", "linux-1", app="beside")
    lab.pod("w1b", "windows-2022", app="beside")
    return lab


@pytest.fixture(scope="module")
def lab() -> Iterator[CalicoLab]:
    with calico_lab() as made:
        yield made


@pytest.fixture(scope="module")
def pods(lab: CalicoLab) -> CalicoLab:
    return six_pods(lab)
