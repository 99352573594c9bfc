"""How the paths of one expectation ended: what is told of each, and the one failure that tells of all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance, SuiteError
from conformance.expect.engine.answered import as_wanted, unexpected_backend, with_who
from conformance.expect.engine.decide import (
    LARGE,
    Broken,
    BrokenControl,
    Held,
    Path,
    Standing,
    Why,
    Wrong,
)
from conformance.expect.engine.names import UNSENT
from conformance.expect.explain import advice, cause, message
from conformance.expect.explain.nearest import Nearest
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.explanation import Explanation
from conformance.model.observation import DENIED_VERDICTS, Observation, Verdict
from conformance.verdicts.meaning import of_path

SHOWN = 12
"""Rows of a table that a message shows whole; of a larger one it shows those that are wrong."""
NAMED = 6
"""Pairs of nodes that a message names."""
SENT_AGAIN = 0.9
"""s.  What connects later than this, each time, does so by a SYN that was sent again, which is done after 1 s (RFC
6298)."""
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
    wavered: str = ""
    """What was seen of it earlier in the run, when it lost connections; it is asked once more now."""

    @property
    def seen(self) -> list[Observation]:
        """All that its attempts showed, oldest first."""
        return [attempt.seen for attempt in self.path.tries if attempt.seen is not None]

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

    def reason(self, because: str) -> str:
        """One line: enough on its own.  Of an open path it says, too, where nobody told who answered."""
        if isinstance(self.standing, Held) and self.wavered:
            row = counted(len(self.standing.row), "connection", "connections")
            return (
                f"{self.label}  expected {self.expected}, observed {self.wavered} earlier in the run, and {row} in a "
                "row at its end: what is between the nodes lost packets for a while"
            )
        if isinstance(self.standing, Held):
            return with_who(because, self.standing.seen) if self.path.want else because
        if isinstance(self.standing, Broken):
            return str(self.standing.error)
        why = str(
            self.standing.why if isinstance(self.standing, Wrong | BrokenControl) else Why.BROKEN
        )
        if why == Why.CLOSED and any(seen.verdict in SHORT_LIVED for seen in self.seen):
            why = "no connection stays"
        before = f", and {self.wavered} earlier in the run" if self.wavered else ""
        return f"{self.label}  expected {self.expected}, observed {message.summary(self.seen)}{before}: {why}"


def failure(
    outcomes: Sequence[Outcome],
    *,
    claims: Sequence[str],
    because: str,
    seconds: float,
    policies: Sequence[str],
    name_leads_to: Callable[[Outcome], str],
    felix: Callable[[Outcome], str] = lambda outcome: "",
    nearer: Callable[[Outcome], Nearest] = lambda outcome: Nearest(),
    enforced_at: advice.Side = "both",
    removed: bool = False,
    machine: Callable[[Outcome], str] = lambda outcome: "",
) -> Exception | None:
    """The worst of the paths' failures, which tells of the others too; None: every path is as it is to be.

    ``nearer`` finds what explains that a path is closed better than the path itself.  ``enforced_at``: whose node
    enforces the policies.  ``removed``: they were removed just now, so that the paths are to be open again.
    ``machine``: what a path was given for a machine that ran late.
    """
    wrong = sorted(
        (outcome for outcome in outcomes if not outcome.held), key=lambda outcome: outcome.rank
    )
    if not wrong:
        return None
    first = wrong[0]
    if isinstance(first.standing, Broken):
        if len(outcomes) > 1:
            first.standing.error.add_note(_by_node(outcomes))
        return first.standing.error
    further: dict[str, str] = {"policies": ", ".join(policies)} if policies else {}
    if fares := felix(first):
        further["Felix"] = fares
    if len(outcomes) > 1:
        further["beside"] = f"{len(outcomes) - len(wrong)} of {len(outcomes)} paths as expected"
    if len({outcome.nodes for outcome in outcomes}) > 1:
        further["by node"] = _by_node(outcomes)
    told = first.path
    expected = first.expected
    so = _how_it_leaks(first)
    if isinstance(first.standing, BrokenControl) and not first.path.want:
        if first.standing.why is Why.CONTROL and (lost := _lost_control(first.path)):
            told = lost
            expected = "CONNECTED close to each time-out"
            so = _undecided(lost, first)
            further["control of"] = (
                f"{first.label}  expected {first.expected}, observed {message.summary(first.seen)}"
            )
            further["so"] = (
                "a source or a server that had lost its network would look just like a denial"
            )
        else:
            further["control"] = f"{first.standing.why}, so that nothing shows whether it is closed"
    seen = [tried.seen for tried in told.tries if tried.seen is not None]
    if first.wavered:
        further["earlier"] = f"{first.wavered}, and at the run's end it wavers again"
    if given := machine(first):
        further["machine"] = given.removeprefix("; ")
    near = nearer(first) if first.path.want else Nearest()
    if timed := _when(first):
        further["when"] = timed
    further |= near.lines
    if "do" not in near.lines or (removed and "policies there" not in near.lines):
        further["do"] = _advice(first, told, enforced_at, removed=removed)
    observed = message.summary(seen) + _led(first, seen, name_leads_to(first)) + near.observed
    text = message.explanation(
        claims,
        told.attempt,
        expected=expected,
        because=because,
        seen=seen,
        seconds=seconds,
        further=further,
        observed=observed,
        so=so,
    )
    alike = [one for one in wrong if (one.rank, one.path.want) == (first.rank, first.path.want)]
    text = replace(
        text,
        cause=_cause(
            [one.path.attempt for one in alike], first, told, seen, enforced_at, removed=removed
        ),
        share=f"{len(alike)} of {len(outcomes)} paths" if len(outcomes) > 1 else "",
    )
    if len(outcomes) > 1:
        shown = outcomes if len(outcomes) <= SHOWN else wrong[:SHOWN]
        more = (
            f"\n({len(outcomes) - len(shown)} more: attachment)"
            if len(shown) < len(outcomes)
            else ""
        )
        text = replace(text, table=table(shown) + more)
    flat = [seen for outcome in outcomes for seen in outcome.seen]
    if first.verdict is ClaimVerdict.VIOLATED:
        return Nonconformance(text, seen=flat)
    return ControlBroken(message.of_control(text), control=told.attempt.label, seen=flat)


def _cause(
    alike: Sequence[Attempt],
    first: Outcome,
    told: Path,
    seen: Sequence[Observation],
    side: advice.Side,
    *,
    removed: bool,
) -> str:
    """What is wrong where; ``alike``: the paths that are wrong as the first is, ``told``: what its first line is about.

    Empty where all that is known is the path.
    """
    if told is not first.path:
        return (
            ""
            if seen and all(as_wanted(one, True) for one in seen)
            else cause.closed([told.attempt], seen)
        )
    if not first.path.want:
        if {one.verdict for one in seen} == {Verdict.REFUSED}:
            return cause.refuses(alike, side)
        return cause.passes(alike, side) if first.passes_policy else ""
    if any(map(unexpected_backend, seen)):
        return ""
    shut = bool(seen) and seen[-1].verdict in DENIED_VERDICTS
    return cause.stays(alike, side) if removed and shut else cause.closed(alike, seen)


def _lost_control(path: Path) -> Path | None:
    """The control of a closed path that connected least, of the kind whose best connected least."""
    kinds = [max(map(_connected, kind)) for kind in path.controls]
    if not kinds:
        return None
    kind = path.controls[kinds.index(min(kinds))]
    return min(kind, key=_connected)


def _connected(path: Path) -> float:
    """Share of the attempts that connected."""
    seen = [tried.seen for tried in path.tries if tried.seen is not None]
    return sum(as_wanted(each, True) for each in seen) / len(seen) if seen else 0.0


def _undecided(lost: Path, denied: Outcome) -> str:
    """What the control that was lost leaves undecided: ``2 of 4 tries connected, so the denial of ...``.

    One that connected whenever it was asked was asked too seldom: the pod or its agent was too slow.
    """
    seen = [tried.seen for tried in lost.tries if tried.seen is not None]
    connected = sum(as_wanted(each, True) for each in seen)
    source = denied.path.attempt.source
    told = f"{connected} of {counted(len(seen), 'try', 'tries')} connected"
    if connected == len(seen):
        told = "each try connected, but they came too seldom to stand beside every time-out"
    return f"{told}, so the denial of {source.namespace}/{source.pod} cannot be judged"


def _led(outcome: Outcome, seen: Sequence[Observation], led: str) -> str:
    """What a first line says of a name in the target's place; ``led``: to what it leads now, or the verdict."""
    target = outcome.path.attempt.target
    if seen and seen[-1].verdict in UNSENT and target is not None:
        again = f"; asked again, it leads to {led}" if led and led not in UNSENT else ""
        return f": {target.host} does not resolve, so nothing was sent{again}"
    return f", and the name leads to {led}" if led else ""


