"""Faults of kubelets: pods of which nobody takes note on their node, images that never arrive, probes that fail."""

from __future__ import annotations

from collections.abc import Mapping

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault
from hybridlab.runtime.stalls import Stall

WORDS: Mapping[Stall, str] = {
    "pods": "takes no note of new pods",
    "pulls": "pulls images without end",
    "probes": "reaches no pod with its probes",
}


class KubeletStuck(Fault):
    """Kubelets of some nodes get stuck with one thing; their nodes stay Ready."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str], what: Stall) -> None:
        self._faults, self._identity, self._what = lab.kubelets, identity, what
        self._nodes = frozenset(lab.nodes(parameters["node"]))

    async def inject(self) -> None:
        """From now on."""
        self._faults.stall(self._identity, self._what, self._nodes)

    async def heal(self) -> None:
        """No longer; what stalled goes on."""
        self._faults.heal(self._identity)

    async def evidence(self) -> list[str]:
        """The kubelets that are stuck because of this fault."""
        return [f"the kubelet of {node} {WORDS[self._what]}" for node in sorted(self._faults.nodes(self._identity))]


def kubelet_idle(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """New pods stay as the scheduler left them."""
    return KubeletStuck(lab, identity, parameters, "pods")


def image_pull_stalls(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Pulls of images that a node does not have begin, and do not end."""
    return KubeletStuck(lab, identity, parameters, "pulls")


def kubelet_probes_fail(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """What the kubelet sends to its pods' addresses gets no answer; probes that run in a container do."""
    return KubeletStuck(lab, identity, parameters, "probes")
