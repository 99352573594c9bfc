"""The data plane as the cluster calls it: :class:`hybridlab.dataplane.contract.Dataplane` over the channel to labd."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from hybridlab.dataplane.contract import DataplaneError
from hybridlab.dataplane.model import NodeRoutes, NodeSpec, PodSpec, PolicyUpdate, ServiceTable, VxlanSpec, Zone
from hybridlab.kernel.wire import CallFailed, Channel


class RemoteDataplane:
    """Every call is one message; calls that do not wait for each other are best gathered."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def add_node(self, spec: NodeSpec) -> None:
        """A namespace with ``eth0`` on the underlay and, when the spec says so, its VXLAN device."""
        await self._call("add_node", spec=spec)

    async def add_outside(self, address: str, mtu: int) -> None:
        """A host beyond the cluster that answers ping and HTTP."""
        await self._call("add_outside", address=address, mtu=mtu)

    async def set_vxlan(self, node: str, spec: VxlanSpec | None) -> None:
        """Delete and create anew; routes must be set again."""
        await self._call("set_vxlan", node=node, spec=spec)

    async def set_routes(self, node: str, routes: NodeRoutes) -> None:
        """Replace the node's pod routing."""
        await self._call("set_routes", node=node, routes=routes)

    async def add_pod(self, spec: PodSpec) -> None:
        """Make and wire the pod's namespace."""
        await self._call("add_pod", spec=spec)

    async def remove_pod(self, pod_id: str) -> None:
        """Address re-usable at once on return."""
        await self._call("remove_pod", pod_id=pod_id)

    async def cut_off_pod(self, pod_id: str) -> None:
        """Delete the pod's interface."""
        await self._call("cut_off_pod", pod_id=pod_id)

    async def set_services(self, node: str, table: ServiceTable) -> None:
        """Replace the node's services."""
        await self._call("set_services", node=node, table=table)

    async def update_policy(self, node: str, update: PolicyUpdate) -> None:
        """One atomic change."""
        await self._call("update_policy", node=node, update=update)

    async def set_zone(self, zone: Zone) -> None:
        """Replace what the cluster's DNS answers."""
        await self._call("set_zone", zone=zone)

    async def set_fault_rules(self, scope: str, name: str, rules: Sequence[tuple[str, str]]) -> None:
        """Chains: ``dataplane.injection.NODE_CHAINS`` and ``FABRIC_CHAINS``."""
        await self._call("set_fault_rules", scope=scope, name=name, rules=rules)

    async def clear_fault_rules(self, scope: str, name: str) -> None:
        """Nothing when there are none."""
        await self._call("clear_fault_rules", scope=scope, name=name)

    async def fault_rules(self, scope: str) -> dict[str, list[str]]:
        """Fault name to ``chain: rule`` as the kernel has them now."""
        rules: dict[str, list[str]] = await self._call("fault_rules", scope=scope)
        return rules

    async def add_address(self, pod_id: str, address: str) -> None:
        """One more address for a pod."""
        await self._call("add_address", pod_id=pod_id, address=address)

    async def remove_address(self, pod_id: str, address: str) -> None:
        """Take an added address away."""
        await self._call("remove_address", pod_id=pod_id, address=address)

    async def facts(self, node: str) -> dict[str, object]:
        """Links, addresses, routes, neighbours, fdb, connections and ruleset; of ``fabric`` the ruleset only."""
        facts: dict[str, object] = await self._call("facts", node=node)
        return facts

    async def socket(
        self,
        sandbox: str,
        family: int = socket.AF_INET,
        kind: int = socket.SOCK_STREAM,
        proto: int = 0,
    ) -> socket.socket:
        """A non-blocking socket born in a sandbox: with it this process acts as the pod.

        ``sandbox``: a pod's id, ``node:NAME`` or ``fabric``.
        """
        params = {"sandbox": sandbox, "family": family, "kind": kind, "proto": proto}
        try:
            _, fds = await self._channel.call_fds("sandbox.socket", params)
        except CallFailed as error:
            raise DataplaneError(str(error)) from error
        return socket.socket(fileno=fds[0])

    async def _call(self, method: str, **params: object) -> Any:
        try:
            return await self._channel.call(f"dataplane.{method}", params)
        except CallFailed as error:
            raise DataplaneError(str(error)) from error
