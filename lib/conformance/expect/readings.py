"""Expectations about what was read from the cluster: facts with their sources against what a claim says.

A deviation is Unmet; what that means follows from the claim's kind: a requirement is UNMET, anything else VIOLATED.
Nothing read here ever shows that a limitation is gone.  What could not be read decides nothing: MissingCapability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from conformance.errors import MissingCapability, Unmet
from conformance.expect.context import Context
from conformance.expect.explain import message
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import seen_on
from conformance.model.facts import Announced, Fact, NodeFacts

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

T = TypeVar("T")


@dataclass
class Readings:
    """The expectations of one test about facts by their names, such as ``IPPool a .spec.ipipMode``."""

    context: Context = field(default_factory=Context)

    def equal(self, facts: Mapping[str, Fact[T]], wanted: T, *, because: str, do: str) -> None:
        """Every fact has the wanted value."""
        self.each(facts, lambda value: value == wanted, shown(wanted), because=because, do=do)

    def each(
        self, facts: Mapping[str, Fact[T]], right: Callable[[T], bool], expected: str, *, because: str, do: str
    ) -> None:
        """Every fact is as ``expected`` says, and ``right`` decides.  ``do``: the command or step that mends it."""
        known: dict[str, T] = {}
        for name, fact in facts.items():
            if fact.value is None:
                raise MissingCapability(f"{name} could not be read: {fact.source}", "let the run's user read it")
            known[name] = fact.value
        if not known:
            raise MissingCapability(
                f"nothing could be read that is to be {expected}", "let the run's user read Calico's objects and nodes"
            )
        rows = [(name, expected, shown(value), right(value)) for name, value in known.items()]
        self.context.attach("read", table(rows, facts))
        wrong = [name for name, _, _, fits in rows if not fits]
        verdict = ClaimVerdict.UNMET if wrong else ClaimVerdict.CONFIRMED
        self.context.decided(None, None, verdict, because, "read")
        if wrong:
            raise Unmet(deviation(self.context.claims, wrong, facts, expected=expected, because=because, do=do))

    def on_nodes(
        self,
        nodes: Iterable[NodeFacts],
        read: Callable[[str], Mapping[str, Fact[T]]],
        wanted: T,
        *,
        because: str,
        do: str,
    ) -> None:
        """Every fact that ``read`` finds of each of these nodes, by its name, has the wanted value.

        Each node is a decision of its own, NOT_RUN where nothing is to be read.  Raises as :meth:`equal`, and
        MissingCapability where that is so of all of them.
        """
        facts: dict[str, Fact[T]] = {}
        lacking = MissingCapability("there is no node to read about", "run it on a cluster with one")
        for node in nodes:
            found = read(node.name)
            unknown = next(
                (f"{name} could not be read: {fact.source}" for name, fact in found.items() if not fact.known), ""
            )
            if unknown or not found:
                lacking = MissingCapability(unknown or f"there is nothing to read about node {node.name}", do)
                self.context.keep([seen_on(node, ClaimVerdict.NOT_RUN, str(lacking), "read")])
                continue
            facts |= found
            wrong = [name for name, fact in found.items() if fact.value != wanted]
            first = f"{wrong[0]}: {shown(found[wrong[0]].value)}" if wrong else because
            verdict = ClaimVerdict.UNMET if wrong else ClaimVerdict.CONFIRMED
            self.context.keep([seen_on(node, verdict, first, "read")])
        if not facts:
            raise lacking
        rows = [(name, shown(wanted), shown(fact.value), fact.value == wanted) for name, fact in facts.items()]
        self.context.attach("read", table(rows, facts))
        if all_wrong := [name for name, fact in facts.items() if fact.value != wanted]:
            expected = shown(wanted)
            raise Unmet(deviation(self.context.claims, all_wrong, facts, expected=expected, because=because, do=do))


def table(rows: Sequence[tuple[str, str, str, bool]], facts: Mapping[str, Fact[T]]) -> str:
    """Expected and observed side by side (rows as of :func:`message.table`), then where each was read."""
    return f"{message.table(rows)}\n\n" + "\n".join(f"{name}: {fact.source}" for name, fact in facts.items())


def deviation(
    claims: Sequence[str],
    wrong: Sequence[str],
    facts: Mapping[str, Fact[T]],
    *,
    expected: str,
    because: str,
    do: str,
    tries: str = "read once",
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
        return ", ".join(sorted(map(str, value)) if isinstance(value, set | frozenset) else map(str, value)) or "none"
    return str(value) if str(value) else "nothing"
