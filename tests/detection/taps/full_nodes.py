# SPDX-License-Identifier: Apache-2.0
"""Faults of Windows nodes with many pods: a CNI plugin that refuses pods, and IPAM that assigns
addresses of other nodes."""

from __future__ import annotations

from collections.abc import Mapping

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Fault, Parameter, Types
from hybridlab.networks.contract.addresses import ANY, Wish
from hybridlab.networks.ipam.block import Attribute
from hybridlab.networks.ipam.ipam import IPAMError

TYPES = Types()

LOCK = "timeout acquiring mutex"
EXHAUSTED = "cannot allocate new block due to per host block limit"


@TYPES.fault(
    "plugin-refuses",
    "pods",
    WINDOWS_OR_ALL,
    Parameter("beyond", "addresses that its pods have when it begins to refuse", "20"),
    Parameter("words", "what it says", "lock", choices=("lock", "exhausted")),
    Parameter(
        "ever",
        "true: once it has refused a pod, it refuses all",
        "false",
        choices=("false", "true"),
    ),
)
class PluginRefuses(Fault):
    """The CNI plugin of a Windows node refuses further pods, though addresses are left."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._identity = identity
        self._nodes = lab.nodes_of("windows", parameters["node"])
        self._beyond = int(parameters["beyond"])
        self._words = LOCK if parameters["words"] == "lock" else EXHAUSTED
        self._ever = parameters["ever"] == "true"
        self._began: set[str] = set()

    async def inject(self) -> None:
        self._lab.calico.pod_network.refusals.taps[self._identity] = self._refusal

    async def heal(self) -> None:
        self._lab.calico.pod_network.refusals.taps.pop(self._identity, None)

    async def evidence(self) -> list[str]:
        there = self._identity in self._lab.calico.pod_network.refusals.taps
        return [
            f"the plugin of {node} refuses pods beyond {self._beyond}"
            for node in self._nodes
            if there
        ]

    def _refusal(self, words: str, node: str) -> str:
        endpoints = self._lab.calico.windows[node].hns.endpoints if node in self._nodes else ()
        full = sum(bool(one.pod) for one in endpoints) >= self._beyond
        if full:
            self._began.add(node)
        return self._words if full or (self._ever and node in self._began) else words


@TYPES.fault("windows-has-two-blocks", "ipam")
class WindowsHasTwoBlocks(Fault):
    """IPAM gives Windows nodes a second block once the first is full."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._ipam = lab.calico.ipam

    async def inject(self) -> None:
        self._ipam.windows_blocks = 2

    async def heal(self) -> None:
        self._ipam.windows_blocks = 1

    async def evidence(self) -> list[str]:
        two = self._ipam.windows_blocks == 2
        return ["Windows nodes have up to two blocks"] if two else []


@TYPES.fault(
    "ipam-borrows",
    "ipam",
    Parameter("node", "node whose next pod borrows once its blocks are full"),
    Parameter("of", "node whose block it borrows of"),
)
class IpamBorrows(Fault):
    """IPAM gives a node whose blocks are full an address of another node's block."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._ipam = lab.calico.ipam
        self._node = parameters["node"]
        self._of = parameters["of"]

    async def inject(self) -> None:
        assign = self._ipam.assign

        def borrow(node: str, handle: str, secondary: Mapping[str, str], wish: Wish = ANY) -> str:
            try:
                return assign(node, handle, secondary, wish)
            except IPAMError:
                (block,) = self._ipam.blocks_of(self._of)
                address = block.assign(Attribute(handle, secondary)) if node == self._node else None
                if not address:
                    raise
                return self._ipam._record(block, address, handle)

        self._ipam.assign = borrow  # type: ignore[method-assign]

    async def heal(self) -> None:
        vars(self._ipam).pop("assign", None)

    async def evidence(self) -> list[str]:
        there = "assign" in vars(self._ipam)
        return [f"{self._node} borrows addresses of {self._of}'s block"] if there else []
