# SPDX-License-Identifier: Apache-2.0
"""Faults of kubelets: ignored pods, images that never arrive, failing probes, dying nodes."""

import asyncio
from collections.abc import Mapping
from functools import partial

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, NODE_OR_ALL, Fault, Parameter, Switch, Types, count
from hybridlab.faults.rules import FABRIC, RuleFault
from hybridlab.runtime.stalls import Stall

TYPES = Types()

LOOK = 0.25
"""The interval, in seconds, of checks whether a pod has started."""
WORDS: Mapping[Stall, str] = {
    "pods": "ignores new pods",
    "pulls": "begins to pull images and never finishes",
    "probes": "gets no answer to its probes of pods",
    "dead": "is dead",
}


def _stuck(lab: LabParts, identity: str, given: str, what: Stall) -> Fault:
    """Return a fault that stalls one activity of some nodes' kubelets; the nodes stay Ready."""
    kubelets = lab.kubelets
    on = partial(kubelets.stall, identity, what, frozenset(lab.nodes(given)))
    return Switch(
        on,
        partial(kubelets.heal, identity),
        lambda: [
            f"the kubelet of {node} {WORDS[what]}" for node in sorted(kubelets.nodes(identity))
        ],
    )


@TYPES.fault(
    "node-dead",
    "pods",
    NODE,
    Parameter("after", "seconds from the start of the next pod on the node (empty: die now)", ""),
)
class NodeDead(Fault):
    """A node is switched off: its kubelet and lease stop, it sends nothing, and its condition
    Ready becomes Unknown.
    """

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        node = parameters["node"]
        self._client = lab.client
        self._node = node
        self._after = parameters["after"] and count("after", parameters["after"])
        self._kubelet = _stuck(lab, identity, lab.node(node), "dead")
        rules = [f"ip {end} {lab.address(node)} drop" for end in ("saddr", "daddr")]
        self._network = RuleFault(
            lab.dataplane, identity, {FABRIC: [("f_fwd", rule) for rule in rules]}
        )
        self._dying: asyncio.Task[None] | None = None

    async def inject(self) -> None:
        """Switch the node off now, or a number of seconds after the next pod has started there."""
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
        return {
            pod["metadata"]["uid"]
            for pod in pods
            if (pod.get("status") or {}).get("phase") == "Running"
        }

    async def _die(self) -> None:
        await self._kubelet.inject()
        await self._network.inject()

    async def heal(self) -> None:
        """Switch the node on again, without a restart of its system."""
        if self._dying is not None and not self._dying.done():
            self._dying.cancel()
            return
        await self._kubelet.heal()
        await self._network.heal()

    async def evidence(self) -> list[str]:
        """Return the effects on kubelet and network, or that the node is about to die."""
        if self._dying is not None and not self._dying.done():
            return [f"{self._node} dies {self._after} s after the next pod has started there"]
        return [*await self._kubelet.evidence(), *await self._network.evidence()]


@TYPES.fault("kubelet-idle", "pods", NODE_OR_ALL)
def kubelet_idle(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The kubelet of a Ready node ignores new pods."""
    return _stuck(lab, identity, parameters["node"], "pods")


@TYPES.fault("image-pull-stalls", "pods", NODE_OR_ALL)
def image_pull_stalls(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Pulls of images that a node does not have begin and never end."""
    return _stuck(lab, identity, parameters["node"], "pulls")


@TYPES.fault("kubelet-probes-fail", "pods", NODE_OR_ALL)
def kubelet_probes_fail(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A kubelet's probes of its pods' addresses get no answer."""
    return _stuck(lab, identity, parameters["node"], "probes")
