# SPDX-License-Identifier: Apache-2.0
"""The parts of a running lab that faults change, and whose state they read."""

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.api.interference import Interference
from hybridlab.calico.cluster import Calico
from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.model import OS
from hybridlab.faults.errors import BadFault
from hybridlab.faults.gates import ServiceGate, ZoneGate
from hybridlab.runtime.stalls import KubeletStalls
from hybridlab.taps import Seam


@dataclass(frozen=True)
class LabParts:
    """The parts of a running lab."""

    dataplane: Dataplane
    calico: Calico
    client: Client
    zone_gate: ZoneGate
    interference: Interference
    kill_container: Callable[[Obj, str], Awaitable[None]]
    """Kills the main process of a pod's container, as the kernel's OOM killer would."""
    service_gate: ServiceGate | None = None
    """The gate of Services; None: no kube-proxies run."""
    kubelets: KubeletStalls = field(default_factory=KubeletStalls)
    host_answers: Seam[object] = field(default_factory=Seam)
    """A seam through which the answers of Windows hosts pass; its taps also receive the node and
    the question."""

    def nodes(self, given: str) -> list[str]:
        """Return the named node, or all nodes for ``all``. Raise BadFault."""
        return list(self.calico.nodes) if given == "all" else [self.node(given)]

    def node(self, name: str) -> str:
        """Return the node's name. Raise BadFault if there is no such node."""
        if name not in self.calico.nodes:
            raise BadFault(
                f"there is no node {name!r}; the nodes are {', '.join(self.calico.nodes)}"
            )
        return name

    def nodes_of(self, os: OS, given: str) -> list[str]:
        """Return the named node if it has this operating system; for ``all``, return all nodes with
        it. Raise BadFault."""
        return self._having(os) if given == "all" else [self.node_of(os, given)]

    def node_of(self, os: OS, name: str) -> str:
        """Return the name of a node of an operating system. Raise BadFault if there is no such
        node."""
        having = self._having(os)
        if name not in having:
            raise BadFault(
                f"there is no {os.capitalize()} node {name!r}; "
                f"{os.capitalize()} nodes: {', '.join(having) or 'none'}"
            )
        return name

    def _having(self, os: OS) -> list[str]:
        return [node for node, machine in self.calico.nodes.items() if machine.os == os]

    def address(self, node: str) -> str:
        return self.calico.nodes[node].address

    def blocks(self, node: str) -> list[str]:
        return list(self.calico.addresses.networks_of(node))

    async def service(self, given: str) -> Obj:
        """Return the Service ``namespace/name`` with a ClusterIP.  Raise BadFault."""
        namespace, slash, name = given.partition("/")
        if not slash:
            raise BadFault(f"service is {given!r}, expected NAMESPACE/NAME")
        try:
            service = await self.client.get("services", name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            raise BadFault(f"there is no Service {given}") from error
        try:
            ipaddress.IPv4Address(service["spec"].get("clusterIP") or "")
        except ValueError as error:
            raise BadFault(f"Service {given} has no ClusterIP") from error
        return service
