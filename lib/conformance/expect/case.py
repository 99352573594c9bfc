"""One row of a test: which clients connect to which servers, how, whether that is open or closed, and why."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from conformance.errors import UsageProblem
from conformance.expect.context import Context
from conformance.model.decision import Side
from conformance.model.endpoint import Pair, Target, Workload
from conformance.pods.groups import Group

Nodes = Literal["any nodes", "same node", "other nodes"]


@dataclass(frozen=True)
class Case:
    """Each client connects to each server, or cannot: ``Case(clients, servers, tcp=80, open=True, because="...")``.

    Raises UsageProblem for a row that names no protocol, no reason, or a protocol beside targets that have one.
    """

    clients: Workload | Sequence[Workload]
    servers: Workload | Sequence[Workload] | Target | Sequence[Target]
    """Pods, or targets that have a port already: Services, addresses beyond the cluster."""
    _: KW_ONLY
    open: bool
    because: str
    tcp: int | None = None
    udp: int | None = None
    """Ports of the servers' own addresses; with both, each path is asked by TCP and by UDP."""
    through: Callable[[Workload], Target] | None = None
    """The way to a server by what stands in front of it: ``through=services.by_address``."""
    on: Nodes = "any nodes"
    """The servers' nodes, from each client."""
    part: str = ""
    """How the part of the test's claims ends that the row is about; empty: all of them."""
    at: Side | None = None
    """The end whose node enforces it, where the change's policies are about both; None: as the policies say."""
    witness: bool = False
    """Whether the row only shows that the policies are in force, which another claim is about."""

    def __post_init__(self) -> None:
        ways = (self.tcp, self.udp, self.through)
        if not self.because:
            raise UsageProblem(f"{self._row}: say why, by because=")
        if self._targets and any(ways):
            raise UsageProblem(f"{self._row}: these targets have a port, so name no protocol")
        if not self._targets and _several(self.servers) and not any(ways):
            raise UsageProblem(f"{self._row}: say by which port, by tcp=, udp= or through=")

    @property
    def pairs(self) -> list[Pair]:
        """Every client with every target.  Raises MissingCapability where the nodes have no such pair."""
        clients = Group(_several(self.clients))
        if self._targets:
            return [(client, target) for client in clients for target in self._targets]
        between = {
            "any nodes": clients.to,
            "same node": clients.beside,
            "other nodes": clients.across,
        }
        pods = between[self.on](_several(self.servers))
        return [
            *(pods.tcp(self.tcp) if self.tcp else ()),
            *(pods.udp(self.udp) if self.udp else ()),
            *(pods.through(self.through) if self.through else ()),
        ]

    def of_part(self, context: Context) -> Context:
        """Return the context in which decisions are about the row's part, and its enforcing end."""
        part = ("", self.part) if self.part else context.part
        return replace(context, part=part, at=self.at or context.at)

    @property
    def _targets(self) -> list[Target]:
        return [one for one in _several(self.servers) if isinstance(one, Target)]

    @property
    def _row(self) -> str:
        ends = [
            sorted({one.label for one in _several(end)}) for end in (self.clients, self.servers)
        ]
        return f"Case({', '.join(ends[0])} -> {', '.join(ends[1])}, open={self.open})"


def _several(end: Workload | Target | Sequence[Workload] | Sequence[Target]) -> tuple[Any, ...]:
    """The pods or targets of one end of a row."""
    return (end,) if isinstance(end, Workload | Target) else tuple(end)


def rows_of(cases: Iterable[Case]) -> dict[Pair, Case]:
    """Return every path of the cases once, in order, with its case.  Raises UsageProblem where two contradict."""
    found: dict[Pair, Case] = {}
    for case in cases:
        for pair in case.pairs:
            other = found.setdefault(pair, case)
            if (other.open, other.part) != (case.open, case.part):
                raise UsageProblem(
                    f"{pair[0].label} -> {pair[1].label}: two cases say different things of this path: "
                    f"{other.because!r} and {case.because!r}"
                )
    return found
