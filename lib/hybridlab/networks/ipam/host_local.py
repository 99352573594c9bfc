# SPDX-License-Identifier: Apache-2.0
"""The CNI project's plugin host-local: each node's pods have addresses of its podCIDR; an
``AddressSource``.

The plugin assigns the addresses of a range in turn. It does not use the API, and ignores requests
for pools. Source: containernetworking/plugins, plugins/ipam/host-local; for the range on Windows,
``UpdateHostLocalIPAMDataForWindows`` of Calico's CNI plugin.
"""

import ipaddress
from collections.abc import Iterable, Mapping

from hybridlab.networks.contract.addresses import ANY, AddressError, Wish
from hybridlab.profiles.machines import Machine, pod_cidr
from hybridlab.profiles.model import Profile
from hybridlab.windows.reserved import reserved_ordinals


class _Range:
    """The addresses of a node."""

    def __init__(self, cidr: str, *, windows: bool) -> None:
        self.cidr = ipaddress.IPv4Network(cidr)
        network, gateway, host_endpoint, broadcast = reserved_ordinals(self.cidr.num_addresses)
        kept = (
            (network, gateway, host_endpoint, broadcast)
            if windows
            else (network, gateway, broadcast)
        )
        first = 1 + max(ordinal for ordinal in kept if ordinal != broadcast)
        self._all = [self.cidr[ordinal] for ordinal in range(first, broadcast)]
        self._next = 0
        self.held: dict[ipaddress.IPv4Address, str] = {}
        """The handle of each assigned address."""

    def __str__(self) -> str:
        return f"{self._all[0]}-{self._all[-1]}"

    def take(self, handle: str, wanted: str) -> str:
        if wanted:
            address = ipaddress.IPv4Address(wanted)
            if address not in self._all:
                raise AddressError(f"failed to allocate all requested IPs: {address}")
            if address in self.held:
                raise AddressError(
                    f"requested IP address {address} is not available in range set {self}"
                )
        else:
            turn = self._all[self._next :] + self._all[: self._next]
            found = next((each for each in turn if each not in self.held), None)
            if found is None:
                raise AddressError(f"no IP addresses available in range set: {self}")
            address = found
        self._next = (self._all.index(address) + 1) % len(self._all)
        self.held[address] = handle
        return str(address)


class HostLocal:
    """The plugin on all nodes of a cluster."""

    def __init__(self, profile: Profile, nodes: Iterable[Machine]) -> None:
        self._ranges: Mapping[str, _Range] = {
            node.name: _Range(pod_cidr(node, profile), windows=node.os == "windows")
            for node in nodes
        }

    def assign(self, node: str, handle: str, secondary: Mapping[str, str], wish: Wish = ANY) -> str:
        return self._ranges[node].take(handle, wish.address)

    def release(self, handle: str) -> tuple[str, ...]:
        freed = []
        for each in self._ranges.values():
            held = [address for address, holder in each.held.items() if holder == handle]
            freed += [str(address) for address in held if each.held.pop(address)]
        return tuple(freed)

    def own_network(self, node: str) -> str:
        return str(self._ranges[node].cidr)

    def networks_of(self, node: str) -> tuple[str, ...]:
        return (self.own_network(node),)

    def network_of(self, address: str) -> str:
        wanted = ipaddress.IPv4Address(address)
        return next(str(each.cidr) for each in self._ranges.values() if wanted in each.cidr)
