# SPDX-License-Identifier: Apache-2.0
"""The result of each path of an expectation, and its report."""

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.errors import EnvironmentBroken
from conformance.expect.engine.answered import as_wanted, unexpected_backend, with_who
from conformance.expect.engine.decide import Broken, BrokenControl, Held, Standing, Wrong
from conformance.expect.engine.path import Path, Why
from conformance.expect.explain import message
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.decision import UNANSWERED, Side
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation, Verdict
from conformance.verdicts.meaning import of_path

SHORT_LIVED = frozenset({Verdict.RESET, Verdict.CLOSED, Verdict.NO_ANSWER})
"""The verdicts of a path that connected, but without a usable answer."""


@dataclass
class Outcome:
    """The result of a path."""

    path: Path
    standing: Standing
    is_control: bool
    """The path is only a control of other paths."""
    is_witness: bool = False
    """The path only shows that policies are in force; another claim decides whether packets may
    pass."""
    because: str = ""
    """The reason why the path should be open, or closed."""
    at: Side | None = None
    """The end whose node enforces the policies that the path's row is about; None: the end that the
    change selects."""
    wavered: str = ""
    """The observations from earlier in the run, when the path lost connections; now the path is
    tried once more."""

    @property
    def observations(self) -> list[Observation]:
        """Return all observations of the path's attempts, oldest first."""
        return self.path.observations

    @property
    def label(self) -> str:
        return self.path.attempt.label

    @property
    def expected(self) -> str:
        """Return the expected result in the words of messages."""
        if not self.path.want:
            return "TIMED_OUT"
        target = self.path.attempt.target
        if target is not None and any(map(unexpected_backend, self.observations)):
            return f"an answer of {' or '.join(f'{pod.namespace}/{pod.pod}' for pod in target.backends)}"
        return "CONNECTED"

    @property
    def observed(self) -> str:
        """Return the different verdicts of the newest attempts. The number of these attempts is the
        number that must agree (``Rule.agree``)."""
        newest = self.observations[-self.path.rule.agree :]
        return (
            " or ".join(dict.fromkeys(str(observation.verdict.value) for observation in newest))
            or "nothing"
        )

    @property
    def held(self) -> bool:
        return isinstance(self.standing, Held)

    @property
    def looks_right(self) -> bool:
        """Return whether the observations of the path itself are right, even if a broken control
        leaves the path undecided."""
        return self.held or (
            isinstance(self.standing, BrokenControl)
            and bool(self.observations)
            and as_wanted(self.observations[-1], self.path.want)
        )

    @property
    def verdict(self) -> ClaimVerdict:
        """Return the verdict for a claim that needs the path to be as expected."""
        answers = not self.is_control or (self.passes_policy and not self.is_witness)
        wrong = isinstance(self.standing, Wrong) and answers
        return of_path(held=self.held, wavered=bool(self.wavered), wrong=wrong)

    @property
    def passes_policy(self) -> bool:
        """Return whether packets pass although a policy should close the path. That is a failure
        even if the path is only a control."""
        return (
            isinstance(self.standing, Wrong)
            and self.standing.why in (Why.OPEN, Why.LEAK)
            and not self.path.want
        )

    @property
    def nodes(self) -> str:
        """Return ``linux-1 -> windows-2``. The target's node is the called node for a NodePort, and
        the host for a target that is no pod.
        """
        target = self.path.attempt.target
        ends = () if target is None else (target.at,) if target.at else target.backends
        goals = dict.fromkeys(end.node for end in ends)
        return f"{self.path.attempt.source.node} -> {', '.join(goals) or (target.host if target else '?')}"

    @property
    def rank(self) -> int:
        """Return the rank of a failure; the failure with the lowest rank is reported first."""
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
        """Return the explanation of expected and observed results."""
        return message.explanation(
            claims, self.path.attempt, self.expected, self.observations, self.path.seconds, do=do
        )

    def explained(self, claims: Sequence[str], by: str, do: str = "") -> Explanation:
        """Return the explanation with its cause, ``by``, in front."""
        return message.explained(self.explanation(claims, do), by=by)

    @property
    def _unanswered(self) -> str:
        """Describe how many attempts of an open path got no answer although an earlier attempt had
        connected. Return an empty string if there are none.

        Such losses count only if the test made no change that explains them. Attempts before the
        first connection do not count: they may have begun before the rules of a new Service were in
        place.
        """
        verdicts = [item.verdict for item in self.observations]
        if not self.path.steady or Verdict.CONNECTED not in verdicts:
            return ""
        later = verdicts[verdicts.index(Verdict.CONNECTED) :]
        lost = later.count(Verdict.TIMED_OUT) + later.count(Verdict.NO_ANSWER)
        return f"; {counted(lost, 'attempt')} before {UNANSWERED}" if lost else ""

    @property
    def reason(self) -> str:
        """Return a line that a reader understands without other text. If no server of an open path
        reported its name, the line says this."""
        if isinstance(self.standing, Held) and self.wavered:
            row = counted(len(self.standing.row), "connection", "connections")
            return (
                f"{self.label}  expected {self.expected}, observed {self.wavered} earlier in the run, and {row} in a "
                "row at its end: the network between the nodes lost packets for a while"
            )
        if isinstance(self.standing, Held):
            if not self.path.want:
                return self.because
            return with_who(self.because, self.standing.observations) + self._unanswered
        if isinstance(self.standing, Broken):
            return str(self.standing.error)
        why = str(
            self.standing.why if isinstance(self.standing, Wrong | BrokenControl) else Why.BROKEN
        )
        if why == Why.CLOSED and any(
            observation.verdict in SHORT_LIVED for observation in self.observations
        ):
            why = "no connection stays open"
        before = f", and {self.wavered} earlier in the run" if self.wavered else ""
        return f"{self.label}  expected {self.expected}, observed {message.summary(self.observations)}{before}: {why}"


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a table of expected and observed results, side by side."""
    return message.table(
        [
            (
                outcome.label,
                outcome.expected,
                message.summary(outcome.observations),
                outcome.looks_right,
            )
            for outcome in outcomes
        ]
    )
