# SPDX-License-Identifier: Apache-2.0
"""Sources of pods' addresses, as CNI plugins and planes use them; implementations:
``networks.ipam``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class AddressError(Exception):
    """No address could be given; the message is the source's own."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The wishes of a pod, or of its namespace, to a source of addresses."""

    pools: tuple[str, ...] = ()
    """Names or networks of the pools that its address may be from, whatever nodes they select;
    none: no matter."""
    address: str = ""
    """The very address; empty: any."""


ANY = Wish()


class AddressSource(Protocol):
    """A source of addresses for all nodes of a cluster."""

    def assign(self, node: str, handle: str, secondary: Mapping[str, str], wish: Wish = ANY) -> str:
        """Return one address for something on ``node``, held under ``handle``.  Raise
        AddressError."""

    def release(self, handle: str) -> Sequence[str]:
        """Free everything that a handle holds and return the addresses; none where nothing was
        held."""

    def own_network(self, node: str) -> str:
        """Return the node's first network of addresses, taken now where it has none.  Raise
        AddressError."""

    def networks_of(self, node: str) -> Sequence[str]:
        """Return the networks that a node has, the first taken first."""

    def network_of(self, address: str) -> str:
        """Return the network that an assigned address belongs to."""
