# SPDX-License-Identifier: Apache-2.0
"""Calico of a lab, put together: objects, IPAM, CNI, Typha and a Felix per node.

The order of calls: first ``start()``, once the nodes exist in the data plane and the API, and the
namespaces ``calico-system`` and ``tigera-operator`` in the API; then
``felix_started``/``felix_stopped`` with the calico-node pods, and finally ``stop()``.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.api.informer import Informer
from hybridlab.calico.cni import CNI
from hybridlab.calico.felix import Felix
from hybridlab.calico.ipam_objects import IPAMWriter
from hybridlab.calico.node_status import NodeStatuses
from hybridlab.calico.policy_definitions import DEFINITIONS, policy_definitions
from hybridlab.calico.resources import CalicoResources
from hybridlab.calico.typha import Typha
from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.model import FabricTable
from hybridlab.networks.contract.addresses import AddressError, AddressSource
from hybridlab.networks.contract.plane import Plane
from hybridlab.networks.contract.routing import IPV4_ADDRESS
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.networks.ipam.host_local import HostLocal
from hybridlab.networks.ipam.ipam import IPAM, Pool
from hybridlab.policy.release import Release
from hybridlab.policy.selectors import parse
from hybridlab.profiles.machines import Machine, dns_address, enables_dsr, machines
from hybridlab.profiles.model import Profile

FELIX_RESTART_SECONDS = 0.05
"""Seconds from Felix' end to its next start. On real nodes it is about 2 s; nothing depends on its
length."""
HOST_RULES = "what the host does not reach"
"""The name of the rules that block a node's own traffic to targets which its operating system
cannot reach."""

FelixLog = Callable[[str, str], None]
"""Receives (node, line): a line for the log of the node's Felix. An empty node stands for every
Felix."""


class Installed(Protocol):
    """The objects and settings that the installer of Calico creates."""

    cni_file: str
    """The name of the CNI configuration on Windows nodes."""

    def calico_objects(self, resources: CalicoResources) -> list[tuple[str, Obj]]:
        """Return Calico's own configuration objects as (resource, object)."""

    def operator_objects(self) -> list[tuple[str, Obj]]:
        """Return all objects that the operator writes as (resource, object); an object's status is
        its subresource."""

    def windows_status(self, *, strict_affinity: bool) -> Obj | None:
        """Return the TigeraStatus of Calico on Windows; None if no component reports it."""


