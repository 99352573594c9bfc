"""What HNS gives endpoints and nodes on an overlay network: MAC addresses and the MTU."""

from __future__ import annotations

import hashlib
import ipaddress

POD_MAC_PREFIX = "0e:2a"
"""Calico's Windows CNI default; ``windowsNodes.vxlanMACPrefix`` changes it."""
HYPERV_OUI = "00:15:5d"
VXLAN_OVERHEAD = 50


def pod_mac(address: str, prefix: str = POD_MAC_PREFIX) -> str:
    """MAC of a pod on an overlay network: the prefix and the address' four bytes."""
    octets = ":".join(f"{byte:02x}" for byte in ipaddress.IPv4Address(address).packed)
    return f"{prefix}:{octets}"


def vtep_mac(node: str) -> str:
    """The node's distributed router MAC, published as ``projectcalico.org/VXLANTunnelMACAddr``; stable by name."""
    tail = hashlib.sha256(node.encode()).digest()[:3]
    return f"{HYPERV_OUI}:" + ":".join(f"{byte:02x}" for byte in tail)


def pod_mtu(underlay_mtu: int, override: int | None = None) -> int:
    """MTU inside a pod, bytes: the profile's, else underlay - 50 (deduced: Calico's Windows CNI sets no MTU)."""
    return override if override is not None else underlay_mtu - VXLAN_OVERHEAD
