"""Faults of kubelets: pods of which nobody takes note, images that never arrive, probes that fail; nodes that die."""

import asyncio
from collections.abc import Mapping

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, NODE_OR_ALL, Fault, Parameter, Types, count
from hybridlab.faults.rules import FABRIC, RuleFault
from hybridlab.runtime.stalls import Stall

TYPES = Types()

LOOK = 0.25
"""s.  Between two looks at whether a pod has started."""
WORDS: Mapping[Stall, str] = {
    "pods": "takes no note of new pods",
    "pulls": "pulls images without end",
    "probes": "reaches no pod with its probes",
    "dead": "is dead",
}


class KubeletStuck(Fault):
    """Kubelets of some nodes get stuck with one thing; their nodes stay Ready."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str], what: Stall) -> None:
        self._faults, self._identity, self._what = lab.kubelets, identity, what
        self._nodes = frozenset(lab.nodes(parameters["node"]))

    async def inject(self) -> None:
        self._faults.stall(self._identity, self._what, self._nodes)

    async def heal(self) -> None:
        """No longer; what stalled goes on."""
        self._faults.heal(self._identity)

    async def evidence(self) -> list[str]:
        """The kubelets that are stuck because of this fault."""
        return [f"the kubelet of {node} {WORDS[self._what]}" for node in sorted(self._faults.nodes(self._identity))]


@TYPES.fault(
    "node-dead", "pods", NODE, Parameter("after", "only so many seconds after the next pod has started there", "")
)
class NodeDead(Fault):
    """A node is switched off: kubelet and lease stop, nothing leaves it, it is Ready Unknown."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        node = parameters["node"]
        self._client, self._node = lab.client, node
        self._after = parameters["after"] and count("after", parameters["after"])
        self._kubelet = KubeletStuck(lab, identity, {"node": lab.node(node)}, "dead")
        rules = [f"ip {end} {lab.address(node)} drop" for end in ("saddr", "daddr")]
        self._network = RuleFault(lab.dataplane, identity, {FABRIC: [("f_fwd", rule) for rule in rules]})
        self._dying: asyncio.Task[None] | None = None

    async def inject(self) -> None:
        """From now on, or so many seconds after the next pod has started there."""
        if self._after == "":
            await self._die()
            return
        self._dying = asyncio.create_task(self._later())

    async def _later(self) -> None:
        before = await self._running()
        while True:
            await asyncio.sleep(LOOK)
            if await self._running() - before:
                break
        await asyncio.sleep(float(self._after))
        await self._die()

    async def _running(self) -> set[str]:
        pods, _ = await self._client.list("pods", fields=f"spec.nodeName={self._node}")
        return {pod["metadata"]["uid"] for pod in pods if (pod.get("status") or {}).get("phase") == "Running"}

    async def _die(self) -> None:
        await self._kubelet.inject()
        await self._network.inject()

    async def heal(self) -> None:
        """It is switched on again, and was not booted anew."""
        if self._dying is not None and not self._dying.done():
            self._dying.cancel()
            return
        await self._kubelet.heal()
        await self._network.heal()

    async def evidence(self) -> list[str]:
        """Its kubelet and its network; or that it is going to die."""
        if self._dying is not None and not self._dying.done():
            return [f"{self._node} dies {self._after} s after the next pod has started there"]
        return [*await self._kubelet.evidence(), *await self._network.evidence()]


def _stuck(name: str, what: Stall, words: str) -> None:
    def make(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
        return KubeletStuck(lab, identity, parameters, what)

    make.__doc__ = words
    TYPES.fault(name, "pods", NODE_OR_ALL)(make)


_stuck("kubelet-idle", "pods", "A Ready node's kubelet takes no note of pods that are new there.")
_stuck("image-pull-stalls", "pulls", "Pulls of images that a node does not have begin and do not end.")
_stuck("kubelet-probes-fail", "probes", "What a kubelet sends to its pods' addresses to probe them gets no answer.")
