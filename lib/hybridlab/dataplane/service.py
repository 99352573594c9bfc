"""The data plane inside labd: answers ``dataplane.*`` calls, in the kernel, on one programming thread.

One thread does all programming, in the order of the calls, so that the event loop stays free and two changes never
meet. What it keeps besides the kernel's state: the fabric, the nodes, the pods, and the DNS zone.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hybridlab.dataplane import outside
from hybridlab.dataplane import pod as pods
from hybridlab.dataplane.dns import Resolver
from hybridlab.dataplane.fabric import SCOPE, Fabric
from hybridlab.dataplane.injection import Injections
from hybridlab.dataplane.model import (
    NodeRoutes,
    NodeSpec,
    PodSpec,
    PolicyUpdate,
    ServiceTable,
    VxlanSpec,
    Zone,
)
from hybridlab.dataplane.node import Node
from hybridlab.dataplane.outside import Outside
from hybridlab.kernel import namespaces
from hybridlab.kernel.nft import NftError
from hybridlab.kernel.sandbox import Sandbox, Sandboxes, node_id
from hybridlab.kernel.shapes import from_json
from hybridlab.kernel.wire import Handler, Refused, Reply

T = TypeVar("T")
OUTSIDE = "outside"
"""Sandbox of the host beyond the cluster."""


class DataplaneService:
    """Handlers named ``dataplane.*`` (and ``sandbox.socket``) for labd's channel.

    Create it in the event loop's thread.
    """

    def __init__(self, sandboxes: Sandboxes) -> None:
        namespaces.home_netns()  # the programming thread starts where this one is, and must come back there
        self.resolver = Resolver()
        """Give :meth:`Resolver.serve` to whoever runs the DNS server's pod."""
        self._sandboxes = sandboxes
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="programming")
        self._fabric: Fabric | None = None
        self._outside: Outside | None = None
        self._outside_server: asyncio.Server | None = None
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, pods.Pod] = {}

    async def start(self) -> None:
        """Make the underlay."""
        self._fabric = await self._program(Fabric)
        self._register(SCOPE, self._fabric.netns, node="", name=SCOPE, address="")

    def handlers(self) -> dict[str, Handler]:
        """Method name to handler, for ``Channel.register``."""
        return {
            "dataplane.add_node": self._add_node,
            "dataplane.add_outside": self._add_outside,
            "dataplane.set_vxlan": self._set_vxlan,
            "dataplane.set_routes": self._set_routes,
            "dataplane.add_pod": self._add_pod,
            "dataplane.remove_pod": self._remove_pod,
            "dataplane.cut_off_pod": self._cut_off_pod,
            "dataplane.set_services": self._set_services,
            "dataplane.update_policy": self._update_policy,
            "dataplane.set_zone": self._set_zone,
            "dataplane.set_fault_rules": self._set_fault_rules,
            "dataplane.clear_fault_rules": self._clear_fault_rules,
            "dataplane.fault_rules": self._fault_rules,
            "dataplane.add_address": self._add_address,
            "dataplane.remove_address": self._remove_address,
            "dataplane.facts": self._facts,
            "sandbox.socket": self._socket,
        }

    def close(self) -> None:
        """Let go of everything; closing the descriptors is all the kernel needs."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        for sandbox in self._sandboxes:
            self._sandboxes.remove(sandbox.id)
        if self._outside_server is not None:
            self._outside_server.close()
        if self._outside is not None:
            self._outside.close()
        for node in self._nodes.values():
            node.close()
        if self._fabric is not None:
            self._fabric.close()

    # -- calls -----------------------------------------------------------------------------------------------

    async def _add_node(self, params: Any, fds: list[int]) -> object:
        spec = from_json(NodeSpec, params["spec"])
        if spec.name in self._nodes or spec.name == SCOPE:
            raise Refused(f"node {spec.name} exists already")
        fabric = self._underlay()
        node = await self._program(lambda: Node(spec, fabric))
        self._nodes[spec.name] = node
        self._register(node_id(spec.name), node.netns, node=spec.name, name=spec.name, address=spec.address)
        return None

    async def _add_outside(self, params: Any, fds: list[int]) -> object:
        """A host beyond the cluster, which all nodes that are there know."""
        if self._outside is not None:
            raise Refused(f"there is a host outside already, {self._outside.address}")
        fabric, nodes = self._underlay(), list(self._nodes.values())

        def build() -> Outside:
            built = Outside(params["address"], params["mtu"], fabric)
            for node in nodes:
                built.meet(node.spec.address, node.mac)
                node.know_outside(built.address, outside.MAC)
            return built

        self._outside = await self._program(build)
        self._register(OUTSIDE, self._outside.netns, node="", name=OUTSIDE, address=self._outside.address)
        sandbox = self._sandboxes.get(OUTSIDE)
        self._outside_server = await outside.serve(lambda: sandbox.socket(socket.AF_INET, socket.SOCK_STREAM))
        return None

    async def _set_vxlan(self, params: Any, fds: list[int]) -> object:
        node = self._node(params["node"])
        spec = None if params["spec"] is None else from_json(VxlanSpec, params["spec"])
        await self._program(lambda: node.set_vxlan(spec))
        return None

    async def _set_routes(self, params: Any, fds: list[int]) -> object:
        node = self._node(params["node"])
        routes = from_json(NodeRoutes, params["routes"])
        await self._program(lambda: node.set_routes(routes))
        return None

    async def _add_pod(self, params: Any, fds: list[int]) -> object:
        spec = from_json(PodSpec, params["spec"])
        node = self._node(spec.node)
        if spec.id in self._sandboxes:
            raise Refused(f"pod {spec.namespace}/{spec.name}: a sandbox with id {spec.id} exists already")
        if spec.address is None:
            netns, address = os.dup(node.netns), node.spec.address
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
            )
        )
        return None

    async def _remove_pod(self, params: Any, fds: list[int]) -> object:
        sandbox = self._sandboxes.get(params["pod_id"])
        pod = self._pods.pop(sandbox.id, None)
        if pod is not None:
            node = self._node(sandbox.node)
            removed = pod
            await self._program(lambda: pods.remove_pod(node, removed))
        self._sandboxes.remove(sandbox.id)
        return None

    async def _cut_off_pod(self, params: Any, fds: list[int]) -> object:
        pod = self._pods.get(params["pod_id"])
        if pod is not None:  # it may have left, or not be there yet, when its network goes
            node, there = self._node(pod.spec.node), pod
            await self._program(lambda: pods.cut_off_pod(node, there))
        return None

    async def _set_services(self, params: Any, fds: list[int]) -> object:
        node = self._node(params["node"])
        await self._program(lambda: node.set_services(from_json(ServiceTable, params["table"])))
        return None

    async def _update_policy(self, params: Any, fds: list[int]) -> object:
        node = self._node(params["node"])
        await self._program(lambda: node.update_policy(from_json(PolicyUpdate, params["update"])))
        return None

    async def _set_zone(self, params: Any, fds: list[int]) -> object:
        zone = await self._program(lambda: from_json(Zone, params["zone"]))
        self.resolver.set_zone(zone)
        return None

    async def _set_fault_rules(self, params: Any, fds: list[int]) -> object:
        injections = self._injections(params["scope"])
        rules = [(chain, rule) for chain, rule in params["rules"]]
        await self._program(lambda: injections.set(params["name"], rules))
        return None

    async def _clear_fault_rules(self, params: Any, fds: list[int]) -> object:
        injections = self._injections(params["scope"])
        await self._program(lambda: injections.clear(params["name"]))
        return None

    async def _fault_rules(self, params: Any, fds: list[int]) -> object:
        return await self._program(self._injections(params["scope"]).in_kernel)

    async def _add_address(self, params: Any, fds: list[int]) -> object:
        pod = self._pod(params["pod_id"])
        node = self._node(pod.spec.node)
        await self._program(lambda: pods.add_address(node, pod, params["address"]))
        return None

    async def _remove_address(self, params: Any, fds: list[int]) -> object:
        pod = self._pod(params["pod_id"])
        node = self._node(pod.spec.node)
        if params["address"] not in pod.extra:
            raise Refused(f"pod {pod.spec.name} was not given the address {params['address']}")
        await self._program(lambda: pods.remove_address(node, pod, params["address"]))
        return None

    async def _facts(self, params: Any, fds: list[int]) -> object:
        if params["node"] == SCOPE:
            return {"ruleset": await self._program(self._underlay().ruleset)}
        return await self._program(self._node(params["node"]).facts)

    async def _socket(self, params: Any, fds: list[int]) -> object:
        """A socket born in a sandbox, given away: whoever has it acts as the pod, from any process."""
        sandbox = self._sandboxes.get(params["sandbox"])
        try:
            born = sandbox.socket(params["family"], params["kind"], params["proto"])
        except OSError as error:
            raise Refused(f"no socket in sandbox {sandbox.id} ({sandbox.name}): {error}") from error
        return Reply(None, [born.detach()])

    # -- parts -----------------------------------------------------------------------------------------------

    async def _program(self, work: Callable[[], T]) -> T:
        """Do it on the programming thread; a cancelled caller does not stop what has begun."""
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
            raise Refused(f"no node {name}; there are {', '.join(self._nodes) or 'none'}") from None

    def _pod(self, pod_id: str) -> pods.Pod:
        try:
            return self._pods[pod_id]
        except KeyError:
            raise Refused(f"no pod {pod_id} with an address of its own") from None

    def _injections(self, scope: str) -> Injections:
        return self._underlay().injections if scope == SCOPE else self._node(scope).injections
