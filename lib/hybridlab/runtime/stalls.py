# SPDX-License-Identifier: Apache-2.0
"""Stalled kubelets, which no longer start or probe pods. Only the lab's faults stall a kubelet."""

import asyncio
from typing import Literal

Stall = Literal["pods", "pulls", "probes", "dead"]
"""pods: the kubelet ignores pods that are bound to its node, though the node stays Ready. pulls:
pulls of images that the node does not have never end. probes: probes over the network fail. dead:
the kubelet does nothing any longer, and renews no lease."""


class KubeletStalls:
    """The faults of all kubelets of a lab."""

    def __init__(self) -> None:
        self._stalls: dict[str, tuple[Stall, frozenset[str]]] = {}
        self._changed = asyncio.Event()

    def stall(self, name: str, what: Stall, nodes: frozenset[str]) -> None:
        """Stall these nodes from now on."""
        self._stalls[name] = (what, nodes)

    def heal(self, name: str) -> None:
        """Remove the stall; stalled activities continue."""
        self._stalls.pop(name, None)
        self._changed.set()
        self._changed = asyncio.Event()

    def nodes(self, name: str) -> frozenset[str]:
        """Return the nodes of the stall with this name."""
        return self._stalls.get(name, ("pods", frozenset()))[1]

    def stalled(self, what: Stall, node: str) -> bool:
        """Return whether the activity stalls on a node now; on a node with a dead kubelet, every
        activity stalls."""
        return any(
            kind in (what, "dead") and node in nodes for kind, nodes in self._stalls.values()
        )

    async def passes(self, what: Stall, node: str) -> None:
        """Return as soon as the activity does not stall on the node."""
        while self.stalled(what, node):
            await self._changed.wait()
