# SPDX-License-Identifier: Apache-2.0
"""Decides a limitation path by path, with a witness: the limitation is as documented, lifted, or
neither.

Paths that are not as documented are probed again. This time, the results of a lifted limitation are
expected. Both times, the same witness must show that the policy is in force and that the pods have
a network.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import ControlBroken, Nonconformance, SuiteError, UsageProblem
from conformance.expect.case import Row, rows_of
from conformance.expect.context import Context, DecisionParts
from conformance.expect.explain import message
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Pair
from conformance.verdicts.meaning import of_limitation, of_witness

Look = Callable[[Context, list[Pair], list[Pair]], object]
"""Probes two lists of paths in the same rounds: the first should be open, the second closed. Passes
each decision to the context, and raises the failure."""


@dataclass(frozen=True, kw_only=True)
class LimitedCase:
    """A limitation that is tested together with others under the same change. Each limitation has
    ports of its own."""

    part: str = ""
    """The part of the test's claims that the decisions are about; empty: all parts."""
    as_documented: Mapping[Pair, bool] = field(default_factory=dict)
    """The state of each path under the limitation (True: open). Without the limitation, each path
    has the opposite state."""
    both: Mapping[Pair, bool] = field(default_factory=dict)
    """Paths with the same expected result with and without the limitation; any other result is
    VIOLATED."""
    witness: Mapping[Pair, bool] = field(default_factory=dict)
    """Paths whose state shows that the policies are in force and that the pods have a network."""
    because: Mapping[Pair, str] = field(default_factory=dict)
    """The reason why each path is as documented."""


def of_parts(items: Iterable[object]) -> list[LimitedCase]:
    """Return a limitation for each part that rows name, with the part's own witnesses and the
    witnesses that belong to all parts.

    Raise UsageProblem if a limitation has no witness, or if no row is about a limitation.
    """
    rows = rows_of(items)
    parts = dict.fromkeys(row.part for row in rows.values() if not row.witness)
    limited = [_of_part(part, rows) for part in parts]
    if not limited or not all(case.witness for case in limited):
        raise UsageProblem(
            "expect.limitation(...): name a case with the documented result, and a witness"
        )
    return limited


def _of_part(part: str, rows: Mapping[Pair, Row]) -> LimitedCase:
    """Return the limitation of this part."""
    about = {pair: row for pair, row in rows.items() if row.part == part and not row.witness}
    return LimitedCase(
        part=part,
        as_documented={pair: row.open for pair, row in about.items() if not row.always},
        both={pair: row.open for pair, row in about.items() if row.always},
        witness={
            pair: row.open for pair, row in rows.items() if row.witness and row.part in ("", part)
        },
        because={pair: row.because for pair, row in about.items()},
    )


@dataclass(frozen=True)
class _Answer:
    """The decisions of one round of probing (a :data:`Look`)."""

    context: Context
    decisions: Mapping[tuple[object, object], DecisionParts] = field(default_factory=dict)
    wrong: Exception | None = None
    """The exception that probing raised."""

    def violates(self, pair: Pair) -> bool:
        return self.decisions[pair][0] is ClaimVerdict.VIOLATED

    def broken(self, case: LimitedCase) -> list[Pair]:
        """Return the witness' paths with an unexpected result, leaks first."""
        found = [
            pair for pair in case.witness if self.decisions[pair][0] is not ClaimVerdict.CONFIRMED
        ]
        return sorted(found, key=lambda pair: case.witness[pair] or not self.violates(pair))

    def of_witnesses(self, cases: Sequence[LimitedCase]) -> list[Exception]:
        """Decide each case whose witness is broken; return the first failure of each such case."""
        found = [[self._of_witness(case, pair) for pair in self.broken(case)] for case in cases]
        return [errors[0] for errors in found if errors]

    def _of_witness(self, case: LimitedCase, pair: Pair) -> Exception:
        verdict, reason, half, symptom = self.decisions[pair]
        lost = case.witness[pair] or verdict is not ClaimVerdict.VIOLATED
        self.context.of_part(case.part).decided(
            *pair, of_witness(verdict, lost=lost), reason, half, symptom=symptom
        )
        error = self.failure(pair, reason, verdict)
        if lost and isinstance(error, Nonconformance):
            return ControlBroken(
                message.of_control(str(error)), control=reason, observations=error.observations
            )
        return error

    def failure(self, pair: Pair, reason: str, verdict: ClaimVerdict) -> Exception:
        """Return the failure of a path. If probing raised an exception about this path, return the
        exception; otherwise return a new failure."""
        wrong = self.wrong
        attempts = wrong.paths if isinstance(wrong, Nonconformance | SuiteError) else ()
        if wrong and (not attempts or (attempts[0].source, attempts[0].target) == pair):
            return wrong
        nodes = (attempt.nodes for attempt in attempts if (attempt.source, attempt.target) == pair)
        text = f"{', '.join(self.context.claims)}: {next(nodes, pair[0].node)}: {reason}"
        if verdict is ClaimVerdict.VIOLATED:
            return Nonconformance(text)
        return ControlBroken(text, control=reason)


