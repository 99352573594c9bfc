"""Expectations about what was read: facts with their sources against what a claim says, node by node.

A deviation is Unmet; what that means follows from the claim's kind: a requirement is UNMET, a recommendation ADVISED,
anything else VIOLATED.  That a limitation is gone is read only where Calico itself made what is there (``lifted``).
What could not be read decides nothing: NOT_RUN; a look into a node that broke is INCONCLUSIVE.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from conformance.errors import MissingCapability, Nonconformance, SuiteError, Unmet, first_line
from conformance.expect.context import Context
from conformance.expect.explain import message
from conformance.expect.tally import Tally
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.facts import Announced, Fact, NodeFacts
from conformance.settings import Timings, load_timings
from conformance.timing import SYSTEM_CLOCK, Clock, Deadline, Settled, until
from conformance.verdicts.meaning import of_limitation

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

T = TypeVar("T")
Found = Mapping[str, Fact[T]]
"""Facts by their names, such as ``IPPool a .spec.ipipMode``."""


@dataclass
class Readings:
    """The expectations of one test about facts by their names."""

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
        """Every fact is as ``right`` says: a value, or what decides of one, which ``expected`` then puts into words.

        ``on``: the nodes that ``facts`` reads of, each by its name; a pod stands for its node.  What a look into a node
        finds otherwise is believed when it lasts as long as Services may take: calico-node lays routes when a block is
        claimed, and again when it starts.  ``lifted``: decides of a fact that is otherwise whether it is what Calico
        makes where the limitation is gone.  ``do``: the command or step that mends it.

        Raises Unmet where a fact is otherwise, MissingCapability where nothing could be read.
        """
        check: Callable[[T], bool] = right if callable(right) else lambda value: value == right
        expected = expected or shown(right)
        tally = Tally(self.context, "read")
        decided = False
        deadline = None
        lacking: MissingCapability | None = None
        for node, place in _nodes(on).items():
            timings = self.timings.of(place.os) if place else self.timings.linux
            deadline = deadline or Deadline(timings.service_effect, self.clock)
            patient = isinstance(place, Workload)  # what the API says is read once
            symptom = ("", "")
            try:
                settled = until(
                    partial(_known, facts, node, expected, do),
                    lambda found: all(
                        fact.value is not None and check(fact.value) for fact in found.values()
                    ),
                    within=deadline.remaining,
                    every=timings.poll_every,
                    description=because,
                    clock=self.clock,
                    hopeless=(lambda _: False) if patient else (lambda _: True),
                )
                symptom = _symptom(settled.last, check, expected)
                gone = self._gone(node, settled.last, check, lifted)
                if not gone:
                    self._compare(node, settled, check, expected, because=because, do=do)
            except MissingCapability as error:
                lacking = lacking or error
                if place is not None:
                    self.context.decided(
                        None, place, ClaimVerdict.NOT_RUN, first_line(error), "read"
                    )
            except (Nonconformance, SuiteError) as error:
                decided = True
                tally.wrong(None, place, error, symptom)
            else:
                decided = True
                tally.right(None, place, gone or because, of_limitation(bool(gone)))
        tally.end()
        if not decided:
            raise lacking or MissingCapability(
                f"no node is there to have {expected}", "cover a node: --nodes"
            )

    def _gone(
        self,
        node: str,
        found: Found[T],
        check: Callable[[T], bool],
        lifted: Callable[[T], bool] | None,
    ) -> str:
        """What shows that a limitation is gone, with all else as documented; empty: nothing does."""
        others = {
            name: fact
            for name, fact in found.items()
            if fact.value is not None and not check(fact.value)
        }
        if (
            lifted is None
            or not others
            or not all(lifted(fact.value) for fact in others.values() if fact.value)
        ):
            return ""
        told = "; ".join(
            f"{name}: {shown(fact.value)} ({fact.source})" for name, fact in others.items()
        )
        self.context.attach(f"limitation gone on node {node}" if node else "limitation gone", told)
        return told

    def _compare(
        self,
        node: str,
        settled: Settled[Found[T]],
        check: Callable[[T], bool],
        expected: str,
        *,
        because: str,
        do: str,
    ) -> None:
        """Raises Unmet where a fact is otherwise."""
        found = settled.last
        times = len(settled.answers)
        values = {name: fact.value for name, fact in found.items() if fact.value is not None}
        rows = [(name, expected, shown(value), check(value)) for name, value in values.items()]
        self.context.attach(f"read on node {node}" if node else "read", table(rows, found))
        if wrong := [name for name, *_, fits in rows if not fits]:
            tries = (
                "read once"
                if times == 1
                else f"read {counted(times, 'time')}, {settled.seconds:.1f} s"
            )
            claims = self.context.claims
            raise Unmet(
                deviation(
                    claims, wrong, found, expected=expected, because=because, do=do, tries=tries
                )
            )


def _known(
    facts: Found[T] | Callable[[str], Found[T]], node: str, expected: str, do: str
) -> Found[T]:
    """What is read now.  Raises MissingCapability where something could not be, or there is nothing."""
    found = facts(node) if callable(facts) else facts
    unknown = [
        f"{name} could not be read: {fact.source}" for name, fact in found.items() if not fact.known
    ]
    if not found:
        unknown = [
            f"nothing could be read{f' of node {node}' if node else ''} that is to be {expected}"
        ]
    if unknown:
        raise MissingCapability(unknown[0], do)
    return found


def _symptom(found: Found[T], check: Callable[[T], bool], expected: str) -> tuple[str, str]:
    values = [
        fact.value for fact in found.values() if fact.value is not None and not check(fact.value)
    ]
    return (expected, ", ".join(dict.fromkeys(map(shown, values)))) if values else ("", "")


def _nodes(on: Iterable[NodeFacts | Workload] | None) -> Mapping[str, NodeFacts | Workload | None]:
    """Node to what stands for it, each once; nothing by no name where it is the cluster that was read."""
    if on is None:
        return {"": None}
    return {place.node if isinstance(place, Workload) else place.name: place for place in on}


def table(rows: Sequence[tuple[str, str, str, bool]], facts: Found[T]) -> str:
    """Expected and observed side by side (rows as of :func:`message.table`), then where each was read."""
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
    """The message about the facts of these names, the first of them first; ``tries``: how often it was read."""
    name = wrong[0]
    fact = facts[name]
    wanted = fact.wanted if isinstance(fact, Announced) and fact.wanted else expected
    lines = [
        f"{', '.join(claims) or 'no claim'}  {name}  expected {wanted}, observed {shown(facts[name].value)} ({tries})",
        f"  because  {because}",
        f"  read     {facts[name].source}",
    ]
    lines += [f"  also     {other}: {shown(facts[other].value)}" for other in wrong[1:5]]
    lines += [f"  also     {len(wrong) - 5} more, see the attachment"] if len(wrong) > 5 else []
    lines.append(f"  do       {do}")
    return "\n".join(lines)


def shown(value: object) -> str:
    """As people read it: ``true`` as Kubernetes writes it, lists by their members, builds with a dot."""
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
