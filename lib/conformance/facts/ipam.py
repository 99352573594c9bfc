# SPDX-License-Identifier: Apache-2.0
"""Facts about Windows nodes, by name, from the objects of IPAM and the addresses of pods. The
module judges nothing."""

import ipaddress
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from conformance.catalog import Conditions
from conformance.errors import MissingCapability
from conformance.facts.objects import CalicoObjects, confirmed
from conformance.kube.client import Obj
from conformance.kube.fields import value_at
from conformance.model.counted import counted
from conformance.model.facts import Fact, NodeFacts

RESERVED = "windows-reserved-ipam-handle"
"""The handle under which Calico IPAM reserves addresses of a Windows node's block
(libcalico-go/lib/ipam)."""
RESERVATION = ["first", "second", "third", "last"]
NOT_RESERVED = "not reserved"
OWN_BLOCK = "in a block of its node"
IN_A_BLOCK = "in a block"
FITS = "no more than its blocks have addresses for"
Network = ipaddress.IPv4Network


class OwnBlock(NamedTuple):
    """The block of a Windows node."""

    cidr: str
    capacity: int
    """The number of addresses in the block that pods can get."""
    free: int
    """The number of these addresses that are free."""

    def has(self, address: str) -> bool:
        return ipaddress.ip_address(address) in ipaddress.ip_network(self.cidr)


