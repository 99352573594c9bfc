"""Services that a node's kube-proxy has wrong: their backends, or their NodePorts."""

from __future__ import annotations

from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault
from hybridlab.faults.service_gate import Way

WORDS: dict[Way, str] = {
    "stale": "backends stale",
    "first": "backends first",
    "others": "backends others",
    "no-node-ports": "no NodePorts",
    "no-udp-node-ports": "no NodePorts for UDP",
    "own-port": "backends at the Service's own port",
    "unready": "backends with those that are not ready",
    "never-again": "no backends of a Service that once had none left",
}


class ServicesWrong(Fault):
    """A node's kube-proxy has other backends of Services than there are, or none of their NodePorts."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str], way: Way) -> None:
        if lab.service_gate is None:
            raise BadFault("this lab has no kube-proxies")
        self._gate, self._identity, self._way = lab.service_gate, identity, way
        self._nodes = lab.nodes(parameters["node"])

    async def inject(self) -> None:
        """Begin."""
        await self._gate.bend(self._identity, self._way, self._nodes)

    async def heal(self) -> None:
        """Program what is true."""
        await self._gate.straighten(self._identity)

    async def evidence(self) -> list[str]:
        """Which kube-proxies are wrong."""
        bent = self._gate.bent(self._identity)
        return [f"kube-proxy of {node}: {WORDS[bent[0]]}" for node in sorted(bent[1])] if bent else []
