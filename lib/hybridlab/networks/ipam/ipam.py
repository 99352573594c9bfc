# SPDX-License-Identifier: Apache-2.0
"""Calico IPAM: which block a node has, and which address a pod gets; an ``AddressSource``.

It decides as libcalico does, and refuses with libcalico's messages. The module is synchronous and
uses no API; ``ipam_objects`` writes the corresponding API objects. IPv6 and IP reservations are not
emulated.
"""

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hybridlab.networks.contract.addresses import ANY, AddressError, Wish
from hybridlab.networks.ipam.block import Attribute, Block
from hybridlab.profiles.machines import Machine
from hybridlab.windows.reserved import SMALLEST_BLOCK


class IPAMError(AddressError):
    """No address could be given; the message is libcalico's."""


BLOCK_LIMIT = "cannot allocate new block due to per host block limit"
NO_POOL = "cannot find a qualified ippool"
STRICT_AFFINITY = "global strict affinity should not be false for Windows node"
EXHAUSTED = (
    "failed to request IPv4 addresses: Assigned 0 out of 1 requested IPv4 addresses; "
    "No more free affine blocks and strict affinity enabled"
)
EXHAUSTED_EVEN_BORROWING = (
    "failed to request IPv4 addresses: Assigned 0 out of 1 requested IPv4 addresses"
)


@dataclass(frozen=True, kw_only=True)
class Pool:
    """An IP pool from which addresses are taken."""

    name: str
    cidr: str
    block_size: int = 26
    disabled: bool = False
    selects: Callable[[Mapping[str, str]], bool] = lambda labels: True
    """The pool's nodeSelector, as a function that tests a node's labels."""


