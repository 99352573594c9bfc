# SPDX-License-Identifier: Apache-2.0
"""The interface of the data plane for the cluster's components: asynchronous calls that labd
carries out in the kernel.

``dataplane.service`` implements it in labd; ``kernel.rpc`` carries the calls there. Every call
raises :class:`DataplaneError` with labd's own words if the kernel refuses.
"""

from collections.abc import Sequence
from typing import Protocol

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
from hybridlab.kernel.rpc import Caller, client


class DataplaneError(Exception):
    """The kernel, or labd, refused; the message names the call, the object and the kernel's
    reason."""


class Dataplane(Protocol):
    """Nodes, pods, routes, services, policy and DNS of a lab."""

    async def add_node(self, spec: NodeSpec) -> None:
        """Create a namespace with ``eth0`` on the network between the nodes and, if the spec has
        one, its tunnel."""

    async def add_outside(self, address: str, mtu: int) -> None:
        """Create a host outside the cluster that existing nodes can reach; the id of its sandbox is
        ``outside``."""

    async def set_tunnel(self, node: str, spec: Tunnel | None) -> None:
        """Replace the node's tunnel (the kernel cannot change an identifier). The caller must set
        the routes again."""

    async def set_routes(self, node: str, routes: NodeRoutes) -> None:
        """Replace the node's pod routing. Routes that cannot be set are refused by name; all others
        are set."""

    async def set_fabric(self, table: FabricTable) -> None:
        """Replace the underlay's routes to nodes, and the list of nodes that may only send with
        their own address."""

    async def add_pod(self, spec: PodSpec) -> None:
        """Create the pod's namespace and connect it."""

    async def remove_pod(self, pod_id: str) -> None:
        """Remove a pod. Its address can be used again on return; the kernel may finish later."""

    async def cut_off_pod(self, pod_id: str) -> None:
        """Delete a pod's interface; its sandbox stays, without network, until ``remove_pod``. Do
        nothing if there is no such pod."""

    async def set_services(self, node: str, table: ServiceTable) -> None:
        """Replace the node's services."""

    async def update_policy(self, node: str, update: PolicyUpdate) -> None:
        """Program an update in an atomic nft transaction (on Windows nodes: whole endpoint lists
        are replaced)."""

    async def set_zone(self, zone: Zone) -> None:
        """Replace the records of the cluster's DNS."""

    async def set_fault_rules(
        self, scope: str, name: str, rules: Sequence[tuple[str, str]]
    ) -> None:
        """Inject rules. ``scope`` is a node's name or ``fabric``; rules are (chain, nft rule text);
        a fault's earlier rules are replaced.

        Chains: ``dataplane.injection.NODE_CHAINS`` and ``FABRIC_CHAINS``.
        """

    async def clear_fault_rules(self, scope: str, name: str) -> None:
        """Remove the fault's rules, if there are any."""

    async def set_latency(self, node: str, seconds: float) -> None:
        """Delay a node's packets to and from the underlay by ``seconds``, each way; 0: no delay."""

    async def latency(self, node: str) -> float:
        """Return the delay that :meth:`set_latency` has set, in seconds."""

    async def fault_rules(self, scope: str) -> dict[str, list[str]]:
        """Return the rules that are in the kernel now, by fault name. This verifies an injection or
        its removal."""

    async def add_address(self, pod_id: str, address: str) -> None:
        """Give a pod one more address and its node a route to it (fault: reserved addresses not
        reserved)."""

    async def remove_address(self, pod_id: str, address: str) -> None:
        """Remove an added address."""

    async def facts(self, node: str) -> dict[str, object]:
        """Return the node's true state for host commands and tests: links, addresses, routes, fdb,
        neighbours, connections and nft ruleset; for ``fabric``, only the ruleset."""


def remote_dataplane(channel: Caller) -> Dataplane:
    """Return the data plane at the other end of a channel; run independent calls with
    ``asyncio.gather``.
    """
    return client(Dataplane, channel, DataplaneError)
