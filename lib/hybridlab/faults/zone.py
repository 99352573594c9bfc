"""DNS answers that are wrong, or late."""

from collections.abc import Mapping

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, Parameter, Types, seconds
from hybridlab.faults.zone_gate import AAAA_DENIED, ANOTHER, ANSWERS, EXTRA, WRONG_ADDRESS, WrongAnswer

TYPES = Types()

SAID = {
    ANOTHER: f"with {WRONG_ADDRESS}",
    EXTRA: f"with {WRONG_ADDRESS} too",
    AAAA_DENIED: "with NXDOMAIN where it is asked for another record than A",
}
"""How evidence tells each wrong answer."""


@TYPES.fault(
    "dns-wrong", "dns", Parameter("name", "only this full name (default: every name)", ""),
    Parameter("answer", " or ".join(ANSWERS), ANOTHER, ANSWERS),
)  # fmt: skip
class DnsWrong(Fault):
    """Names resolve to 203.0.113.9, where nothing is, alone or beside what is right; or deny their AAAA."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._gate, self._identity = lab.zone_gate, identity
        self._wrong = WrongAnswer(parameters["name"].rstrip(".").lower(), parameters["answer"])

    async def inject(self) -> None:
        await self._gate.answer_wrongly(self._identity, self._wrong)

    async def heal(self) -> None:
        await self._gate.answer_wrongly(self._identity, None)

    async def evidence(self) -> list[str]:
        """Names that resolvers were told wrongly."""
        return [f"{host} is answered {SAID[self._wrong.answer]}" for host in self._gate.wrong(self._identity)]


@TYPES.fault("dns-stale", "dns")
class DnsStale(Fault):
    """Names keep the addresses that they were answered with first."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._gate, self._identity = lab.zone_gate, identity

    async def inject(self) -> None:
        await self._gate.keep(self._identity, stale=True)

    async def heal(self) -> None:
        await self._gate.keep(self._identity, stale=False)

    async def evidence(self) -> list[str]:
        """That names stay as they are."""
        return ["names keep the addresses that they had first"] if self._gate.keeps(self._identity) else []


@TYPES.fault("dns-slow", "dns", NODE_OR_ALL, Parameter("seconds", "how much later"))
class DnsSlow(Fault):
    """The cluster's DNS answers the questions of a node's pods late."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._gate, self._identity = lab.zone_gate, identity
        late = seconds("seconds", parameters["seconds"])
        self._late = tuple(
            (network, late)
            for node in lab.nodes(parameters["node"])
            for network in (*lab.blocks(node), f"{lab.address(node)}/32")
        )

    async def inject(self) -> None:
        await self._gate.delay(self._identity, self._late)

    async def heal(self) -> None:
        await self._gate.delay(self._identity, ())

    async def evidence(self) -> list[str]:
        return [f"{network} is answered {late:g} s late" for network, late in self._gate.late(self._identity)]