class Calico:
    """Calico as other parts of the lab use it."""

    def __init__(
        self,
        client_factory: Callable[[str], Client],
        dataplane: Dataplane,
        profile: Profile,
        plane: Plane,
        installed: Installed,
        *,
        nodes: Sequence[Machine] | None = None,
        log: FelixLog = lambda node, line: None,
    ) -> None:
        self._profile = profile
        self._log = log
        self._dataplane = dataplane
        self.plane = plane
        self._installed = installed
        self.nodes = {node.name: node for node in (machines(profile) if nodes is None else nodes)}
        self.dns_address = dns_address(profile)
        self._client = client_factory("system:serviceaccount:calico-system:calico-node")
        self._operator = client_factory("system:serviceaccount:tigera-operator:tigera-operator")
        self._resources = CalicoResources(profile)
        network = profile.network
        self.ipam = IPAM(
            self.nodes.values(),
            [
                Pool(
                    name="default-ipv4-ippool", cidr=network.pod_cidr, block_size=network.block_size
                )
            ],
            strict_affinity=network.strict_affinity,
        )
        by_node = network.ipam != "calico-ipam"
        self.addresses: AddressSource = (
            HostLocal(profile, self.nodes.values()) if by_node else self.ipam
        )
        """The source from which the CNI plugin gets pods' addresses."""
        self._writer = IPAMWriter(
            self._client, self.ipam, self._resources, lambda line: log("", line)
        )
        release = Release(profile.calico.version, profile.calico.defects)
        by_cidr = [
            node.name for node in self.nodes.values() if by_node and not plane.claims_blocks(node)
        ]
        self.typha = Typha(
            self._client,
            self._resources,
            release,
            plane.node_end,
            self._warn_all,
            pod_cidrs=by_cidr,
        )
        plane.on_change(self.typha.routing_due)
        self._fabric = FabricTable()
        self.typha.on_routing(self._tell_fabric)
        self.windows = {
            name: plane.windows_node(node, installed.cni_file)
            for name, node in self.nodes.items()
            if node.os == "windows"
        }
        self.felixes = {name: self._felix(node) for name, node in self.nodes.items()}
        self._wanted: set[str] = set()
        """Nodes on which a calico-node pod runs, so that Felix must run, too."""
        self._restarts: dict[str, asyncio.Task[None]] = {}
        self.pod_network = CNI(
            profile,
            plane,
            self.nodes,
            dataplane,
            self.addresses,
            self._writer,
            self.windows,
            endpoint_up=self._endpoint_up,
            endpoint_down=lambda node, uid: self.felixes[node].endpoint_removed(uid),
            annotations=self._namespace_annotations,
        )
        """Implements ``dataplane.pod_network.PodNetwork``."""
        self._namespaces = Informer(self._client, "namespaces")
        self._statuses = NodeStatuses(
            self._client, self._resources.name("caliconodestatuses"), plane.node_status
        )
        self._informers: list[Informer] = []
        self._beside: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Write Calico's objects, give every node the addresses it needs, and follow the API."""
        await self._write_objects()
        claimed = {name: self._claim(node) for name, node in self.nodes.items()}
        await self._writer.save_now()
        await asyncio.gather(
            *(self._annotate(self.nodes[name], found) for name, found in claimed.items())
        )
        for name, node in self.nodes.items():
            if rules := self.plane.host_rules(node):
                await self._dataplane.set_fault_rules(name, HOST_RULES, rules)
        await self.typha.start()
        await self._follow_configuration()

    async def stop(self) -> None:
        """Stop every Felix, and stop following the API; the data plane stays as it is."""
        self._wanted.clear()
        await asyncio.gather(*self._restarts.values(), return_exceptions=True)
        await asyncio.gather(*(felix.stop() for felix in self.felixes.values() if felix.running))
        for informer in self._informers:
            await informer.stop()
        self._statuses.stop()
        await self.typha.stop()
        for task in self._beside:
            task.cancel()

    def felix_started(
        self, node: str, felix: dict[str, str] | None = None, cni: dict[str, str] | None = None
    ) -> None:
        """Start a node's Felix, which programs everything anew. To be called in the event loop when
        calico-node runs.

        ``felix`` and ``cni`` are the environments of the containers ``felix`` and ``install-cni``
        on a Windows node.
        """
        if node in self.windows:
            self.windows[node].configure(felix or {}, cni or {})
        self._wanted.add(node)
        if node not in self._restarts:
            self._start(node)

    async def felix_stopped(self, node: str) -> None:
        """Stop a node's Felix when its calico-node pod ends; nothing is programmed until Felix
        starts again."""
        self._wanted.discard(node)
        if node in self._restarts:
            await asyncio.gather(self._restarts[node], return_exceptions=True)
        elif self.felixes[node].running:
            await self.felixes[node].stop()

    async def restart_felix(self, node: str) -> None:
        """End a node's Felix, and wait until its supervisor (runit, felix-service.ps1) has started
        it again.

        Return at once if no Felix runs on the node.
        """
        if node not in self._wanted:
            return
        if node not in self._restarts:
            self._restarts[node] = asyncio.create_task(
                self._restart(node), name=f"felix {node} restart"
            )
        await asyncio.shield(self._restarts[node])

    async def remove_hns_network(self, node: str, identity: str) -> None:
        """Remove an HNS network of a Windows node; the network's pods have no network from then on.
        Raise KeyError for an unknown network."""
        await self.pod_network.cut_off(self.windows[node].hns.remove_network(identity))

    def _felix(self, node: Machine) -> Felix:
        name = node.name
        return Felix(
            node,
            self._profile,
            self.plane,
            self.typha,
            self._dataplane,
            self._node_log(name),
            self.windows.get(name),
            exits=lambda: self._restart_soon(name),
        )

    def _restart_soon(self, node: str) -> None:
        if node in self._wanted and node not in self._restarts:
            self._restarts[node] = asyncio.create_task(
                self._restart(node), name=f"felix {node} restart"
            )

    async def _restart(self, node: str) -> None:
        try:
            if self.felixes[node].running:
                await self.felixes[node].stop()
            await asyncio.sleep(FELIX_RESTART_SECONDS)
        finally:
            del self._restarts[node]
            if node in self._wanted:
                self._start(node)

    def _start(self, node: str) -> None:
        """Start Felix. On Windows, first do what Calico's startup does: create the HNS network if
        there is none."""
        if node in self.windows:
            self._ensure_network(self.windows[node])
        self.felixes[node].start()

    def _ensure_network(self, windows: WindowsNode) -> None:
        blocks = self._at_startup(windows.machine).networks_of(windows.machine.name)
        if not blocks:
            return
        try:
            spec = self.plane.started_network(windows, blocks[0])
            gone = () if spec is None else windows.hns.ensure_pod_network(spec)
        except ValueError as error:
            self._node_log(windows.machine.name)(
                "ERROR", f"Failed to create the HNS network Calico: {error}"
            )
        else:
            if gone:
                self._soon(self.pod_network.cut_off(gone))

    def snat_for(self, node: str) -> str | None:
        """Return the source address that kube-proxy gives connections of a Windows node's pods to a
        ClusterIP; None: the connections keep the pods' addresses."""
        return self._service_source(node, enable_dsr=enables_dsr(self._profile, self.nodes[node]))

    def node_port_snat_for(self, node: str) -> str | None:
        """Return the source address that traffic to a NodePort of a Windows node gets; return None
        for the node's own address."""
        return self._service_source(node, enable_dsr=False)

    def _service_source(self, node: str, *, enable_dsr: bool) -> str | None:
        machine = self.nodes[node]
        blocks = self.addresses.networks_of(node)
        if machine.os != "windows" or not blocks:
            return None
        return self.plane.service_source(machine, blocks[0], enable_dsr=enable_dsr)

    async def ipam_saved(self) -> None:
        """Wait until the API's IPAM objects agree with IPAM."""
        await self._writer.saved()

    async def _write_objects(self) -> None:
        release = Release(self._profile.calico.version)
        await asyncio.gather(
            *(self._operator.create(DEFINITIONS, obj) for obj in policy_definitions(release))
        )
        writes = [
            self._client.create(name, obj)
            for name, obj in self._installed.calico_objects(self._resources)
        ]
        writes += [
            _create_with_status(self._operator, name, obj)
            for name, obj in self._installed.operator_objects()
        ]
        await asyncio.gather(*writes)

    def _claim(self, node: Machine) -> dict[str, str]:
        """Claim a node's block, and return the node's annotations for it. Return an empty mapping
        if a Windows node gets no block."""
        try:
            return self.plane.claim(node, self._at_startup(node))
        except AddressError as error:
            if node.os == "linux":
                raise
            self._node_log(node.name)(
                "ERROR", f"Failed to ensure an IPAM block for the node: {error}"
            )
            return {}

    def _at_startup(self, node: Machine) -> AddressSource:
        """Return the address source from which Calico's startup on a node claims its block."""
        return self.ipam if self.plane.claims_blocks(node) else self.addresses

    async def _annotate(self, node: Machine, claimed: dict[str, str]) -> None:
        own = {IPV4_ADDRESS: f"{node.address}/{node.prefix_length}"}
        annotations = own | claimed if self.plane.has_backend else claimed
        await self._client.patch("nodes", node.name, {"metadata": {"annotations": annotations}})

    async def _follow_configuration(self) -> None:
        names = {
            plural: self._resources.name(plural) for plural in ("ippools", "ipamconfigurations")
        }
        pools, settings, nodes = (
            Informer(self._client, resource)
            for resource in (names["ippools"], names["ipamconfigurations"], "nodes")
        )
        pools.on_change(lambda obj: self._pools_changed(pools))
        settings.on_change(lambda obj: self._ipam_configuration_changed(settings))
        nodes.on_change(self._node_changed)
        self._informers = [pools, settings, nodes, self._namespaces, self._statuses.informer]
        for informer in self._informers:
            await informer.start()
        await asyncio.gather(*(informer.wait_synced() for informer in self._informers))

    def _tell_fabric(self) -> None:
        """Update the routes of the routers between the nodes."""
        table = self.plane.fabric(self.typha.routing)
        if table != self._fabric:
            self._fabric = table
            self._soon(self._dataplane.set_fabric(table))

    def _namespace_annotations(self, name: str) -> Mapping[str, str]:
        annotations: Mapping[str, str] = (self._namespaces.get(name) or {"metadata": {}})[
            "metadata"
        ].get("annotations") or {}
        return annotations

    def _node_changed(self, obj: Obj) -> None:
        self.ipam.node_labels[obj["metadata"]["name"]] = obj["metadata"].get("labels") or {}

    def _pools_changed(self, informer: Informer) -> None:
        pools = []
        for obj in informer:
            try:
                pools.append(_pool(obj))
            except ValueError as error:
                self._log("", f"IPPool {obj['metadata']['name']} is not used: {error}")
        self.ipam.pools = tuple(pools)

    def _ipam_configuration_changed(self, informer: Informer) -> None:
        spec = (informer.get("default") or {}).get("spec") or {}
        strict = bool(spec.get("strictAffinity"))
        self.ipam.max_blocks_per_host = spec.get("maxBlocksPerHost") or 0
        if strict != self.ipam.strict_affinity:
            self.ipam.strict_affinity = strict
            self._soon(self._report_windows(strict_affinity=strict))

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in the background. It is cancelled when the cluster ends."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _report_windows(self, *, strict_affinity: bool) -> None:
        obj = self._installed.windows_status(strict_affinity=strict_affinity)
        if obj is None:
            return
        try:
            await self._operator.patch(
                TIGERA_STATUSES, "calico-windows", {"status": obj["status"]}, subresource="status"
            )
        except ApiError as error:
            if error.code != 404:
                raise

    async def _endpoint_up(self, node: str, uid: str) -> None:
        """Report a new endpoint to Felix. For a Linux pod of Calico's plugin, also wait for its
        policy; no other pod waits."""
        self.felixes[node].endpoint_created(uid)
        if self.nodes[node].os == "linux" and self.plane.cni_type("linux") == "calico":
            await self.felixes[node].endpoint_ready(uid)

    def _node_log(self, node: str) -> Callable[[str, str], None]:
        def write(level: str, message: str) -> None:
            now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
            self._log(node, f"{now} [{level}][1] felix: {message}")

        return write

    def _warn_all(self, message: str) -> None:
        for name, felix in self.felixes.items():
            if felix.running:
                self._node_log(name)("WARNING", message)


TIGERA_STATUSES = "tigerastatuses.operator.tigera.io"


async def _create_with_status(client: Client, resource: str, obj: Obj) -> Obj:
    """Create an object. If it has a status, write the status as the subresource."""
    created = await client.create(resource, obj, obj["metadata"].get("namespace"))
    if "status" not in obj:
        return created
    return await client.patch(
        resource, created["metadata"]["name"], {"status": obj["status"]}, subresource="status"
    )


def _pool(obj: Obj) -> Pool:
    spec = obj["spec"]
    selector = parse(spec.get("nodeSelector") or "")
    return Pool(
        name=obj["metadata"]["name"],
        cidr=spec["cidr"],
        block_size=spec.get("blockSize") or 26,
        disabled=bool(spec.get("disabled")),
        selects=selector.matches,
    )
