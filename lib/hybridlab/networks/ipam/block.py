# SPDX-License-Identifier: Apache-2.0
"""An IPAM block: which of its addresses are free, and the purpose of each used address.

A block only keeps records, in Calico's own terms (ordinals, attributes, a FIFO of free ordinals).
``ipam`` decides from which block a node may take addresses.
"""

import ipaddress
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hybridlab.windows.reserved import RESERVED_HANDLE, RESERVED_NOTE, reserved_ordinals


@dataclass(frozen=True)
class Attribute:
    """The purpose of an allocation."""

    handle: str
    secondary: Mapping[str, str] = field(default_factory=dict)


RESERVED = Attribute(RESERVED_HANDLE, {"note": RESERVED_NOTE})


class Block:
    """An IPAM block affine to one node."""

    def __init__(self, cidr: ipaddress.IPv4Network, node: str, *, windows: bool) -> None:
        self.cidr = cidr
        self.node = node
        self.windows = windows
        self.size = cidr.num_addresses
        self.sequence = 0
        """A number that increases with every change, like the object's ``sequenceNumber``."""
        self.sequence_of: dict[int, int] = {}
        self.reserves = windows
        """True: the Windows ordinals are reserved again when they are released."""
        self._used: dict[int, Attribute] = {}
        self._free: deque[int] = deque(range(self.size))
        if windows:
            self.reserve()

    @property
    def free(self) -> tuple[int, ...]:
        """Return the free ordinals; the ordinal that is used next comes first."""
        return tuple(self._free)

    @property
    def used(self) -> Mapping[int, Attribute]:
        """Return the purpose of each used ordinal, including reservations."""
        return self._used

    def address(self, ordinal: int) -> str:
        """Return an ordinal's address as a dotted quad."""
        return str(self.cidr[ordinal])

    def ordinal(self, address: str) -> int:
        return int(ipaddress.IPv4Address(address)) - int(self.cidr.network_address)

    def assign(self, attribute: Attribute) -> str | None:
        """Assign and return the address that has been free for longest. Return None if the block is
        full."""
        if not self._free:
            return None
        ordinal = self._free.popleft()
        self._take(ordinal, attribute)
        return self.address(ordinal)

    def assign_that(self, address: str, attribute: Attribute) -> bool:
        """Assign this address; return False if it is not free. Addresses that Windows reserves are
        never free."""
        ordinal = self.ordinal(address)
        if ordinal not in self._free:
            return False
        self._free.remove(ordinal)
        self._take(ordinal, attribute)
        return True

    def release(self, address: str) -> None:
        """Free an address; a Windows ordinal goes back to its reservation."""
        ordinal = self.ordinal(address)
        self.sequence += 1
        del self._used[ordinal]
        del self.sequence_of[ordinal]
        if self.reserves and ordinal in reserved_ordinals(self.size):
            self._take(ordinal, RESERVED)
        else:
            self._free.append(ordinal)

    def reserve(self) -> tuple[str, ...]:
        """Reserve the Windows ordinals from now on; return the addresses that pods still hold."""
        self.reserves = True
        held = []
        for ordinal in reserved_ordinals(self.size):
            if ordinal in self._free:
                self._free.remove(ordinal)
                self._take(ordinal, RESERVED)
            elif self._used[ordinal] is not RESERVED:
                held.append(self.address(ordinal))
        return tuple(held)

    def unreserve(self) -> None:
        """End the Windows reservation: the next pod gets the host endpoint's ordinal.

        The other ordinals go to the end of the free list. A pod with the gateway's address would
        merely have no network.
        """
        self.reserves = False
        self.sequence += 1
        network, gateway, host_endpoint, broadcast = reserved_ordinals(self.size)
        for ordinal in (broadcast, network, gateway, host_endpoint):
            if self._used.get(ordinal) is RESERVED:
                del self._used[ordinal]
                del self.sequence_of[ordinal]
                if ordinal == host_endpoint:
                    self._free.appendleft(ordinal)
                else:
                    self._free.append(ordinal)

    def foreign(self) -> Iterator[tuple[str, str]]:
        """Yield (address, node) of every allocation that a node other than the block's own has
        borrowed."""
        for ordinal, attribute in self._used.items():
            node = attribute.secondary.get("node", self.node)
            if node != self.node:
                yield self.address(ordinal), node

    def _take(self, ordinal: int, attribute: Attribute) -> None:
        self.sequence += 1
        self.sequence_of[ordinal] = self.sequence
        self._used[ordinal] = attribute