def _when(outcome: Outcome) -> str:
    """Whether a path that is to be closed was closed late or never; empty: it is about something else."""
    path = outcome.path
    standing = outcome.standing
    if path.want or not isinstance(standing, Wrong):
        return ""
    if standing.why is Why.LEAK:
        return str(standing.why)
    if standing.why is not Why.OPEN:
        return ""
    tries = [tried for tried in path.tries if tried.seen is not None]
    arrived = [
        tried
        for tried in tries
        if tried.seen is not None and tried.seen.verdict not in DENIED_VERDICTS
    ]
    allowed = f"it has to be by {round(path.rule.within, 1):g} s"
    if len(arrived) == len(tries):
        return f"not closed in {path.seconds:.1f} s; {allowed}"
    return f"closed late or not for good: a packet still arrived {arrived[-1].at:.1f} s after this began; {allowed}"


def _how_it_leaks(outcome: Outcome) -> str:
    """How a path that was to be closed was open after all: its denial wore off, or held for first packets alone."""
    path = outcome.path
    standing = outcome.standing
    if path.want or not isinstance(standing, Wrong) or standing.why not in (Why.LEAK, Why.OPEN):
        return ""
    took = [
        seen.seconds
        for seen in outcome.seen[-path.rule.agree :]
        if seen.verdict is Verdict.CONNECTED
    ]
    if len(took) == path.rule.agree and min(took) > SENT_AGAIN:
        return f"first packets vanish, and those sent again arrive, after {min(took):.1f} s"
    newest = outcome.seen[-2 * path.rule.agree :]
    passed = {(one.attempt.request == LARGE, one.verdict is Verdict.CONNECTED) for one in newest}
    if passed == {(False, False), (True, True)}:
        return f"datagrams of {len(LARGE)} bytes arrive, and small ones vanish"
    if standing.why is Why.OPEN:
        return ""
    began = min(
        tried.at for tried in path.tries if tried.seen and tried.seen.verdict in DENIED_VERDICTS
    )
    ended = max(
        tried.at for tried in path.tries if tried.seen and tried.seen.verdict not in DENIED_VERDICTS
    )
    return f"closed for {ended - began:.1f} s, then open again"


