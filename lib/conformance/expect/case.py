# SPDX-License-Identifier: Apache-2.0
"""One row of a test: which clients connect to which servers, how, with which result, and why."""

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
    """Each of some clients connects to each of some servers, or times out.

    ``Case(clients, servers, tcp=80, open=True, because="the one rule allows TCP 80")``.  Raises
    UsageProblem for a case without a port or a reason, or with a port beside targets that have one.
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
    """The end whose node enforces the case; None: the end that the change's policies are about."""
    witness: bool = False
    """Whether the row only shows that the policies are in force, which another claim is about."""

    def __post_init__(self) -> None:
        if not self.because:
            raise UsageProblem(f"{self._row}: say why, by because=")
        has_port = any((self.tcp, self.udp, self.through))
        if _several(self.servers) and has_port is bool(self._targets):
            raise UsageProblem(
                f"{self._row}: name tcp=, udp= or through= of pods, and none of targets with a port"
            )

    @property
    def pairs(self) -> list[Pair]:
        """Return each client with each target.  Raises MissingCapability where nodes lack."""
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
        """Return the context in which the case is decided: of its part, enforced where it says."""
        return replace(context.of_part(self.part), at=self.at or context.at)

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


def rows_of(items: Iterable[object]) -> dict[Pair, Case]:
    """Return every path of the cases among these.  Raises UsageProblem where two contradict."""
    found: dict[Pair, Case] = {}
    for case in (item for item in items if isinstance(item, Case)):
        for pair in case.pairs:
            other = found.setdefault(pair, case)
            if (other.open, other.part) != (case.open, case.part):
                raise UsageProblem(
                    f"{pair[0].label} -> {pair[1].label}: two cases disagree about this path: "
                    f"{other.because!r} and {case.because!r}"
                )
    return found
