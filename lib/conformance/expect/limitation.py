# SPDX-License-Identifier: Apache-2.0
"""A limitation has three ends: as documented, lifted, or neither; decided path by path beside a witness.

Paths that are not as documented are asked again, whether they are as where the limitation is gone, beside the same
witness: what it shows (that the policy is in force, and that the pods have a network) has to be so both times.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import ControlBroken, Nonconformance, SuiteError, UsageProblem
from conformance.expect.case import rows_of
from conformance.expect.context import Context, Said
from conformance.expect.explain import message
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Pair
from conformance.verdicts.meaning import of_limitation, of_witness

Look = Callable[[Context, list[Pair], list[Pair]], object]
"""Asks whether the first paths are open and the others closed, in the same rounds; says to the context what it decided
of each, and raises what is wrong."""


@dataclass(frozen=True, kw_only=True)
class LimitedCase:
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

    def keep(self, context: Context) -> Context:
        """Return the context whose decisions count for this claim and part."""
        return context.of_part(self.part, self.claim)


def case_of(cases: Iterable[object]) -> LimitedCase:
    """Return the only limitation of its test.

    Raises UsageProblem where no case is its witness, or none is about it.
    """
    rows = rows_of(cases)
    documented = {pair: case.open for pair, case in rows.items() if not case.witness}
    witness = {pair: case.open for pair, case in rows.items() if case.witness}
    if not documented or not witness:
        raise UsageProblem("expect.limitation(...): name a case, as documented, and a witness")
    return LimitedCase(as_documented=documented, witness=witness)


@dataclass(frozen=True)
class _Answer:
    """What one look decided of each path."""

    context: Context
    seen: Mapping[tuple[object, object], Said] = field(default_factory=dict)
    wrong: Exception | None = None
    """What the look raised."""

    def violates(self, pair: Pair) -> bool:
        return self.seen[pair][0] is ClaimVerdict.VIOLATED

    def broken(self, case: LimitedCase) -> list[Pair]:
        """Paths of the witness that are not as they are to be, what let pass what was to be closed
        first."""
        found = [pair for pair in case.witness if self.seen[pair][0] is not ClaimVerdict.CONFIRMED]
        return sorted(found, key=lambda pair: case.witness[pair] or not self.violates(pair))

    def of_witnesses(self, cases: Sequence[LimitedCase]) -> list[Exception]:
        """Decide of each case that has a broken witness what that means; return the first failure
        of each."""
        found = [[self._of_witness(case, pair) for pair in self.broken(case)] for case in cases]
        return [errors[0] for errors in found if errors]

    def _of_witness(self, case: LimitedCase, pair: Pair) -> Exception:
        verdict, reason, half, symptom = self.seen[pair]
        lost = case.witness[pair] or verdict is not ClaimVerdict.VIOLATED
        case.keep(self.context).decided(
            *pair, of_witness(verdict, lost=lost), reason, half, symptom=symptom
        )
        error = self.failure(pair, reason, verdict)
        if lost and isinstance(error, Nonconformance):
            return ControlBroken(message.of_control(str(error)), control=reason, seen=error.seen)
        return error

    def failure(self, pair: Pair, reason: str, verdict: ClaimVerdict) -> Exception:
        """Return the failure of one path: that of the look, where it is about this path before all
        others."""
        wrong = self.wrong
        attempts = wrong.paths if isinstance(wrong, Nonconformance | SuiteError) else ()
        if wrong and (not attempts or (attempts[0].source, attempts[0].target) == pair):
            return wrong
        nodes = (one.nodes for one in attempts if (one.source, one.target) == pair)
        told = f"{', '.join(self.context.claims)}: {next(nodes, pair[0].node)}: {reason}"
        if verdict is ClaimVerdict.VIOLATED:
            return Nonconformance(told)
        return ControlBroken(told, control=reason)


def decide(look: Look, context: Context, cases: Sequence[LimitedCase], *, because: str) -> None:
    """Say of each case's paths which end they have; what is wrong with one case leaves the others as they are.

    Raises Nonconformance where a path has neither end, or where a witness lets pass what has to be closed;
    ControlBroken where what a witness reaches is lost.
    """
    all_paths: dict[Pair, bool] = {}
    for case in cases:
        all_paths |= {**case.witness, **case.both, **case.as_documented}
    first = _look(look, context, all_paths)
    errors = first.of_witnesses(cases)
    if first.wrong and not all_paths.keys() <= first.seen.keys():
        errors.append(first.wrong)  # nothing is decided of controls
    sound = [case for case in cases if not first.broken(case)]
    doubtful = [case for case in sound if any(map(first.violates, case.as_documented))]
    second = _Answer(context)
    if doubtful:
        second = _look(look, context, _lifted(doubtful, first))
        errors += second.of_witnesses(doubtful)
        sound = [case for case in sound if case not in doubtful or not second.broken(case)]
    for case in sound:
        errors += _ends(case, first, second, because)
    if errors:  # what a look itself raised says most
        raised = (first.wrong, second.wrong)
        raise min(errors, key=lambda one: (not isinstance(one, Nonconformance), one not in raised))


def _lifted(cases: Sequence[LimitedCase], first: _Answer) -> dict[Pair, bool]:
    """Return the witnesses' paths as they are, and those not as documented as where the limitation
    is gone."""
    beside: dict[Pair, bool] = {}
    gone: dict[Pair, bool] = {}
    for case in cases:
        beside |= {**case.witness, **case.both}
        documented = case.as_documented.items()
        gone |= {pair: not is_open for pair, is_open in documented if first.violates(pair)}
    return beside | gone


def _ends(case: LimitedCase, first: _Answer, second: _Answer, because: str) -> list[Exception]:
    """Decide which end each path of a case has, and return what is wrong."""
    errors = []
    context = case.keep(first.context)
    for pair in filter(first.seen.__contains__, {**case.both, **case.as_documented}):
        answer = (
            second
            if pair in second.seen and not (pair in case.both and first.violates(pair))
            else first
        )
        verdict, reason, half, symptom = answer.seen[pair]
        documented = pair in case.as_documented
        if answer is second and verdict is ClaimVerdict.CONFIRMED and documented:
            state = "closed" if case.as_documented[pair] else "open"
            verdict = of_limitation(gone=True)
            reason = f"{pair[0].label} -> {pair[1].label} is {state}, although {because}"
        context.decided(*pair, verdict, reason, half, symptom=symptom)
        if verdict not in (ClaimVerdict.CONFIRMED, ClaimVerdict.LIFTED):
            error = answer.failure(pair, reason, verdict)
            if isinstance(error, Nonconformance) and documented:
                error.add_note("  neither   as documented nor as where the limitation is gone")
            errors.append(error)
    return errors


def _look(look: Look, context: Context, paths: Mapping[Pair, bool]) -> _Answer:
    """Return what was decided of each path, and what is wrong with one.  Raises what ended it
    before anything was."""
    told: dict[tuple[object, object], Said] = {}
    quiet = replace(context, undelivered=told)
    try:
        look(
            quiet,
            [pair for pair in paths if paths[pair]],
            [pair for pair in paths if not paths[pair]],
        )
    except (Nonconformance, SuiteError) as error:
        if not told:
            raise
        return _Answer(context, told, error)
    return _Answer(context, told)
