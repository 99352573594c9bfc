# SPDX-License-Identifier: Apache-2.0
"""How the paths of one expectation ended, and what is reported of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.errors import EnvironmentBroken
from conformance.expect.engine.answered import as_wanted, unexpected_backend, with_who
from conformance.expect.engine.decide import (
    Broken,
    BrokenControl,
    Held,
    Path,
    Standing,
    Why,
    Wrong,
)
from conformance.expect.explain import message
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation, Verdict
from conformance.verdicts.meaning import of_path

SHORT_LIVED = frozenset({Verdict.RESET, Verdict.CLOSED, Verdict.NO_ANSWER})
"""Connected, and then of no use."""


@dataclass
class Outcome:
    """One path's end."""

    path: Path
    standing: Standing
    is_control: bool
    """Whether the path was to be open, or closed, for others' sake only."""
    is_witness: bool = False
    """Of such a one: whether it only shows that policies are in force, so that another claim speaks of what passes."""
    because: str = ""
    """Why the path is to be open, or closed."""
    wavered: str = ""
    """What was seen of it earlier in the run, when it lost connections; it is asked once more now."""

    @property
    def seen(self) -> list[Observation]:
        """All that its attempts showed, oldest first."""
        return self.path.seen

    @property
    def label(self) -> str:
        return self.path.attempt.label

    @property
    def expected(self) -> str:
        """As messages say it."""
        if not self.path.want:
            return "TIMED_OUT"
        target = self.path.attempt.target
        if target is not None and any(map(unexpected_backend, self.seen)):
            return f"an answer of {' or '.join(f'{pod.namespace}/{pod.pod}' for pod in target.backends)}"
        return "CONNECTED"

    @property
    def observed(self) -> str:
        """What its newest attempts showed, as many as have to agree: each verdict once."""
        newest = self.seen[-self.path.rule.agree :]
        return " or ".join(dict.fromkeys(str(seen.verdict.value) for seen in newest)) or "nothing"

    @property
    def held(self) -> bool:
        return isinstance(self.standing, Held)

    @property
    def looks_right(self) -> bool:
        """Whether nothing that was seen of the path itself is wrong, though it may not be decided."""
        return self.held or (
            isinstance(self.standing, BrokenControl)
            and bool(self.seen)
            and as_wanted(self.seen[-1], self.path.want)
        )

    @property
    def verdict(self) -> ClaimVerdict:
        """What it says about a claim that needs it to be so."""
        answers = not self.is_control or (self.passes_policy and not self.is_witness)
        wrong = isinstance(self.standing, Wrong) and answers
        return of_path(held=self.held, wavered=bool(self.wavered), wrong=wrong)

    @property
    def passes_policy(self) -> bool:
        """Whether packets get through where a policy is to close the path: that is wrong of a control, too."""
        return (
            isinstance(self.standing, Wrong)
            and self.standing.why in (Why.OPEN, Why.LEAK)
            and not self.path.want
        )

    @property
    def nodes(self) -> str:
        """``linux-1 -> windows-2``, of a NodePort the node that was called; where the target is no pod, its host."""
        target = self.path.attempt.target
        ends = () if target is None else (target.at,) if target.at else target.backends
        goals = dict.fromkeys(end.node for end in ends)
        return f"{self.path.attempt.source.node} -> {', '.join(goals) or (target.host if target else '?')}"

    @property
    def rank(self) -> int:
        """Rank of a failure; the lowest of several is told first."""
        match self.standing:
            case Wrong() if not self.path.want and not self.is_witness:
                return 0
            case Wrong() if not self.is_control:
                return 1
            case Broken(error=EnvironmentBroken()):
                return 2
            case Broken():
                return 3
            case _ if self.path.want:
                return 4
            case BrokenControl(why=Why.ASTRAY):
                return 5
            case _:
                return 6

    def explanation(self, claims: Sequence[str], do: str = "") -> Explanation:
        """What was expected of it and seen."""
        return message.explanation(
            claims, self.path.attempt, self.expected, self.seen, self.path.seconds, do=do
        )

    def explained(self, claims: Sequence[str], by: str, do: str = "") -> Explanation:
        """The same, with what explains it."""
        return message.explained(self.explanation(claims, do), by=by)

    @property
    def reason(self) -> str:
        """One line: enough on its own.  Of an open path it says, too, where nobody told who answered."""
        if isinstance(self.standing, Held) and self.wavered:
            row = counted(len(self.standing.row), "connection", "connections")
            return (
                f"{self.label}  expected {self.expected}, observed {self.wavered} earlier in the run, and {row} in a "
                "row at its end: what is between the nodes lost packets for a while"
            )
        if isinstance(self.standing, Held):
            return with_who(self.because, self.standing.seen) if self.path.want else self.because
        if isinstance(self.standing, Broken):
            return str(self.standing.error)
        why = str(
            self.standing.why if isinstance(self.standing, Wrong | BrokenControl) else Why.BROKEN
        )
        if why == Why.CLOSED and any(seen.verdict in SHORT_LIVED for seen in self.seen):
            why = "no connection stays"
        before = f", and {self.wavered} earlier in the run" if self.wavered else ""
        return f"{self.label}  expected {self.expected}, observed {message.summary(self.seen)}{before}: {why}"


def table(outcomes: Sequence[Outcome]) -> str:
    """Expected and observed side by side."""
    return message.table(
        [
            (outcome.label, outcome.expected, message.summary(outcome.seen), outcome.looks_right)
            for outcome in outcomes
        ]
    )
