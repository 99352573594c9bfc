"""Services that a node's kube-proxy has wrong: their backends, or their NodePorts."""

from collections.abc import Mapping
from functools import partial

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, FaultType
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
    "flows-stay": "flows of datagrams stay",
}


class ServicesWrong(Fault):
    """A node's kube-proxy has other backends of Services than there are, or none of their NodePorts."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str], way: Way) -> None:
        if lab.service_gate is None:
            raise BadFault("this lab has no kube-proxies")
        self._gate, self._identity, self._way = lab.service_gate, identity, way
        self._nodes = lab.nodes(parameters["node"])

    async def inject(self) -> None:
        await self._gate.bend(self._identity, self._way, self._nodes)

    async def heal(self) -> None:
        await self._gate.straighten(self._identity)

    async def evidence(self) -> list[str]:
        bent = self._gate.bent(self._identity)
        return [f"kube-proxy of {node}: {WORDS[bent[0]]}" for node in sorted(bent[1])] if bent else []


def _wrong(name: str, way: Way, description: str) -> FaultType:
    return FaultType(
        name=name, layer="services", scope=NODE_OR_ALL.scope, description=description, parameters=(NODE_OR_ALL,),
        make=partial(ServicesWrong, way=way),
    )  # fmt: skip


TYPES = (
    _wrong("backends-stale", "stale", "Kube-proxy keeps the backends that each Service had first"),
    _wrong("last-backend-stays-away", "never-again", "A Service that has lost its last backend gets none any more"),
    _wrong("udp-flows-stay", "flows-stay", "Kube-proxy leaves flows of datagrams to backends that went as they are"),
    _wrong("one-backend", "first", "Kube-proxy uses the first backend of each Service alone"),
    _wrong("backends-of-another", "others", "Kube-proxy uses the backends of another Service that serve the same port"),
    _wrong(
        "node-ports-missing", "no-node-ports",
        "A node's kube-proxy has no NodePorts: connections to them are refused there",
    ),
    _wrong(
        "udp-node-ports-missing", "no-udp-node-ports",
        "A node's kube-proxy has NodePorts for TCP alone: datagrams to others are refused there",
    ),
    _wrong("target-port-ignored", "own-port", "Kube-proxy asks the backends of Services at the Service's own port"),
    _wrong(
        "unready-backends-used", "unready", "Kube-proxy uses the backends of Services that are not ready as well"
    ),
)  # fmt: skip
