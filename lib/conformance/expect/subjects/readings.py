# SPDX-License-Identifier: Apache-2.0
"""Expectations about readings: facts with their sources, compared with a claim, node by node.

A deviation raises Unmet; the verdict follows from the claim's kind: UNMET for a requirement,
ADVISED for a recommendation, else VIOLATED. A limitation counts as gone only if Calico itself made
the deviating value (``lifted``). A value that could not be read decides nothing: NOT_RUN; if
reading a node broke, INCONCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from conformance.errors import MissingCapability, Nonconformance, SuiteError, Unmet, first_line
from conformance.expect.check import Check, Ruling
from conformance.expect.context import Context
from conformance.expect.explain import message
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.facts import Announced, Fact, NodeFacts
from conformance.settings import OsTimings, Timings, load_timings
from conformance.timing import SYSTEM_CLOCK, Clock, Deadline, Settled, until
from conformance.verdicts.meaning import of_limitation

T = TypeVar("T")
Found = Mapping[str, Fact[T]]
"""Facts by their names, such as ``IPPool a .spec.ipipMode``."""


@dataclass
class Readings:
    """The expectations of a test about facts by their names."""

    context: Context = field(default_factory=Context)
    timings: Timings = field(default_factory=load_timings)
    clock: Clock = SYSTEM_CLOCK

    def that(
        self,
        facts: Found[T] | Callable[[str], Found[T]],
        right: T | Callable[[T], bool],
        expected: str = "",
        *,
        on: Iterable[NodeFacts | Workload] | None = None,
        lifted: Callable[[T], bool] | None = None,
        because: str,
        do: str,
    ) -> None:
        """Expect every fact to be ``right``: either a value, or a rule, which ``expected``
        describes.

        ``on``: the nodes whose facts ``facts`` returns, given a node's name; a pod stands for its
        node.

        A wrong reading of a node counts if it lasts as long as Services may take to change, since
        calico-node sets routes when a block is claimed, and again when it starts.

        ``lifted``: the rule for a wrong fact that Calico itself makes if the limitation is gone.
        ``do``: the command or step that repairs a wrong fact.

        Raise Unmet if a fact is wrong, MissingCapability if nothing could be read.
        """
        demand = _Demand(facts, right, expected or format_value(right), lifted, because, do)
        nodes = _nodes(on)
        with Check(self.context, "read") as check:
            decided = False
            lacking: MissingCapability | None = None
            deadline = Deadline(
                self._patience(next(iter(nodes.values()), None)).service_effect, self.clock
            )
            for node, place in nodes.items():
                symptom = ("", "")
                try:
                    settled = self._settled(demand, node, place, deadline.remaining)
                    symptom = demand.symptom(settled.last)
                    gone = self._describe_lift(demand, node, settled.last)
                    if not gone:
                        self._compare(demand, node, settled)
                except MissingCapability as error:
                    lacking = lacking or error
                    if place is not None:
                        self.context.decided(
                            None, place, ClaimVerdict.NOT_RUN, first_line(error), "read"
                        )
                except (Nonconformance, SuiteError) as error:
                    decided = True
                    check.decide(None, place, Ruling(error=error, symptom=symptom))
                else:
                    decided = True
                    check.decide(None, place, Ruling(gone or because, of_limitation(bool(gone))))
        if not decided:
            raise lacking or MissingCapability(
                f"no covered node has this value; expected: {demand.expected}",
                "cover a node: --nodes",
            )

    def _patience(self, place: NodeFacts | Workload | None) -> OsTimings:
        return self.timings.of(place.os) if place else self.timings.linux

    def _settled(
        self, demand: _Demand[T], node: str, place: NodeFacts | Workload | None, within: float
    ) -> Settled[Found[T]]:
        """Read until all values are as expected; values from the API are read once."""
        patient = isinstance(place, Workload)
        return until(
            lambda: demand.known(node),
            lambda found: (
                not demand.otherwise(found)
                and all(fact.value is not None for fact in found.values())
            ),
            within=within,
            every=self._patience(place).poll_every,
            description=demand.because,
            clock=self.clock,
            hopeless=lambda _: not patient,
        )

    def _describe_lift(self, demand: _Demand[T], node: str, found: Found[T]) -> str:
        """Return why a limitation counts as gone while all other facts are as documented; an empty
        string if it does not count as gone."""
        others = demand.otherwise(found)
        lifted = demand.lifted
        if (
            lifted is None
            or not others
            or not all(lifted(fact.value) for fact in others.values() if fact.value)
        ):
            return ""
        text = "; ".join(
            f"{name}: {format_value(fact.value)} ({fact.source})" for name, fact in others.items()
        )
        self.context.sink.attach(
            f"limitation gone on node {node}" if node else "limitation gone", text
        )
        return text

    def _compare(self, demand: _Demand[T], node: str, settled: Settled[Found[T]]) -> None:
        """Raise Unmet if a fact does not meet the demand."""
        found = settled.last
        wrong = list(demand.otherwise(found))
        rows = [
            (name, demand.expected, format_value(fact.value), name not in wrong)
            for name, fact in found.items()
            if fact.value is not None
        ]
        self.context.sink.attach(f"read on node {node}" if node else "read", table(rows, found))
        if wrong:
            times = len(settled.answers)
            often = f"read {counted(times, 'time')}, {settled.seconds:.1f} s"
            raise Unmet(
                deviation(
                    self.context.claims,
                    wrong,
                    found,
                    expected=demand.expected,
                    because=demand.because,
                    do=demand.do,
                    tries="read once" if times == 1 else often,
                )
            )


@dataclass(frozen=True)
class _Demand(Generic[T]):
    """The demand on facts, with the texts for a failure's message; the fields are the arguments of
    :meth:`Readings.that`."""

    facts: Found[T] | Callable[[str], Found[T]]
    right: T | Callable[[T], bool]
    expected: str
    lifted: Callable[[T], bool] | None
    because: str
    do: str

    def known(self, node: str) -> Found[T]:
        """Read the facts now. Raise MissingCapability if a fact could not be read, or if there is
        no fact."""
        found = self.facts(node) if callable(self.facts) else self.facts
        unknown = [
            f"{name} could not be read: {fact.source}"
            for name, fact in found.items()
            if not fact.known
        ]
        if not found:
            of_node = f" on node {node}" if node else ""
            unknown = [f"no value was found{of_node}; expected: {self.expected}"]
        if unknown:
            raise MissingCapability(unknown[0], self.do)
        return found

    def otherwise(self, found: Found[T]) -> dict[str, Fact[T]]:
        """Return the facts with a wrong value, by their names."""
        right = self.right
        check: Callable[[T], bool] = right if callable(right) else lambda value: value == right
        return {
            name: fact
            for name, fact in found.items()
            if fact.value is not None and not check(fact.value)
        }

    def symptom(self, found: Found[T]) -> tuple[str, str]:
        """Return the expected and the observed value; two empty strings if all values are right."""
        values = [format_value(fact.value) for fact in self.otherwise(found).values()]
        return (self.expected, ", ".join(dict.fromkeys(values))) if values else ("", "")


def _nodes(on: Iterable[NodeFacts | Workload] | None) -> Mapping[str, NodeFacts | Workload | None]:
    """Map each node's name to its facts or to the pod that stands for it. If the cluster as a whole
    is read, map the empty name to None."""
    if on is None:
        return {"": None}
    return {place.node if isinstance(place, Workload) else place.name: place for place in on}


def table(rows: Sequence[tuple[str, str, str, bool]], facts: Found[T]) -> str:
    """Return a table of expected and observed values (rows as in :func:`message.table`), followed
    by the source of each fact."""
    return f"{message.table(rows)}\n\n" + "\n".join(
        f"{name}: {fact.source}" for name, fact in facts.items()
    )


def deviation(
    claims: Sequence[str],
    wrong: Sequence[str],
    facts: Found[T],
    *,
    expected: str,
    because: str,
    do: str,
    tries: str,
) -> str:
    """Return the message about these ``wrong`` facts; the first line is about the first of them.
    ``tries``: how often the facts were read."""
    name = wrong[0]
    fact = facts[name]
    wanted = fact.wanted if isinstance(fact, Announced) and fact.wanted else expected
    lines = [
        f"{', '.join(claims) or 'no claim'}  {name}  expected {wanted}, observed {format_value(facts[name].value)} ({tries})",
        f"  because  {because}",
        f"  read     {facts[name].source}",
    ]
    lines += [f"  also     {other}: {format_value(facts[other].value)}" for other in wrong[1:5]]
    lines += [f"  also     {len(wrong) - 5} more, see the attachment"] if len(wrong) > 5 else []
    lines.append(f"  do       {do}")
    return "\n".join(lines)


def format_value(value: object) -> str:
    """Return a value as people read it: ``true`` as in Kubernetes, lists by their items, builds
    with a dot."""
    if isinstance(value, tuple) and all(isinstance(item, int) for item in value):
        return ".".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | set | frozenset):
        return (
            ", ".join(
                sorted(map(str, value)) if isinstance(value, set | frozenset) else map(str, value)
            )
            or "none"
        )
    return str(value) if str(value) else "nothing"