def decide(look: Look, context: Context, cases: Sequence[LimitedCase]) -> None:
    """Decide the result of each case's paths; a failed case does not affect the other cases.

    Raise Nonconformance if a path is neither as documented nor as without the limitation, or if a
    witness' path that must be closed is open. Raise ControlBroken if a witness' open path is lost.
    """
    all_paths: dict[Pair, bool] = {}
    for case in cases:
        all_paths |= {**case.witness, **case.both, **case.as_documented}
    first = _look(look, context, all_paths)
    errors = first.of_witnesses(cases)
    if first.wrong and not all_paths.keys() <= first.decisions.keys():
        errors.append(first.wrong)  # the probing failed before every path was decided
    sound = [case for case in cases if not first.broken(case)]
    doubtful = [case for case in sound if any(map(first.violates, case.as_documented))]
    second = _Answer(context)
    if doubtful:
        second = _look(look, context, _lifted(doubtful, first))
        errors += second.of_witnesses(doubtful)
        sound = [case for case in sound if case not in doubtful or not second.broken(case)]
    for case in sound:
        errors += _ends(case, first, second)
    if errors:  # an error that probing raised has the most precise message
        raised = (first.wrong, second.wrong)
        raise min(
            errors, key=lambda error: (not isinstance(error, Nonconformance), error not in raised)
        )


def _lifted(cases: Sequence[LimitedCase], first: _Answer) -> dict[Pair, bool]:
    """Return the states of paths that the second round of probing expects.

    The expected states of witnesses stay. A path that is not as documented gets the state that it
    has if the limitation is lifted.
    """
    beside: dict[Pair, bool] = {}
    gone: dict[Pair, bool] = {}
    for case in cases:
        beside |= {**case.witness, **case.both}
        documented = case.as_documented.items()
        gone |= {pair: not is_open for pair, is_open in documented if first.violates(pair)}
    return beside | gone


def _ends(case: LimitedCase, first: _Answer, second: _Answer) -> list[Exception]:
    """Decide the result of each path of a case, and return the failures."""
    errors = []
    context = first.context.of_part(case.part)
    for pair in filter(first.decisions.__contains__, {**case.both, **case.as_documented}):
        answer = (
            second
            if pair in second.decisions and not (pair in case.both and first.violates(pair))
            else first
        )
        verdict, reason, half, symptom = answer.decisions[pair]
        documented = pair in case.as_documented
        if answer is second and verdict is ClaimVerdict.CONFIRMED and documented:
            state = "closed" if case.as_documented[pair] else "open"
            verdict = of_limitation(gone=True)
            reason = f"{pair[0].label} -> {pair[1].label} is {state}, although {case.because[pair]}"
        context.decided(*pair, verdict, reason, half, symptom=symptom)
        if verdict not in (ClaimVerdict.CONFIRMED, ClaimVerdict.LIFTED):
            error = answer.failure(pair, reason, verdict)
            if isinstance(error, Nonconformance) and documented:
                error.add_note(
                    "  so        neither as documented nor as it would be without the limitation"
                )
            errors.append(error)
    return errors


def _look(look: Look, context: Context, paths: Mapping[Pair, bool]) -> _Answer:
    """Probe the paths. Return the decision of each path, and the error of the probing, if any.
    Raise an error that came before any decision."""
    by_pair: dict[tuple[object, object], DecisionParts] = {}
    quiet = replace(context, undelivered=by_pair)
    try:
        look(
            quiet,
            [pair for pair in paths if paths[pair]],
            [pair for pair in paths if not paths[pair]],
        )
    except (Nonconformance, SuiteError) as error:
        if not by_pair:
            raise
        return _Answer(context, by_pair, error)
    return _Answer(context, by_pair)
