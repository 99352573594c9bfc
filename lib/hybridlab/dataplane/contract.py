"""The data plane as the cluster's components see it: asynchronous calls that labd carries out in the kernel.

``dataplane.remote`` implements it over the socket; tests may use a recording stand-in.  Every call raises
:class:`DataplaneError` with labd's own words when the kernel refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hybridlab.dataplane.model import NodeRoutes, NodeSpec, PodSpec, PolicyUpdate, ServiceTable, VxlanSpec, Zone


class DataplaneError(Exception):
    """The kernel, or labd, refused; the message names the object and the kernel's reason."""


class Dataplane(Protocol):
    """Nodes, pods, routes, services, policy and DNS of one lab."""

    async def add_node(self, spec: NodeSpec) -> None: ...

    async def add_outside(self, address: str, mtu: int) -> None:
        """A host beyond the cluster, known to the nodes that are there; ``outside`` is its sandbox."""
        ...

    async def set_vxlan(self, node: str, spec: VxlanSpec | None) -> None:
        """Delete and create anew ``vxlan.calico`` (the kernel cannot change a VNI); routes must be set again."""
        ...

    async def set_routes(self, node: str, routes: NodeRoutes) -> None: ...

    async def add_pod(self, spec: PodSpec) -> None: ...

    async def remove_pod(self, pod_id: str) -> None:
        """Address re-usable at once on return; the kernel may finish later."""
        ...

    async def cut_off_pod(self, pod_id: str) -> None:
        """Delete a pod's interface; its sandbox stays, without network, until ``remove_pod``.  No such pod: nothing."""
        ...

    async def set_services(self, node: str, table: ServiceTable) -> None: ...

    async def update_policy(self, node: str, update: PolicyUpdate) -> None:
        """One atomic nft transaction (on Windows nodes: whole endpoint lists replaced)."""
        ...

    async def set_zone(self, zone: Zone) -> None: ...

    async def set_fault_rules(self, scope: str, name: str, rules: Sequence[tuple[str, str]]) -> None:
        """Inject: ``scope`` is a node's name or ``fabric``; rules are (chain, nft rule text); same name replaces."""
        ...

    async def clear_fault_rules(self, scope: str, name: str) -> None: ...

    async def fault_rules(self, scope: str) -> dict[str, list[str]]:
        """What is really in the kernel now, by fault name: how an injection or a healing is verified."""
        ...

    async def add_address(self, pod_id: str, address: str) -> None:
        """Give a pod one more address and its node a route to it (fault: reserved addresses not reserved)."""
        ...

    async def remove_address(self, pod_id: str, address: str) -> None: ...

    async def facts(self, node: str) -> dict[str, object]:
        """The node's true state for host commands and tests: links, addresses, routes, fdb, neighbours, nft ruleset."""
        ...