@dataclass(frozen=True)
class IpamFacts:
    """Reads the IPAM facts for one worker; lists are read anew each time, since pods and blocks
    change."""

    ABOUT = Conditions(ipam=("calico-ipam",))
    """The only IPAM plugin with blocks; with another plugin, an empty result would be no evidence.
    """

    calico: CalicoObjects

    @property
    def windows(self) -> tuple[NodeFacts, ...]:
        return self.calico.facts.by_os("windows")

    @property
    def windows_with_pods(self) -> tuple[NodeFacts, ...]:
        """Return the Windows nodes on which a pod has an address. The run itself has pods only on
        nodes that it covers."""
        return tuple(node for node in self.windows if any(self.calico.pods(node.name)))

    def blocks(self, node: str) -> dict[str, Fact[str]]:
        """Return the fact about the number of a node's blocks. Its value is ``one block``, ``no
        block``, or the blocks and their faults.

        Confirmed affinities count. Each affinity needs an IPAMBlock that belongs to the node, and
        no other node may have the same block.
        """
        claimed, source = self._claimed(node)
        others = {
            affinity["spec"]["cidr"]: f"which node {affinity['spec']['node']} also has"
            for affinity in self.calico.listed("BlockAffinity")[0]
            if confirmed(affinity["spec"]) and affinity["spec"]["node"] != node
        }
        claimed = {cidr: wrong or others.get(cidr, "") for cidr, wrong in claimed.items()}
        reported = [f"{cidr}{', ' if wrong else ''}{wrong}" for cidr, wrong in claimed.items()]
        words = (
            f"{counted(len(claimed), 'block')}: {'; '.join(reported)}" if claimed else "no block"
        )
        words = "one block" if list(claimed.values()) == [""] else words
        return {f"blocks of node {node}": Fact(words, f"{source}: {'; '.join(reported) or 'none'}")}

    def first_block(self, node: str) -> dict[str, Fact[str]]:
        """Return the fact about the block that a node had when the run began. It is unknown if the
        node had pods then."""
        return {
            f"block of node {node} before its first pod": one.first_block
            for one in self.windows
            if one.name == node
        }

    def reserved(self, node: str) -> dict[str, Fact[list[str]]]:
        """Return the reserved positions in a node's blocks: ``first``, ``second``, ``third``,
        ``last``, or a number."""
        found, source = self._blocks(node)
        return {
            f"reserved addresses in block {block['spec']['cidr']} of node {node}": Fact(
                reservations(block["spec"]),
                f"IPAMBlock {block['spec']['cidr']} .spec.allocations; {source}",
            )
            for block in found
        }

    def places(self, node: str) -> dict[str, Fact[str]]:
        """Return a fact about the address of every pod of a node: ``in a block of its node`` if a
        block of the node contains the address, else the address."""
        blocks, source = self._blocks(node)
        cidrs = [Network(block["spec"]["cidr"]) for block in blocks]
        listed = ", ".join(map(str, cidrs)) or "the blocks of its node, which has none"
        return self._of_pods(
            node,
            source,
            lambda pod, address: (
                OWN_BLOCK
                if any(address in cidr for cidr in cidrs)
                else f"{address}, outside {listed}"
            ),
        )

    def known(self, node: str) -> dict[str, Fact[str]]:
        """Return a fact about the address of every pod of a node: ``in a block`` if any block of
        this cluster contains the address, else the address."""
        blocks, api = self.calico.listed("IPAMBlock")
        cidrs = [
            Network(block["spec"]["cidr"]) for block in blocks if ":" not in block["spec"]["cidr"]
        ]
        return self._of_pods(
            node,
            f"{len(cidrs)} IPAMBlocks ({api})",
            lambda pod, address: (
                IN_A_BLOCK if any(address in cidr for cidr in cidrs) else f"{address}, in no block"
            ),
        )

    def room(self, node: str) -> dict[str, Fact[str]]:
        """Return :data:`FITS` if the node's blocks have enough addresses for the kubelet's limit
        of pods, else both numbers."""
        pods = value_at(self.calico.kube.get("v1", "Node", node), "status", "allocatable", "pods")
        left = [len(block["spec"]["allocations"]) - 4 for block in self._blocks(node)[0]]
        if pods is None or not left:
            return {}
        value = (
            FITS if int(pods) <= sum(left) else f"{pods}, but its blocks have {sum(left)} addresses"
        )
        return {
            f"pods that node {node} accepts": Fact(value, ".status.allocatable.pods; IPAMBlocks")
        }

    def own_block(self, node: str) -> OwnBlock:
        """Return a Windows node's only block. Raise MissingCapability if the node does not have
        exactly one."""
        blocks, source = self._blocks(node)
        if len(blocks) != 1:
            raise MissingCapability(
                f"node {node} has {counted(len(blocks), 'block')}, expected 1 ({source})",
                "see IPAM-6",
            )
        spec = blocks[0]["spec"]
        held = sum(index is not None for index in spec["allocations"]) - len(reservations(spec))
        capacity = len(spec["allocations"]) - len(RESERVATION)
        return OwnBlock(spec["cidr"], capacity, capacity - held)

    def vacant(self) -> Counter[str]:
        """Return the number of free addresses in each node's blocks. The key "" has the number of
        free addresses that belong to a pool but to no node's block."""
        pools = self.calico.pool_cidrs().values()
        free = Counter({"": sum(Network(pool.value).num_addresses for pool in pools)})
        for block in self.calico.listed("IPAMBlock")[0]:
            free[affine(block)] += len(block["spec"]["unallocated"])
            free[""] -= len(block["spec"]["allocations"])
        return free

    def owner(self, address: str) -> str:
        """Return the node whose block contains an address, or an empty string if there is none."""
        blocks, _ = self.calico.listed("IPAMBlock")
        there = ipaddress.ip_address(address)
        own = (block for block in blocks if there in ipaddress.ip_network(block["spec"]["cidr"]))
        return next(map(affine, own), "")

    def takings(self, node: str) -> dict[str, Fact[str]]:
        """Return a fact about the address of every pod of a node: ``not reserved``, or the address
        and the reservation that it violates.

        Reserved are the first three addresses and the last address of a Windows node's block, and
        the addresses of each IPReservation that is older than the pod.
        """
        blocks, source = self._blocks(node)
        kept = {
            address: f"{which} address of block {cidr}"
            for cidr in (Network(block["spec"]["cidr"]) for block in blocks)
            for address, which in (
                (cidr[0], "first"),
                (cidr[1], "second"),
                (cidr[2], "third"),
                (cidr[-1], "last"),
            )
        }
        reserving = self._reserving()

        def taken(pod: Obj, address: ipaddress.IPv4Address) -> str:
            by = [
                f"reserved by IPReservation {name}"
                for name, cidr, since in reserving
                if address in cidr and since < _made(pod)
            ]
            why = [kept[address]] if address in kept else by
            return f"{address}, {why[0]}" if why else NOT_RESERVED

        return self._of_pods(node, source, taken)

    def reserved_elsewhere(self) -> dict[str, Fact[list[str]]]:
        """Return the blocks that belong to no Windows node (to a Linux node, or to no node) but
        have the reservations of a Windows node's block."""
        windows = [node.name for node in self.windows]
        blocks, api = self.calico.listed("IPAMBlock")
        others = [block for block in blocks if affine(block) not in windows]
        found = [
            f"{', '.join(kept)} in {block['spec']['cidr']} of {affine(block) or 'no node'}"
            for block in others
            if (kept := reservations(block["spec"]))
        ]
        source = f".spec.allocations of {len(others)} other IPAMBlocks ({api})"
        return {"Windows reservations in blocks of other nodes": Fact(found, source)}

    def _of_pods(
        self, node: str, source: str, value: Callable[[Obj, ipaddress.IPv4Address], str]
    ) -> dict[str, Fact[str]]:
        """Return a fact about the address of every pod of a node."""
        return {
            f"address of pod {pod['metadata']['namespace']}/{pod['metadata']['name']} on node {node}": Fact(
                value(pod, address), f"address {address}; {source}"
            )
            for pod, address in self.calico.pods(node)
        }

    def _claimed(self, node: str) -> tuple[dict[str, str], str]:
        """Return the CIDR of each confirmed affinity of a node with the fault of its block; an
        empty string means no fault.

        The second value of the result is the place where the affinities were read.
        """
        affinities, where = self.calico.listed("BlockAffinity")
        blocks, api = self.calico.listed("IPAMBlock")
        owners = {block["spec"]["cidr"]: affine(block) for block in blocks}
        found = {}
        for affinity in affinities:
            spec = affinity["spec"]
            if spec.get("node") == node and confirmed(spec):
                cidr = str(spec["cidr"])
                of_another = (
                    ""
                    if owners.get(cidr) == node
                    else f"whose IPAMBlock belongs to {owners.get(cidr) or 'no node'}"
                )
                found[cidr] = of_another if cidr in owners else "which has no IPAMBlock"
        return dict(sorted(found.items())), f"BlockAffinities ({where}), IPAMBlocks ({api})"

    def _blocks(self, node: str) -> tuple[list[Obj], str]:
        """Return the node's IPv4 blocks that have no fault, and the place where they were read."""
        claimed, source = self._claimed(node)
        sound = {cidr for cidr, wrong in claimed.items() if not wrong and ":" not in cidr}
        blocks, _ = self.calico.listed("IPAMBlock")
        return [block for block in blocks if block["spec"]["cidr"] in sound], source

    def _reserving(self) -> list[tuple[str, Network, datetime]]:
        """Return name, addresses and creation time of every IPReservation for IPv4; none if the
        cluster does not serve this kind."""
        if not self.calico.serves("IPReservation"):
            return []
        return [
            (reservation["metadata"]["name"], Network(cidr, strict=False), _made(reservation))
            for reservation in self.calico.listed("IPReservation")[0]
            for cidr in reservation["spec"].get("reservedCIDRs") or []
            if ":" not in cidr
        ]


def affine(block: Obj) -> str:
    """Return the name of the node that a block belongs to, from its affinity ``host:NAME``."""
    return str(block["spec"].get("affinity") or "").removeprefix("host:")


def reservations(spec: Obj) -> list[str]:
    """Return the addresses of a block that are reserved for Windows: the first three and the last
    as ``first``, ``second``, ``third`` and ``last``, other addresses as ``number 17``."""
    attributes = spec.get("attributes") or []
    ours = {
        index for index, one in enumerate(attributes) if (one or {}).get("handle_id") == RESERVED
    }
    allocations = spec.get("allocations") or []
    names = {0: "first", 1: "second", 2: "third", len(allocations) - 1: "last"}
    return [
        names.get(ordinal, f"number {ordinal}")
        for ordinal, index in enumerate(allocations)
        if index in ours
    ]


def _made(obj: Obj) -> datetime:
    return datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
