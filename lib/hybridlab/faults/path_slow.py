"""A node whose way to the others is slow, and loses nothing."""

from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, Fault, Parameter, Types

TYPES = Types()

LONGEST_MS = 10_000


@TYPES.fault("path-slow", "underlay", NODE, Parameter("ms", "added to each round trip, milliseconds", "300"))
class PathSlow(Fault):
    """What a node sends to other nodes, and hears from them, comes late and complete."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        given = parameters["ms"]
        if not given.isdecimal() or not 1 <= int(given) <= LONGEST_MS:
            raise BadFault(f"ms is {given!r}, expected a whole number from 1 to {LONGEST_MS}")
        self._lab, self._node, self._seconds = lab, lab.node(parameters["node"]), int(given) / 2000

    async def inject(self) -> None:
        """Half of it each way."""
        await self._lab.dataplane.set_latency(self._node, self._seconds)

    async def heal(self) -> None:
        """As fast as the machine again."""
        await self._lab.dataplane.set_latency(self._node, 0)

    async def evidence(self) -> list[str]:
        seconds = await self._lab.dataplane.latency(self._node)
        return [f"packets of {self._node} take {seconds * 1000:g} ms each way"] if seconds else []
