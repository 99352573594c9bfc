# SPDX-License-Identifier: Apache-2.0
"""Packets that were captured on a node."""

from dataclasses import dataclass

OUTGOING = 4
"""The value of ``way`` for a packet that the node sent (linux/if_packet.h); every other packet was
received."""


@dataclass(frozen=True, kw_only=True)
class Packet:
    """An IPv4 packet, from its IP header on; long packets are cut."""

    at: float
    """Unix seconds, by the node's clock."""
    interface: str
    way: int
    """The kernel's number for the packet's direction (linux/if_packet.h)."""
    hardware: int
    """The kernel's number for the interface's kind (linux/if_arp.h)."""
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Capture:
    """The captured packets of a node."""

    node: str
    packets: tuple[Packet, ...]
    dropped: int
    """The number of packets of all kinds that the kernel could not deliver."""
    full: bool
    """The capture reached its maximum number of packets, so there may have been more."""
