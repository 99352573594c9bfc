"""A limitation has three ends: as documented, lifted, or neither; decided path by path beside a witness.

Paths that are not as documented are asked again, whether they are as where the limitation is gone, beside the same
witness: what it shows (that the policy is in force, and that the pods have a network) has to be so both times.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from conformance.errors import ControlBroken, Nonconformance, SuiteError, UsageProblem
from conformance.expect.context import Context, Said
from conformance.expect.engine.pairs import Pairs, each
from conformance.expect.explain import message
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision, Side
from conformance.model.endpoint import Pair
from conformance.verdicts.meaning import of_limitation, of_witness

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


class Paths(TypedDict, total=False):
    """Paths that are open, and paths that are closed; ``at``: the end whose node enforces what is said of them."""

    open: Iterable[Pairs]
    closed: Iterable[Pairs]
    at: Side


Seen = Mapping[tuple[object, object], Said]
Look = Callable[[Context, list[Pair], list[Pair]], object]
"""Asks whether the first paths are open and the others closed, in the same rounds; says to the context what it decided
of each, and raises what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One limitation among several under the same change, each about ports of its own."""

    claim: str = ""
    part: str = ""
    """What is decided counts for this claim and part of the test; empty: for all of them."""
    as_documented: Mapping[Pair, bool] = field(default_factory=dict)
    """Path to whether it is open; where the limitation is gone each of them is not."""
    both: Mapping[Pair, bool] = field(default_factory=dict)
    """Paths that are so whether the limitation is gone or not: VIOLATED where one is not."""
    witness: Mapping[Pair, bool] = field(default_factory=dict)
    """Paths whose state shows that the policies are in force and that the pods have a network."""
    at: Side | None = None
    """The end whose node enforces it, where the policies of the change are about both; None: as the policies say."""

    def keep(self, context: Context) -> Context:
        """The context, where what is decided is decided of this claim and part."""

        def named(seen: Sequence[Decision]) -> object:
            return context.keep([replace(one, claim=self.claim, part=self.part) for one in seen])

        change = context.change()
        change = replace(change, enforced_at=self.at) if change and self.at else change
        return replace(context, keep=named, change=lambda: change)


def states(paths: Paths) -> dict[Pair, bool]:
    """Each path to whether it is open."""
    closed = dict.fromkeys(each(paths.get("closed", ())), False)
    return dict.fromkeys(each(paths.get("open", ())), True) | closed


def part_of(claim: str, part: str, paths: Paths) -> Case:
    """What has one end alone: the paths are so, or it is VIOLATED."""
    return Case(claim=claim, part=part, both=states(paths), at=paths.get("at"))


def case_of(as_documented: Paths, lifted: Paths, witness: Paths) -> Case:
    """The only case of its test.  Raises UsageProblem for paths that do not differ."""
    documented = states(as_documented)
    beside = states(witness)
    if not beside or {pair: not is_open for pair, is_open in documented.items()} != states(lifted):
        raise UsageProblem(
            "expect.limitation(...): name a witness, and each path both as documented and as lifted"
        )
    return Case(as_documented=documented, witness=beside)


def decide(look: Look, context: Context, cases: Sequence[Case], *, because: str) -> None:
    """Say of each case's paths which end they have; what is wrong with one case leaves the others as they are.

    Raises Nonconformance where a path has neither end, or where a witness lets pass what has to be closed;
    ControlBroken where what a witness reaches is lost.
    """
    all_paths = {pair: is_open for case in cases for pair, is_open in _all(case).items()}
    first, wrong = _look(look, context, all_paths)
    errors = [error for case in cases if (error := _of_witness(case, context, first, wrong))]
    errors += (
        [wrong] if wrong and not all_paths.keys() <= first.keys() else []
    )  # nothing is decided of controls
    sound = [case for case in cases if not _broken(case, first)]
    doubtful = [
        case
        for case in sound
        if any(first[pair][0] is ClaimVerdict.VIOLATED for pair in case.as_documented)
    ]
    second: Seen = {}
    still_wrong: Exception | None = None
    if doubtful:
        gone = {
            pair: not is_open
            for case in doubtful
            for pair, is_open in case.as_documented.items()
            if first[pair][0] is ClaimVerdict.VIOLATED
        }
        beside = {
            pair: state
            for case in doubtful
            for pair, state in {**case.witness, **case.both}.items()
        }
        second, still_wrong = _look(look, context, beside | gone)
        errors += [
            error for case in doubtful if (error := _of_witness(case, context, second, still_wrong))
        ]
        sound = [case for case in sound if case not in doubtful or not _broken(case, second)]
    for case in sound:
        told = case.keep(context)
        for source, target in filter(first.__contains__, {**case.both, **case.as_documented}):
            leaked = (source, target) in case.both and first[source, target][
                0
            ] is ClaimVerdict.VIOLATED
            again = (source, target) in second and not leaked
            verdict, reason, half, symptom = (second if again else first)[source, target]
            if (
                again
                and verdict is ClaimVerdict.CONFIRMED
                and (source, target) in case.as_documented
            ):
                state = "closed" if case.as_documented[source, target] else "open"
                verdict = of_limitation(gone=True)
                reason = f"{source.label} -> {target.label} is {state}, although {because}"
            told.decided(source, target, verdict, reason, half, symptom=symptom)
            if verdict is not ClaimVerdict.CONFIRMED and verdict is not ClaimVerdict.LIFTED:
                error = _about(
                    (source, target), reason, verdict, still_wrong if again else wrong, context
                )
                if isinstance(error, Nonconformance) and (source, target) in case.as_documented:
                    error.add_note("  neither   as documented nor as where the limitation is gone")
                errors.append(error)
    if errors:  # what a look itself raised says most
        raise min(
            errors,
            key=lambda one: (not isinstance(one, Nonconformance), one not in (wrong, still_wrong)),
        )


def _all(case: Case) -> dict[Pair, bool]:
    return {**case.witness, **case.both, **case.as_documented}


def _look(
    look: Look, context: Context, paths: Mapping[Pair, bool]
) -> tuple[Seen, Exception | None]:
    """What was decided of each path, and what is wrong with one.  Raises what ended it before anything was."""
    told: dict[tuple[object, object], Said] = {}
    quiet = replace(
        context, take=lambda source, target, said: told.update({(source, target): said})
    )
    try:
        look(
            quiet,
            [pair for pair in paths if paths[pair]],
            [pair for pair in paths if not paths[pair]],
        )
    except (Nonconformance, SuiteError) as error:
        if not told:
            raise
        return told, error
    return told, None


def _broken(case: Case, seen: Seen) -> list[Pair]:
    """Paths of the witness that are not as they are to be, what let pass what was to be closed first."""
    found = [pair for pair in case.witness if seen[pair][0] is not ClaimVerdict.CONFIRMED]
    return sorted(
        found, key=lambda pair: case.witness[pair] or seen[pair][0] is not ClaimVerdict.VIOLATED
    )


def _of_witness(
    case: Case, context: Context, seen: Seen, wrong: Exception | None
) -> Exception | None:
    """What is wrong with a witness, which is said of the case; None: nothing is."""
    found: list[Exception] = []
    for source, target in _broken(case, seen):
        verdict, reason, half, symptom = seen[source, target]
        lost = case.witness[source, target] or verdict is not ClaimVerdict.VIOLATED
        case.keep(context).decided(
            source, target, of_witness(verdict, lost=lost), reason, half, symptom=symptom
        )
        error = _about((source, target), reason, verdict, wrong, context)
        if lost and isinstance(error, Nonconformance):
            error = ControlBroken(message.of_control(str(error)), control=reason, seen=error.seen)
        found.append(error)
    return found[0] if found else None


def _about(
    pair: Pair, reason: str, verdict: ClaimVerdict, wrong: Exception | None, context: Context
) -> Exception:
    """The failure of one path: that of the look, where it is about this path before all others."""
    attempts = wrong.paths if isinstance(wrong, Nonconformance | SuiteError) else ()
    if wrong and (not attempts or (attempts[0].source, attempts[0].target) == pair):
        return wrong
    where = next((one.nodes for one in attempts if (one.source, one.target) == pair), pair[0].node)
    told = f"{', '.join(context.claims)}: {where}: {reason}"
    return (
        Nonconformance(told)
        if verdict is ClaimVerdict.VIOLATED
        else ControlBroken(told, control=reason)
    )
