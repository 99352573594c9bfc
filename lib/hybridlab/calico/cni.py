"""The CNI plugin: gives a pod its address, gateway, MTU and MAC when its sandbox is made, and takes them back.

Matches the ``PodNetwork`` that the kubelets ask for by shape.  The namespace itself is the kubelet's business; until
Felix has programmed an endpoint it is closed (``CLOSED_UNTIL_FELIX``), which :meth:`CNI.plugged` puts in place.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from hybridlab.api.contract import ApiError, Obj
from hybridlab.calico.block import Block
from hybridlab.calico.ipam import IPAM, IPAMError
from hybridlab.calico.ipam_objects import IPAMWriter
from hybridlab.calico.node import Node
from hybridlab.dataplane.model import EndpointProgram, Tier
from hybridlab.profiles.model import Profile
from hybridlab.windows.hns import VXLAN_OVERHEAD, pod_mac, pod_mtu
from hybridlab.windows.reserved import gateway

LINUX_GATEWAY = "169.254.1.1"
NETWORK_NAME = {"linux": "k8s-pod-network", "windows": "Calico"}
"""The CNI network's name, first part of an IPAM handle."""

_CLOSED = (Tier(name="cni", rules=(), end="deny"),)
CLOSED_UNTIL_FELIX = {
    "linux": EndpointProgram(ingress=_CLOSED, egress=_CLOSED),
    "windows": EndpointProgram(ingress=_CLOSED),
}
"""What holds before Felix knows an endpoint: Linux drops an unknown interface's traffic both ways; on Windows the CNI
plugin's own ACL (priority 65500) blocks ingress only."""


class SandboxError(Exception):
    """The sandbox cannot be networked; the message is what the CNI plugin answers."""


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """What a pod's sandbox got."""

    address: str
    gateway: str
    mtu: int
    mac: str
    annotations: Mapping[str, str]
    """Pod annotations that Calico's CNI plugin writes."""
    sandbox_id: str


class CNI:
    """The CNI plugins of all nodes."""

    def __init__(
        self,
        profile: Profile,
        nodes: Mapping[str, Node],
        ipam: IPAM,
        writer: IPAMWriter,
        *,
        error: Callable[[str], Exception] = SandboxError,
    ) -> None:
        self._profile, self._nodes, self._ipam, self._writer = profile, nodes, ipam, writer
        self._error = error
        self._handles: dict[str, str] = {}
        """Pod uid to IPAM handle."""

    async def attach(self, pod: Obj, node: str) -> Attachment:
        """Network the sandbox of ``pod`` on ``node``.  Raises the sandbox error in the plugin's words."""
        machine = self._nodes[node]
        meta = pod["metadata"]
        sandbox_id = secrets.token_hex(32)
        handle = f"{NETWORK_NAME[machine.os]}.{sandbox_id}"
        secondary = {
            "pod": meta["name"],
            "namespace": meta["namespace"],
            "node": node,
            "timestamp": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f} +0000 UTC",
        }
        try:
            address = self._ipam.assign(node, handle, secondary)
        except IPAMError as error:
            raise self._error(f'plugin type="calico" failed (add): {error}') from error
        try:
            await self._writer.saved()
        except (ApiError, asyncio.CancelledError) as error:
            self._ipam.release(handle)
            if isinstance(error, asyncio.CancelledError):
                raise
            raise self._error(f'plugin type="calico" failed (add): {error}') from error
        self._handles[meta["uid"]] = handle
        block = self._ipam.block_at(address)
        assert block is not None  # an assigned address lies in a block
        return self._attachment(machine, block, address, sandbox_id)

    async def detach(self, uid: str) -> None:
        """Take a pod's address back; a pod that has none is left alone."""
        handle = self._handles.pop(uid, None)
        if handle is not None:
            self._ipam.release(handle)
            await self._writer.saved()

    def _attachment(self, machine: Node, block: Block, address: str, sandbox_id: str) -> Attachment:
        network = self._profile.network
        windows = machine.windows
        return Attachment(
            address=address,
            gateway=gateway(str(block.cidr)) if windows else LINUX_GATEWAY,
            mtu=pod_mtu(network.underlay_mtu, network.windows_mtu if windows else None),
            mac=pod_mac(address) if windows else _random_mac(),
            annotations={
                "cni.projectcalico.org/containerID": sandbox_id,
                "cni.projectcalico.org/podIP": f"{address}/32",
                "cni.projectcalico.org/podIPs": f"{address}/32",
            },
            sandbox_id=sandbox_id,
        )


def vxlan_mtu(underlay_mtu: int) -> int:
    """MTU that Calico gives ``vxlan.calico`` and Linux pods by itself, bytes."""
    return underlay_mtu - VXLAN_OVERHEAD


def _random_mac() -> str:
    """A locally administered unicast MAC, as the kernel gives a new veth."""
    first, *rest = secrets.token_bytes(6)
    return ":".join(f"{byte:02x}" for byte in ((first & 0xFC) | 0x02, *rest))


def in_pool(address: str, cidr: str) -> bool:
    """Whether an address lies in a network."""
    return ipaddress.IPv4Address(address) in ipaddress.IPv4Network(cidr)
