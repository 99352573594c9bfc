# SPDX-License-Identifier: Apache-2.0
"""The data plane inside labd: implements :class:`hybridlab.dataplane.contract.Dataplane` in the
kernel.

One thread does all programming, in the order of the calls, so that the event loop stays free and
two changes never collide. The service keeps the state that is not in the kernel: the fabric, the
nodes, the pods, and the DNS zone.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from hybridlab.dataplane import outside
from hybridlab.dataplane import pod as pods
from hybridlab.dataplane.dns import Resolver
from hybridlab.dataplane.fabric import SCOPE, Fabric
from hybridlab.dataplane.injection import Injections
from hybridlab.dataplane.model import (
    FabricTable,
    NodeRoutes,
    NodeSpec,
    PodSpec,
    PolicyUpdate,
    ServiceTable,
    Tunnel,
    Zone,
)
from hybridlab.dataplane.node import Node
from hybridlab.dataplane.outside import Outside
from hybridlab.kernel import namespaces
from hybridlab.kernel.nft import NftError
from hybridlab.kernel.sandbox import Sandbox, Sandboxes, node_id
from hybridlab.kernel.slow_wire import SlowWire
from hybridlab.kernel.wire import Refused

T = TypeVar("T")
OUTSIDE = "outside"
"""The sandbox of the host outside the cluster."""


class DataplaneService:
    """Nodes, pods, routes, services, policy and DNS of a lab, in the kernel.

    Create it in the event loop's thread.
    """

    def __init__(self, sandboxes: Sandboxes) -> None:
        namespaces.home_netns()  # the programming thread starts in this thread's namespace, and must return to it
        self.resolver = Resolver()
        """The DNS resolver; the part that runs the DNS server's pod calls its
        :meth:`Resolver.serve`."""
        self._sandboxes = sandboxes
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="programming")
        self._fabric: Fabric | None = None
        self._outside: Outside | None = None
        self._outside_servers: outside.Servers | None = None
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, pods.Pod] = {}
        self._wires: dict[str, SlowWire] = {}
        """The device that makes a node's path to the underlay slow, by node."""

    async def start(self) -> None:
        self._fabric = await self._program(Fabric)
        self._register(SCOPE, self._fabric.netns, node="", name=SCOPE, address="")

    def close(self) -> None:
        """Close everything. For the kernel it is enough that the descriptors are closed."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        for sandbox in self._sandboxes:
            self._sandboxes.remove(sandbox.id)
        if self._outside_servers is not None:
            self._outside_servers.close()
        if self._outside is not None:
            self._outside.close()
        for node in self._nodes.values():
            node.close()
        if self._fabric is not None:
            self._fabric.close()

    async def add_node(self, spec: NodeSpec) -> None:
        if spec.name in self._nodes or spec.name == SCOPE:
            raise Refused(f"node {spec.name} already exists")
        fabric = self._underlay()
        node = await self._program(lambda: Node(spec, fabric))
        self._nodes[spec.name] = node
        self._register(
            node_id(spec.name), node.netns, node=spec.name, name=spec.name, address=spec.address
        )

    async def add_outside(self, address: str, mtu: int) -> None:
        if self._outside is not None:
            raise Refused(f"a host outside the cluster already exists: {self._outside.address}")
        fabric = self._underlay()
        nodes = list(self._nodes.values())

        def build() -> Outside:
            built = Outside(address, mtu, fabric)
            for node in nodes:
                built.meet(node.spec.address, node.mac)
                node.know_outside(built.address, outside.MAC)
            return built

        self._outside = await self._program(build)
        self._register(
            OUTSIDE, self._outside.netns, node="", name=OUTSIDE, address=self._outside.address
        )
        sandbox = self._sandboxes.get(OUTSIDE)
        self._outside_servers = await outside.serve(
            lambda kind: sandbox.socket(socket.AF_INET, kind)
        )

    async def set_tunnel(self, node: str, spec: Tunnel | None) -> None:
        changed = self._node(node)
        await self._program(lambda: changed.set_tunnel(spec))

    async def set_routes(self, node: str, routes: NodeRoutes) -> None:
        changed = self._node(node)
        await self._program(lambda: changed.set_routes(routes))

    async def set_fabric(self, table: FabricTable) -> None:
        fabric = self._underlay()
        ports = {name: node.on_fabric for name, node in self._nodes.items()}
        for name in {*(route.node for route in table.routes), *table.source_check}:
            self._node(name)  # refuses an unknown node
        router = await self._program(lambda: fabric.route_to(table, ports))
        for node in self._nodes.values():
            await self._program(partial(node.meet_router, router))

    async def add_pod(self, spec: PodSpec) -> None:
        node = self._node(spec.node)
        if spec.id in self._sandboxes:
            raise Refused(
                f"pod {spec.namespace}/{spec.name}: a sandbox with id {spec.id} already exists"
            )
        if spec.address is None:
            netns = os.dup(node.netns)
            address = node.spec.address
        else:
            address = spec.address
            pod = await self._program(lambda: pods.add_pod(node, spec, address))
            self._pods[spec.id] = pod
            netns = pod.netns
        self._sandboxes.add(
            Sandbox(
                id=spec.id,
                netns=netns,
                node=spec.node,
                name=spec.name,
                namespace=spec.namespace,
                hostname=spec.hostname or spec.name,
                address=address,
                nameservers=spec.nameservers,
                searches=spec.searches,
                resolver_options=spec.resolver_options,
                etc_hosts=spec.etc_hosts,
            )
        )

    async def remove_pod(self, pod_id: str) -> None:
        sandbox = self._sandboxes.get(pod_id)
        pod = self._pods.pop(sandbox.id, None)
        if pod is not None:
            node = self._node(sandbox.node)
            removed = pod
            await self._program(lambda: pods.remove_pod(node, removed))
        self._sandboxes.remove(sandbox.id)

    async def cut_off_pod(self, pod_id: str) -> None:
        pod = self._pods.get(pod_id)
        if pod is not None:  # the pod may be gone, or not added yet, when its network is removed
            node = self._node(pod.spec.node)
            there = pod
            await self._program(lambda: pods.cut_off_pod(node, there))

    async def set_services(self, node: str, table: ServiceTable) -> None:
        changed = self._node(node)
        await self._program(lambda: changed.set_services(table))

    async def update_policy(self, node: str, update: PolicyUpdate) -> None:
        changed = self._node(node)
        await self._program(lambda: changed.update_policy(update))

    async def set_zone(self, zone: Zone) -> None:
        self.resolver.set_zone(zone)

    async def set_fault_rules(
        self, scope: str, name: str, rules: Sequence[tuple[str, str]]
    ) -> None:
        injections = self._injections(scope)
        await self._program(lambda: injections.set(name, rules))

    async def set_latency(self, node: str, seconds: float) -> None:
        slowed = self._node(node)
        fabric = self._underlay()
        wire = self._wires.pop(node, None)
        if wire is not None:
            wire.close()
            await self._program(lambda: fabric.plug_again(slowed.port))
            await self._program(lambda: slowed.finish_frames(finish=False))
        if seconds:
            await self._program(lambda: slowed.finish_frames(finish=True))
            ends = await self._program(
                lambda: fabric.unplug_into_wire(slowed.port, slowed.spec.underlay_mtu)
            )
            self._wires[node] = SlowWire(fabric.netns, ends, seconds)
            self._wires[node].start()

    async def latency(self, node: str) -> float:
        wire = self._wires.get(self._node(node).spec.name)
        return wire.seconds if wire else 0.0

    async def clear_fault_rules(self, scope: str, name: str) -> None:
        injections = self._injections(scope)
        await self._program(lambda: injections.clear(name))

    async def fault_rules(self, scope: str) -> dict[str, list[str]]:
        return await self._program(self._injections(scope).in_kernel)

    async def add_address(self, pod_id: str, address: str) -> None:
        pod = self._pod(pod_id)
        node = self._node(pod.spec.node)
        await self._program(lambda: pods.add_address(node, pod, address))

    async def remove_address(self, pod_id: str, address: str) -> None:
        pod = self._pod(pod_id)
        node = self._node(pod.spec.node)
        if address not in pod.extra:
            raise Refused(f"pod {pod.spec.name} does not have the address {address}")
        await self._program(lambda: pods.remove_address(node, pod, address))

    async def facts(self, node: str) -> dict[str, object]:
        if node == SCOPE:
            return {"ruleset": await self._program(self._underlay().ruleset)}
        return await self._program(self._node(node).facts)

    async def _program(self, work: Callable[[], T]) -> T:
        """Run a function on the programming thread; a cancelled caller does not stop a function
        that has begun.
        """
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(future)
        except NftError as error:
            raise Refused(str(error)) from error

    def _register(self, sandbox_id: str, netns: int, *, node: str, name: str, address: str) -> None:
        self._sandboxes.add(
            Sandbox(
                id=sandbox_id,
                netns=os.dup(netns),
                node=node,
                name=name,
                namespace="",
                hostname=name,
                address=address,
            )
        )

    def _underlay(self) -> Fabric:
        if self._fabric is None:
            raise RuntimeError("DataplaneService.start() was not awaited")
        return self._fabric

    def _node(self, name: str) -> Node:
        try:
            return self._nodes[name]
        except KeyError:
            raise Refused(
                f"there is no node {name}; nodes: {', '.join(self._nodes) or 'none'}"
            ) from None

    def _pod(self, pod_id: str) -> pods.Pod:
        try:
            return self._pods[pod_id]
        except KeyError:
            raise Refused(f"there is no pod {pod_id} with its own address") from None

    def _injections(self, scope: str) -> Injections:
        return self._underlay().injections if scope == SCOPE else self._node(scope).injections