class IPAM:
    """All blocks of a cluster."""

    def __init__(
        self,
        nodes: Iterable[Machine],
        pools: Iterable[Pool],
        *,
        strict_affinity: bool,
        max_blocks_per_host: int = 0,
    ) -> None:
        self._nodes = {node.name: node for node in nodes}
        self.pools = tuple(pools)
        self.strict_affinity = strict_affinity
        self.max_blocks_per_host = max_blocks_per_host
        """The maximum number of blocks of a node; 0: no limit (Linux)."""
        self.windows_blocks = 1
        """The number of blocks of a Windows node; tests increase it to create an error."""
        self.node_labels: dict[str, Mapping[str, str]] = {}
        self._blocks: dict[ipaddress.IPv4Network, Block] = {}
        self._by_handle: dict[str, list[tuple[Block, str]]] = {}
        self.dirty_blocks: dict[ipaddress.IPv4Network, None] = {}
        """Blocks whose object is outdated; the writer of the objects removes them."""
        self.dirty_handles: dict[str, None] = {}

    def blocks(self) -> tuple[Block, ...]:
        """Return all blocks, in the order in which they were claimed."""
        return tuple(self._blocks.values())

    def block(self, cidr: ipaddress.IPv4Network) -> Block:
        return self._blocks[cidr]

    def blocks_of(self, node: str) -> tuple[Block, ...]:
        """Return a node's own blocks, the first claimed first."""
        return tuple(block for block in self._blocks.values() if block.node == node)

    def own_network(self, node: str) -> str:
        return str(self.ensure_block(node).cidr)

    def networks_of(self, node: str) -> tuple[str, ...]:
        return tuple(str(block.cidr) for block in self.blocks_of(node))

    def network_of(self, address: str) -> str:
        wanted = ipaddress.IPv4Address(address)
        return next(str(cidr) for cidr in self._blocks if wanted in cidr)

    def of_handle(self, handle: str) -> tuple[tuple[Block, str], ...]:
        """Return (block, address) of all addresses of a handle."""
        return tuple(self._by_handle.get(handle, ()))

    def ensure_block(self, node: str) -> Block:
        """Return the node's first block; claim it if there is none, as a Windows node does before
        its first pod.
        """
        own = self.blocks_of(node)
        if own:
            return own[0]
        machine = self._nodes[node]
        if machine.os == "windows" and not self.strict_affinity:
            raise IPAMError(STRICT_AFFINITY)
        claimed = self._claim(machine, self._qualified(machine))
        if claimed is None:
            raise IPAMError(EXHAUSTED)
        return claimed

    def assign(self, node: str, handle: str, secondary: Mapping[str, str], wish: Wish = ANY) -> str:
        """Assign an address for a handle on ``node``. Raise IPAMError.

        A node's blocks are counted only within the pools that may give this address
        (``prepareAffinityBlocksForHost``). A Windows node therefore gets a second block for a pod
        that requests another pool, or once its own pool is disabled.
        """
        machine = self._nodes[node]
        if machine.os == "windows" and not self.strict_affinity:
            raise IPAMError(STRICT_AFFINITY)
        attribute = Attribute(handle, secondary)
        if wish.address:
            return self._assign_that(machine, wish.address, attribute)
        pools = self._asked(machine, wish.pools) if wish.pools else self._qualified(machine)
        for block in self._usable(machine, pools):
            address = block.assign(attribute)
            if address:
                return self._record(block, address, handle)
        limit = self.windows_blocks if machine.os == "windows" else self.max_blocks_per_host
        if limit and sum(1 for _ in self._usable(machine, pools)) >= limit:
            raise IPAMError(BLOCK_LIMIT)
        claimed = self._claim(machine, pools)
        if claimed is None:
            if self.strict_affinity:
                raise IPAMError(EXHAUSTED)
            return self._borrow(pools, attribute)
        address = claimed.assign(attribute)
        if address is None:
            raise IPAMError(EXHAUSTED_EVEN_BORROWING)
        return self._record(claimed, address, handle)

    def release(self, handle: str) -> tuple[str, ...]:
        held = self._by_handle.pop(handle, [])
        for block, address in held:
            block.release(address)
            self.dirty_blocks[block.cidr] = None
            self.dirty_handles[handle] = None
        return tuple(address for _, address in held)

    def unreserve(self, node: str) -> None:
        """Inject a fault: the node's blocks no longer reserve the Windows addresses."""
        for block in self.blocks_of(node):
            block.unreserve()
            self.dirty_blocks[block.cidr] = None

    def reserve(self, node: str) -> tuple[str, ...]:
        """Reserve the Windows addresses again; return those that pods still have, which are
        reserved once the pods are gone."""
        held: tuple[str, ...] = ()
        for block in self.blocks_of(node):
            held += block.reserve()
            self.dirty_blocks[block.cidr] = None
        return held

    def _qualified(self, machine: Machine) -> tuple[Pool, ...]:
        labels = self.node_labels.get(machine.name, {})
        pools = tuple(
            pool
            for pool in self.pools
            if not pool.disabled
            and pool.selects(labels)
            and not (machine.os == "windows" and pool.block_size > SMALLEST_BLOCK)
        )
        if not pools:
            raise IPAMError(NO_POOL)
        return pools

    def _asked(self, machine: Machine, wanted: Iterable[str]) -> tuple[Pool, ...]:
        """Return the pools that a pod requested. Raise IPAMError if a pool is missing."""
        found = []
        for name in wanted:
            cidr = next((pool.cidr for pool in self.pools if pool.name == name), name)
            if "/" not in cidr:
                raise IPAMError(f'error parsing pool "{name}": invalid CIDR address: {name}')
            pool = next(
                (pool for pool in self.pools if pool.cidr == cidr and not pool.disabled), None
            )
            if pool is None:
                raise IPAMError(f"the given pool ({cidr}) does not exist, or is not enabled")
            if not (machine.os == "windows" and pool.block_size > SMALLEST_BLOCK):
                found.append(pool)
        if not found:
            raise IPAMError(NO_POOL)
        return tuple(found)

    def _assign_that(self, machine: Machine, address: str, attribute: Attribute) -> str:
        """Return an address that a pod requested; the node claims the address's block if no node
        has the block, however many blocks the node has.
        """
        wanted = ipaddress.IPv4Address(address)
        pools = [
            pool
            for pool in self.pools
            if not pool.disabled and wanted in ipaddress.IPv4Network(pool.cidr)
        ]
        if not pools:
            raise IPAMError(f"the provided IP address {address} is not in a configured pool")
        cidr = ipaddress.IPv4Network((address, pools[0].block_size), strict=False)
        block = self._blocks.get(cidr) or self._add(cidr, machine)
        if block.node != machine.name and self.strict_affinity:
            raise IPAMError(
                f"Block affinity (host:{block.node}) does not match provided ({machine.name}:host)"
            )
        if not block.assign_that(address, attribute):
            raise IPAMError("address already assigned in block")
        return self._record(block, address, attribute.handle)

    def _usable(self, machine: Machine, pools: tuple[Pool, ...]) -> Iterator[Block]:
        networks = [ipaddress.IPv4Network(pool.cidr) for pool in pools]
        yield from (
            block
            for block in self.blocks_of(machine.name)
            if any(block.cidr.subnet_of(network) for network in networks)
        )

    def _claim(self, machine: Machine, pools: tuple[Pool, ...]) -> Block | None:
        """Claim and return the first block of the pools that no node has."""
        for pool in pools:
            for cidr in ipaddress.IPv4Network(pool.cidr).subnets(new_prefix=pool.block_size):
                if not any(cidr.overlaps(taken) for taken in self._near(cidr, pool)):
                    return self._add(cidr, machine)
        return None

    def _add(self, cidr: ipaddress.IPv4Network, machine: Machine) -> Block:
        block = self._blocks[cidr] = Block(cidr, machine.name, windows=machine.os == "windows")
        self.dirty_blocks[cidr] = None
        return block

    def _near(self, cidr: ipaddress.IPv4Network, pool: Pool) -> Iterable[ipaddress.IPv4Network]:
        """Return the claimed blocks that might overlap with ``cidr``: only the block ``cidr``
        itself, or all blocks if pools have different block sizes."""
        if all(other.block_size == pool.block_size for other in self.pools):
            return (cidr,) if cidr in self._blocks else ()
        return tuple(self._blocks)

    def _borrow(self, pools: tuple[Pool, ...], attribute: Attribute) -> str:
        networks = [ipaddress.IPv4Network(pool.cidr) for pool in pools]
        for block in self._blocks.values():
            if any(block.cidr.subnet_of(network) for network in networks):
                address = block.assign(attribute)
                if address:
                    return self._record(block, address, attribute.handle)
        raise IPAMError(EXHAUSTED_EVEN_BORROWING)

    def _record(self, block: Block, address: str, handle: str) -> str:
        self._by_handle.setdefault(handle, []).append((block, address))
        self.dirty_blocks[block.cidr] = None
        self.dirty_handles[handle] = None
        return address
