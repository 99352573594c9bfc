# SPDX-License-Identifier: Apache-2.0
"""The four addresses of an IPAM block that a Windows node keeps for itself, and the purpose of
each.

Source: Calico's startup_windows.go and Windows CNI plugin. Ordinals count from the block's first
address.
"""

import ipaddress

RESERVED_HANDLE = "windows-reserved-ipam-handle"
"""IPAM handle of the reserved addresses; no IPAMHandle object exists for it."""
RESERVED_NOTE = "windows host rsvd"

NETWORK = 0
GATEWAY = 1
HOST_ENDPOINT = 2
"""NETWORK, GATEWAY and HOST_ENDPOINT are ordinals: of the network address; of the gateway, which is
the tunnel address on an overlay; and of the host endpoint, which is kube-proxy's
``--source-vip``."""

SMALLEST_BLOCK = 29
"""The longest block prefix that a Windows node can use: a /30 would leave no address for a pod."""


def reserved_ordinals(size: int) -> tuple[int, int, int, int]:
    """Return the ordinals that no pod gets in a block of ``size`` addresses; the last ordinal is
    the broadcast address."""
    return NETWORK, GATEWAY, HOST_ENDPOINT, size - 1


def reserved_addresses(block: str) -> tuple[str, str, str, str]:
    """Return the reserved addresses of a block: network, gateway, host endpoint, broadcast."""
    network = ipaddress.IPv4Network(block)
    one, two, three, four = (
        str(network[ordinal]) for ordinal in reserved_ordinals(network.num_addresses)
    )
    return one, two, three, four


def gateway(block: str) -> str:
    """Return the address of the network's own gateway. On an overlay it is the node's tunnel
    address, and the next hop of pods."""
    return reserved_addresses(block)[GATEWAY]


def source_vip(block: str) -> str:
    """Return the host endpoint's address; on an overlay kube-proxy gets it as ``--source-vip``."""
    return reserved_addresses(block)[HOST_ENDPOINT]
