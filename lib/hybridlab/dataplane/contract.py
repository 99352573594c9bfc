# SPDX-License-Identifier: Apache-2.0
"""The data plane as the cluster's components see it: asynchronous calls that labd carries out in the kernel.

``dataplane.service`` implements it in labd; ``kernel.rpc`` carries the calls there.  Every call raises
:class:`DataplaneError` with labd's own words when the kernel refuses.
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
    """The kernel, or labd, refused; the message names the call, the object and the kernel's reason."""


class Dataplane(Protocol):
    """Nodes, pods, routes, services, policy and DNS of one lab."""

    async def add_node(self, spec: NodeSpec) -> None:
        """A namespace with ``eth0`` on the underlay and, when the spec says so, its tunnel."""

    async def add_outside(self, address: str, mtu: int) -> None:
        """A host beyond the cluster, known to the nodes that are there; ``outside`` is its sandbox."""

    async def set_tunnel(self, node: str, spec: Tunnel | None) -> None:
        """Delete the tunnel and make this one (the kernel cannot change an identifier); routes must be set again."""

    async def set_routes(self, node: str, routes: NodeRoutes) -> None:
        """Replace the node's pod routing.  What cannot be laid is refused by name, and the rest is in place."""

    async def set_fabric(self, table: FabricTable) -> None:
        """Replace what the underlay routes to which node, and whose packets it takes only from whom they belong to."""

    async def add_pod(self, spec: PodSpec) -> None:
        """Make and wire the pod's namespace."""

    async def remove_pod(self, pod_id: str) -> None:
        """Address re-usable at once on return; the kernel may finish later."""

    async def cut_off_pod(self, pod_id: str) -> None:
        """Delete a pod's interface; its sandbox stays, without network, until ``remove_pod``.  No such pod: nothing."""

    async def set_services(self, node: str, table: ServiceTable) -> None:
        """Replace the node's services."""

    async def update_policy(self, node: str, update: PolicyUpdate) -> None:
        """One atomic nft transaction (on Windows nodes: whole endpoint lists replaced)."""

    async def set_zone(self, zone: Zone) -> None:
        """Replace what the cluster's DNS answers."""

    async def set_fault_rules(
        self, scope: str, name: str, rules: Sequence[tuple[str, str]]
    ) -> None:
        """Inject: ``scope`` is a node's name or ``fabric``; rules are (chain, nft rule text); same name replaces.

        Chains: ``dataplane.injection.NODE_CHAINS`` and ``FABRIC_CHAINS``.
        """

    async def clear_fault_rules(self, scope: str, name: str) -> None:
        """Nothing when there are none."""

    async def set_latency(self, node: str, seconds: float) -> None:
        """What a node sends to and hears from the underlay takes so long, each way; 0: as fast as the machine."""

    async def latency(self, node: str) -> float:
        """Seconds as set now."""

    async def fault_rules(self, scope: str) -> dict[str, list[str]]:
        """What is really in the kernel now, by fault name: how an injection or a healing is verified."""

    async def add_address(self, pod_id: str, address: str) -> None:
        """Give a pod one more address and its node a route to it (fault: reserved addresses not reserved)."""

    async def remove_address(self, pod_id: str, address: str) -> None:
        """Take an added address away."""

    async def facts(self, node: str) -> dict[str, object]:
        """The node's true state for host commands and tests: links, addresses, routes, fdb, neighbours, connections and
        nft ruleset; of ``fabric`` the ruleset only."""


def remote_dataplane(channel: Caller) -> Dataplane:
    """The data plane at the other end of a channel; calls that do not wait for each other are best gathered."""
    return client(Dataplane, channel, DataplaneError)
