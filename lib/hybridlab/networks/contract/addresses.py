# SPDX-License-Identifier: Apache-2.0
"""Sources of pods' addresses, for CNI plugins and planes; the implementations are in
``networks.ipam``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class AddressError(Exception):
    """No address could be given; the message comes from the source of addresses."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The requests of a pod, or of its namespace, to a source of addresses."""

    pools: tuple[str, ...] = ()
    """Names or networks of the pools that may give the pod's address, whatever nodes the pools
    select; empty: any pool."""
    address: str = ""
    """The requested address; empty: any."""


ANY = Wish()


class AddressSource(Protocol):
    """A source of addresses for all nodes of a cluster."""

    def assign(self, node: str, handle: str, secondary: Mapping[str, str], wish: Wish = ANY) -> str:
        """Return one address for a pod or a device on ``node``, stored under ``handle``. Raise
        AddressError."""

    def release(self, handle: str) -> Sequence[str]:
        """Free all addresses of a handle and return them; empty if the handle had none."""

    def own_network(self, node: str) -> str:
        """Return the node's first network of addresses; if the node has no network, assign a
        network now. Raise AddressError."""

    def networks_of(self, node: str) -> Sequence[str]:
        """Return the networks that a node has, in the order in which they were assigned."""

    def network_of(self, address: str) -> str:
        """Return the network that an assigned address belongs to."""