def _advice(first: Outcome, told: Path, enforced_at: advice.Side, *, removed: bool) -> str:
    """Where to look first; ``told``: the path that the first line is about."""
    standing = first.standing
    attempt = first.path.attempt
    if told is not first.path:
        control = told.attempt
        if all(tried.seen is None or as_wanted(tried.seen, True) for tried in told.tries):
            return (
                f"look at the load of node {control.source.node} and of the machine that runs the suite: attempts "
                "begin late; fewer workers (-n) ask less at once"
            )
        node = (
            control.target.backends[0].node
            if control.target and control.target.backends
            else "of the server"
        )
        return f"look at {control.source.namespace}/{control.source.pod} and node {node} for packet loss"
    if not first.path.want:
        verdicts = {seen.verdict for seen in first.seen}
        if isinstance(standing, Wrong) and (
            standing.why is Why.NO_DENIAL or verdicts == {Verdict.REFUSED}
        ):
            return "policies drop without an answer: look for a firewall, a missing route or a closed port that answers"
        if isinstance(standing, BrokenControl):
            return advice.open_path(attempt, first.seen)
        return advice.felix(attempt, enforced_at)
    if removed and first.seen and first.seen[-1].verdict in DENIED_VERDICTS:
        return f"the policies are gone, what they programmed may not be: {advice.felix(attempt, enforced_at)}"
    return advice.open_path(attempt, first.seen)


def name_paths(error: Exception, outcomes: Sequence[Outcome]) -> None:
    """Let a failure say which of the paths are wrong, the worst first."""
    if isinstance(error, Nonconformance | SuiteError):
        wrong = sorted(
            (outcome for outcome in outcomes if not outcome.held), key=lambda outcome: outcome.rank
        )
        error.paths = [outcome.path.attempt for outcome in wrong]


def table(outcomes: Sequence[Outcome]) -> str:
    """Expected and observed side by side."""
    return message.table(
        [
            (outcome.label, outcome.expected, message.summary(outcome.seen), outcome.looks_right)
            for outcome in outcomes
        ]
    )


def _by_node(outcomes: Sequence[Outcome]) -> str:
    """``VIOLATED linux-1 -> windows-2; INCONCLUSIVE linux-2 -> windows-2; 3 others as expected``."""
    worst: dict[str, ClaimVerdict] = {}
    for outcome in sorted(outcomes, key=lambda each: each.rank if not each.held else 9):
        worst.setdefault(outcome.nodes, outcome.verdict)
    bad = [
        f"{verdict} {nodes}"
        for nodes, verdict in worst.items()
        if verdict is not ClaimVerdict.CONFIRMED
    ]
    more = [f"{len(bad) - NAMED} more"] if len(bad) > NAMED else []
    rest = len(worst) - len(bad)
    fine = [f"{counted(rest, 'other pair', 'other pairs')} of nodes as expected"] if rest else []
    return "; ".join([*bad[:NAMED], *more, *fine])
