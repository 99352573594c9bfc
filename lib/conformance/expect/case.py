# SPDX-License-Identifier: Apache-2.0
"""The rows of a test: the clients, the servers, the way in which they connect, the expected result,
and the reason."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from conformance.errors import UsageProblem
from conformance.expect.context import Context
from conformance.model.decision import Side
from conformance.model.endpoint import Pair, Target, Workload
from conformance.pods.groups import Group

Nodes = Literal["any nodes", "same node", "other nodes", "itself"]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """The expectation that a row states for its paths."""

    open: bool
    because: str
    part: str = ""
    """The end of the names of the parts that the row is about; empty: the row is about all parts.
    """
    at: Side | None = None
    """The end whose node enforces the policies that the row is about; None: the end that the
    change's policies select."""
    witness: bool = False
    """True: the row's paths only show that the policies are in force; another claim decides about
    these paths."""
    always: bool = False
    """True: the row holds with and without the limitation. If the limitation is gone, the opposite
    of every other row is expected."""

    def of_part(self, context: Context) -> Context:
        """Return the context in which this row is decided: its part, and the enforcing nodes."""
        return replace(context.of_part(self.part), at=self.at or context.at)


@dataclass(frozen=True)
class Paths(_Row):
    """Paths that an expectation has composed itself. Tests name their paths with a Case instead."""

    pairs: Sequence[Pair]


@dataclass(frozen=True)
class Case(_Row):
    """Paths from each of some clients to each of some servers, which connect or time out.

    ``Case(clients, servers, tcp=80, open=True, because="the only rule allows TCP 80")``.  Raises
    UsageProblem for a case without a client, a server, a port or a reason, or with a port for
    targets that already have a port.
    """

    clients: Workload | Sequence[Workload]
    servers: Workload | Sequence[Workload] | Target | Sequence[Target]
    """Pods, or targets that have a port already: Services, addresses outside the cluster."""
    tcp: int | None = field(default=None, kw_only=True)
    udp: int | None = field(default=None, kw_only=True)
    """The UDP port of the servers' own addresses. With ``tcp`` and ``udp``, each path is tried with
    both protocols."""
    through: Callable[[Workload], Target] | None = field(default=None, kw_only=True)
    """Returns the target that stands in front of a server: ``through=services.by_address``."""
    on: Nodes = field(default="any nodes", kw_only=True)
    """Selects the servers by their node's relation to the client's node; ``itself``: each pod
    connects to itself."""
    optional: bool = field(default=False, kw_only=True)
    """True: the row may have no server, because not every run names a target outside the cluster.
    """

    def __post_init__(self) -> None:
        if not self.because:
            raise UsageProblem(f"{self._name}: give the reason as because=")
        servers = _several(self.servers)
        if not _several(self.clients) or not (servers or self.optional):
            raise UsageProblem(f"{self._name}: it has no path, since one of its groups is empty")
        if servers and any((self.tcp, self.udp, self.through)) is bool(self._targets):
            raise UsageProblem(
                f"{self._name}: for pods, name tcp=, udp= or through=; "
                "for targets with a port, name none of them"
            )

    @property
    def pairs(self) -> list[Pair]:
        """Return each client with each target. Raise MissingCapability if there are too few
        nodes."""
        clients = Group(_several(self.clients))
        servers = _several(self.servers)
        if self._targets or not servers:
            return [(client, target) for client in clients for target in servers]
        between = {
            "any nodes": clients.to,
            "same node": clients.beside,
            "other nodes": clients.across,
            "itself": clients.itself,
        }
        pods = between[self.on](servers)
        if not pods:
            raise UsageProblem(f"{self._name}: it has no path, since no pod is in both groups")
        return [
            *(pods.tcp(self.tcp) if self.tcp else ()),
            *(pods.udp(self.udp) if self.udp else ()),
            *(pods.through(self.through) if self.through else ()),
        ]

    @property
    def _targets(self) -> list[Target]:
        return [one for one in _several(self.servers) if isinstance(one, Target)]

    @property
    def _name(self) -> str:
        ends = [
            ", ".join(sorted({item.label for item in _several(end)})) or "nobody"
            for end in (self.clients, self.servers)
        ]
        return f"Case({' -> '.join(ends)}, open={self.open})"


Row = Case | Paths


def _several(end: Workload | Target | Sequence[Workload] | Sequence[Target]) -> tuple[Any, ...]:
    """Return the pods or targets at one end of a row as a tuple."""
    return (end,) if isinstance(end, Workload | Target) else tuple(end)


def rows_of(items: Iterable[object]) -> dict[Pair, Row]:
    """Return every path of these rows, with its row. Raise UsageProblem if there is no path, or if
    two rows contradict each other."""
    found: dict[Pair, Row] = {}
    for row in (item for item in items if isinstance(item, Row)):
        for pair in row.pairs:
            other = found.setdefault(pair, row)
            if (other.open, other.part) != (row.open, row.part):
                raise UsageProblem(
                    f"{pair[0].label} -> {pair[1].label}: two cases disagree about this path: "
                    f"{other.because!r} and {row.because!r}"
                )
    if not found:
        raise UsageProblem("the expectation has no path: name a case that has a path")
    return found
