"""A limitation has three ends: as documented, lifted, or neither; decided path by path beside a witness.

Paths that are not as documented are asked again, whether they are as where the limitation is gone, beside the same
witness: what it shows (that the policy is in force, and that the pods have a network) has to be so both times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TypedDict

from conformance.errors import ControlBroken, Nonconformance, SuiteError, UsageProblem
from conformance.expect.context import Context
from conformance.expect.engine.pairs import Pairs, each
from conformance.expect.explain import message
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Half, Symptom
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.facts import NodeFacts

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


class Paths(TypedDict, total=False):
    """Paths that are open, and paths that are closed."""

    open: Iterable[Pairs]
    closed: Iterable[Pairs]


Told = tuple[ClaimVerdict, str, Half, Symptom]
Look = Callable[[Context, list[Pair], list[Pair]], object]
"""Asks whether the first paths are open and the others closed, in the same rounds; says to the context what it decided
of each, and raises what is wrong."""


@dataclass(frozen=True)
class _Quiet(Context):
    """Takes down what is decided of each path, and tells nobody yet."""

    told: dict[tuple[object, object], Told] = field(default_factory=dict)

    def decided(
        self,
        source: Workload | None,
        target: Workload | Target | NodeFacts | None,
        verdict: ClaimVerdict,
        reason: str,
        half: Half = "open",
        *,
        symptom: Symptom = ("", ""),
    ) -> None:
        """Take it down."""
        self.told[source, target] = (verdict, reason, half, symptom)


def states(paths: Paths) -> dict[Pair, bool]:
    """Each path to whether it is open."""
    closed = dict.fromkeys(each(paths.get("closed", ())), False)
    return dict.fromkeys(each(paths.get("open", ())), True) | closed


def decide(
    look: Look,
    context: Context,
    *,
    as_documented: Mapping[Pair, bool],
    lifted: Mapping[Pair, bool],
    witness: Mapping[Pair, bool],
    because: str,
) -> None:
    """Say of each path which end it has; the paths are :func:`states`.

    Raises Nonconformance where one has neither, or where the witness lets pass what has to be closed; ControlBroken
    where what the witness reaches is lost; UsageProblem for paths that do not differ.
    """
    if not witness or {pair: not is_open for pair, is_open in as_documented.items()} != lifted:
        raise UsageProblem("expect.limitation(...): name a witness, and each path both as documented and as lifted")
    first, wrong = _look(look, context, as_documented, witness)
    others = {pair: lifted[pair] for pair in as_documented if first[pair][0] is ClaimVerdict.VIOLATED}
    second, still_wrong = _look(look, context, others, witness) if others else ({}, None)
    for source, target in as_documented:
        verdict, reason, half, symptom = second.get((source, target), first[source, target])
        if (source, target) in second and verdict is ClaimVerdict.CONFIRMED:
            state = "open" if others[source, target] else "closed"
            verdict, reason = ClaimVerdict.LIFTED, f"{source.label} -> {target.label} is {state}, although {because}"
        context.decided(source, target, verdict, reason, half, symptom=symptom)
    if error := still_wrong if others else wrong:
        if isinstance(error, Nonconformance):
            error.add_note("  neither   as documented nor as where the limitation is gone")
        raise error


def _look(
    look: Look, context: Context, paths: Mapping[Pair, bool], witness: Mapping[Pair, bool]
) -> tuple[Mapping[tuple[object, object], Told], Exception | None]:
    """What was decided of each path, and what is wrong with one.  Raises what is wrong with the witness."""
    quiet, both = _Quiet(**{item.name: getattr(context, item.name) for item in fields(Context)}), {**witness, **paths}
    wrong: Exception | None = None
    try:
        look(quiet, [pair for pair in both if both[pair]], [pair for pair in both if not both[pair]])
    except (Nonconformance, SuiteError) as error:
        wrong = error
    if wrong and not both.keys() <= quiet.told.keys():  # it ended before anything was decided
        raise wrong
    for (source, target), is_open in witness.items():
        verdict, reason, half, symptom = quiet.told[source, target]
        if verdict is not ClaimVerdict.CONFIRMED and wrong:
            lost = is_open or verdict is not ClaimVerdict.VIOLATED
            context.decided(
                source, target, ClaimVerdict.INCONCLUSIVE if lost else verdict, reason, half, symptom=symptom
            )
            if lost and isinstance(wrong, Nonconformance):
                raise ControlBroken(message.of_control(str(wrong)), control=reason, seen=wrong.seen)
            raise wrong
    return quiet.told, wrong
