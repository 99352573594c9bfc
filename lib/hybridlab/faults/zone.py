"""DNS answers that are wrong."""

from __future__ import annotations

from collections.abc import Mapping

from hybridlab.faults.model import Fault
from hybridlab.faults.zone_gate import WRONG_ADDRESS, ZoneGate


class DnsWrong(Fault):
    """Every name, or one, resolves to an address where nothing is."""

    def __init__(self, gate: ZoneGate, identity: str, parameters: Mapping[str, str]) -> None:
        self._gate, self._identity = gate, identity
        self._name = parameters["name"].rstrip(".").lower()

    async def inject(self) -> None:
        """Twist."""
        await self._gate.twist(self._identity, self._name)

    async def heal(self) -> None:
        """Untwist."""
        await self._gate.twist(self._identity, None)

    async def evidence(self) -> list[str]:
        """Names that resolvers were told wrongly."""
        return [f"{host} is answered with {WRONG_ADDRESS}" for host in self._gate.wrong(self._identity)]
