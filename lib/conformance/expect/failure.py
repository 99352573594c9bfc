# SPDX-License-Identifier: Apache-2.0
"""The failure of an expectation: the message is about its worst path, and names the other wrong
paths."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace

from conformance.errors import ControlBroken, Nonconformance, SuiteError
from conformance.expect import machine_lag
from conformance.expect.engine import names
from conformance.expect.engine.answered import as_wanted, unexpected_backend
from conformance.expect.engine.decide import Broken, BrokenControl, Wrong
from conformance.expect.engine.path import LARGE, Path, Why
from conformance.expect.excuses import pods_of
from conformance.expect.explain import advice, cause, message
from conformance.expect.explain.dns_servers import LONGER
from conformance.expect.explain.nearest import Nearest, nearest
from conformance.expect.observed_paths import key_of
from conformance.expect.outcome import Outcome, table
from conformance.expect.session import Session
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation, Verdict
from conformance.settings.assumptions import DENIED_VERDICTS

SHOWN = 12
"""The largest number of rows of a table that a message shows completely. From a larger table, the
message shows only the wrong rows."""
NAMED = 6
"""The number of pairs of nodes that a message names."""
SENT_AGAIN = 0.9
"""If each connection takes more seconds than this, SYNs were repeated, which happens after 1 s (RFC
6298)."""


def failure(
    expect: Session,
    outcomes: Sequence[Outcome],
    *,
    seconds: float,
    removed: bool = False,
) -> Exception | None:
    """Return the failure of the worst path, which names the other wrong paths. Return None if all
    paths are as expected. ``removed``: the policies were removed just now, so the paths should be
    open again."""
    wrong = sorted(
        (outcome for outcome in outcomes if not outcome.held), key=lambda outcome: outcome.rank
    )
    if not wrong:
        return None
    standing = wrong[0].standing
    if isinstance(standing, Broken):
        error = standing.error
        if len(outcomes) > 1:
            error.add_note(_by_node(outcomes))
    else:
        error = _Failure(expect, outcomes, wrong, removed).error(seconds)
    if isinstance(error, Nonconformance | SuiteError):
        error.paths = [outcome.path.attempt for outcome in wrong]
    return error


def name_leads_to(expect: Session, outcome: Outcome) -> str:
    """Return the addresses to which the name of a path's target resolves. Wait long enough for slow
    answers."""
    attempt = outcome.path.attempt
    patience = expect.timings.of(attempt.source.os)
    return names.resolved_address(
        expect.prober, attempt, LONGER * patience.dns_give_up, slow=patience.dns_slow
    )


@dataclass(frozen=True)
class _Failure:
    """The paths of an expectation of which at least one is wrong. The probe of the worst path is
    not broken."""

    expect: Session
    outcomes: Sequence[Outcome]
    wrong: Sequence[Outcome]
    """The paths that are not as expected, the worst first."""
    removed: bool

    @property
    def first(self) -> Outcome:
        """Return the worst outcome, which the message is about."""
        return self.wrong[0]

    @property
    def side(self) -> advice.Side:
        """Return the end whose node enforces the policies. If both ends may, return the end whose
        pods differ from their peers."""
        side = self.first.at or self.expect.context.enforced_at or "both"
        want = self.first.path.want
        held = [each.path.attempt for each in self.outcomes if each.held and each.path.want is want]
        return cause.differs_at(self.alike, held) if side == "both" else side

    @property
    def alike(self) -> list[Attempt]:
        """Return the attempts of the paths that are wrong in the same way as the worst path."""
        kind = (self.first.rank, self.first.path.want, self.first.at)
        return [
            outcome.path.attempt
            for outcome in self.wrong
            if (outcome.rank, outcome.path.want, outcome.at) == kind
        ]

    @property
    def lost(self) -> Path | None:
        """Return the control whose loss leaves the worst path undecided, or None if no control was
        lost."""
        path = self.first.path
        standing = self.first.standing
        if path.want or not isinstance(standing, BrokenControl) or standing.why is not Why.CONTROL:
            return None
        return _lost_control(path)

    def error(self, seconds: float) -> Nonconformance | ControlBroken:
        """Return the failure with its whole message."""
        first = self.first
        lost = self.lost
        path = lost or first.path
        lines = self._lines(lost)
        near = self._nearer() if first.path.want else Nearest()
        lines |= near.lines
        if "do" not in near.lines or self._is_policys(near):
            lines["do"] = _control_advice(lost) if lost else self._advice()
        led = _led(first, path.observations, name_leads_to(self.expect, first))
        text = message.explanation(
            self.expect.context.claims,
            path.attempt,
            expected="CONNECTED close to each time-out" if lost else first.expected,
            because=first.because,
            observations=path.observations,
            seconds=seconds,
            further=lines,
            observed=message.summary(path.observations) + led + near.observed,
            so=_undecided(lost, first) if lost else _how_it_leaks(first),
        )
        text = replace(text, cause=_control_cause(lost) if lost else self._cause())
        if len(self.outcomes) > 1:
            share = f"{len(self.alike)} of {len(self.outcomes)} paths"
            text = replace(text, share=share, table=self._table())
        observation = [
            observation for outcome in self.outcomes for observation in outcome.observations
        ]
        if first.verdict is ClaimVerdict.VIOLATED:
            return Nonconformance(text, observations=observation)
        return ControlBroken(
            message.of_control(text), control=path.attempt.label, observations=observation
        )

    def _is_policys(self, near: Nearest) -> bool:
        """Return whether a policy explains a closed path better than the nearest cause does."""
        stays = self.removed and "policies there" not in near.lines
        return stays or (self._is_withheld and not near.observed)

    def _lines(self, lost: Path | None) -> dict[str, str]:
        """Return the lines of the message except the nearest cause and the advice."""
        first = self.first
        total = len(self.outcomes)
        pairs = {outcome.nodes for outcome in self.outcomes}
        lines = {
            "policies": ", ".join(self.expect.context.world.policies()),
            "Felix": self.expect.context.felix_on(*pods_of(first.path.attempt)),
            "beside": f"{total - len(self.wrong)} of {total} paths as expected"
            if total > 1
            else "",
            "by node": _by_node(self.outcomes) if len(pairs) > 1 else "",
        }
        if lost:
            observed = message.summary(first.observations)
            lines["control of"] = f"{first.label}  expected {first.expected}, observed {observed}"
            lines["so"] = (
                "a source or a server without a network could not be distinguished from a denial"
            )
        elif isinstance(first.standing, BrokenControl) and not first.path.want:
            lines["control"] = (
                f"{first.standing.why}, so it is not known whether the path is closed"
            )
        if first.wavered:
            lines["earlier"] = (
                f"{first.wavered}, and at the run's end the path is again open only at times"
            )
        lines["machine"] = machine_lag.describe(first.path, first.standing).removeprefix("; ")
        lines["when"] = _when(first)
        if first.path.want and first.standing == BrokenControl(Why.WAVERS):
            lines["so"] = (
                "the path was open before, and a path that loses packets does not show what a "
                "policy does"
            )
            lines["age"] = ", ".join(filter(None, map(_age, pods_of(first.path.attempt))))
        return {name: line for name, line in lines.items() if line}

    def _nearer(self) -> Nearest:
        """Return the explanation of a closed path: the nearest cause, or policies that are still in
        force."""
        context = self.expect.context
        attempt = self.first.path.attempt
        near = nearest(
            self.expect,
            attempt,
            self.first.observations,
            context.world.policies_there,
            context.world.overlay,
        )
        if unwell := context.world.unwell([pod.node for pod in pods_of(attempt)]):
            near = replace(near, observed=f", while {unwell}")
        change = context.world.change()
        if self.removed and change is not None and not near.observed:
            near = replace(near, observed=f", as before the {change.what}")
        return near

    def _cause(self) -> str:
        """Return the cause and its place, or an empty string if only the path is known."""
        observations = self.first.observations
        attempts = self.alike
        if not self.first.path.want:
            if {observation.verdict for observation in observations} == {Verdict.REFUSED}:
                return cause.refuses(attempts, self.side)
            return cause.passes(attempts, self.side) if self.first.passes_policy else ""
        if any(map(unexpected_backend, observations)):
            return ""
        if self._stays_closed:
            return cause.stays(attempts, self.side)
        if self._is_withheld:
            return cause.withholds(attempts, self.side)
        return cause.closed(attempts, observations)

    @property
    def _is_withheld(self) -> bool:
        """Return whether the worst path was open before the test's policies were applied, and is
        closed under them while other paths are open."""
        known = (*key_of(self.first.path.attempt), True)
        return (
            not self.removed
            and self.first.standing == Wrong(Why.CLOSED)
            and {each.verdict for each in self.first.observations[-1:]} <= DENIED_VERDICTS
            and self.expect.context.world.change() is not None
            and known in self.expect.context.since
            and any(outcome.held and outcome.path.want for outcome in self.outcomes)
        )

    @property
    def _stays_closed(self) -> bool:
        """Return whether the worst path is still closed although the policies are gone."""
        observations = self.first.observations
        return self.removed and bool(observations) and observations[-1].verdict in DENIED_VERDICTS

    def _advice(self) -> str:
        """Return the advice where to look first."""
        first = self.first
        attempt = first.path.attempt
        felix = advice.felix(attempt, self.side)
        if first.path.want:
            if self._stays_closed:
                return f"the policies are gone, but their rules may still be programmed: {felix}"
            if self._is_withheld:
                return felix
            return advice.open_path(attempt, first.observations)
        standing = first.standing
        refused = {observation.verdict for observation in first.observations} == {Verdict.REFUSED}
        if isinstance(standing, Wrong) and (standing.why is Why.NO_DENIAL or refused):
            return (
                "policies drop packets without an answer: look for a firewall, a missing route "
                "or a closed "
                "port that answers"
            )
        if isinstance(standing, BrokenControl):
            return advice.open_path(attempt, first.observations)
        return felix

    def _table(self) -> str:
        """Return a table of expected and observed results; if there are many paths, only the wrong
        paths are listed."""
        shown = self.outcomes if len(self.outcomes) <= SHOWN else self.wrong[:SHOWN]
        left_out = len(self.outcomes) - len(shown)
        return table(shown) + (f"\n({left_out} more in the attachment)" if left_out else "")


def _age(pod: Workload) -> str:
    """Return the text about a pod's age, or an empty string if the pod's start is not known."""
    if not pod.created:
        return ""
    created = datetime.datetime.fromisoformat(pod.created)
    seconds = (datetime.datetime.now(datetime.UTC) - created).total_seconds()
    return f"pod {pod.namespace}/{pod.pod} is {seconds:.0f} s old"


def _control_cause(lost: Path) -> str:
    """Return a text about a lost control's attempts, or an empty string if all connected."""
    if lost.observations and all(as_wanted(observation, True) for observation in lost.observations):
        return ""
    return cause.closed([lost.attempt], lost.observations)


def _control_advice(lost: Path) -> str:
    """Return the advice where to look for the cause of a lost control."""
    control = lost.attempt
    if all(as_wanted(observation, True) for observation in lost.observations):
        return (
            f"look at the load of node {control.source.node} and of the machine that runs the "
            "suite: attempts begin late; use fewer workers (-n)"
        )
    backends = control.target.backends if control.target else ()
    node = f"node {backends[0].node}" if backends else "the server's node"
    return f"look for packet loss at {control.source.namespace}/{control.source.pod} and on {node}"


def _lost_control(path: Path) -> Path | None:
    """Return the lost control that best explains why a closed path is undecided.

    A closed path may have two kinds of controls. From each kind, take the control that connected
    most often; the kind for which this control is worse explains the path. Return the worst control
    of that kind.
    """
    kinds = [max(map(_connected, kind)) for kind in path.controls]
    if not kinds:
        return None
    return min(path.controls[kinds.index(min(kinds))], key=_connected)


def _connected(path: Path) -> float:
    """Return the share of a path's attempts that connected."""
    return (
        sum(as_wanted(each, True) for each in path.observations) / len(path.observations)
        if path.observations
        else 0.0
    )


def _undecided(lost: Path, denied: Outcome) -> str:
    """Describe what a lost control leaves undecided: ``2 of 4 tries connected, so the denial of
    ...``.

    If every attempt of a control connected, there were too few attempts: the pod or its agent was
    too slow.
    """
    connected = sum(as_wanted(each, True) for each in lost.observations)
    source = denied.path.attempt.source
    counts = f"{connected} of {counted(len(lost.observations), 'try', 'tries')} connected"
    if connected == len(lost.observations):
        counts = "every try connected, but there were too few tries to cover every time-out"
    return f"{counts}, so the denial of {source.namespace}/{source.pod} cannot be judged"


def _led(outcome: Outcome, observations: Sequence[Observation], led: str) -> str:
    """Return the text about the target's name that is added to the first line. ``led``: the address
    to which the name resolves now, or the verdict of the attempt to resolve it."""
    target = outcome.path.attempt.target
    if observations and observations[-1].verdict in names.UNSENT and target is not None:
        again = f"; now the name resolves to {led}" if led and led not in names.UNSENT else ""
        return f": {target.host} does not resolve, so nothing was sent{again}"
    return f", and the name leads to {led}" if led else ""


def _when(outcome: Outcome) -> str:
    """Describe how late a path was closed, or that it was never closed. Return an empty string if
    the path failed in another way."""
    path = outcome.path
    standing = outcome.standing
    if path.want or not isinstance(standing, Wrong):
        return ""
    if standing.why is Why.LEAK:
        return str(standing.why)
    if standing.why is not Why.OPEN:
        return ""
    arrived = [
        tried.at
        for tried in path.tries
        if tried.observation is not None and tried.observation.verdict not in DENIED_VERDICTS
    ]
    allowed = f"it must be closed within {round(path.rule.within, 1):g} s"
    if len(arrived) == len(path.observations):
        return f"not closed in {path.seconds:.1f} s; {allowed}"
    return (
        f"closed late or not for good: a packet still arrived {arrived[-1]:.1f} s after the "
        f"first attempt; {allowed}"
    )


def _how_it_leaks(outcome: Outcome) -> str:
    """Describe how packets passed on a path that should be closed: the denial ended after some
    time, or held only for first packets."""
    path = outcome.path
    if not outcome.passes_policy:
        return ""
    agree = path.rule.agree
    took = [
        observation.seconds
        for observation in path.observations[-agree:]
        if observation.verdict is Verdict.CONNECTED
    ]
    if len(took) == agree and min(took) > SENT_AGAIN:
        return f"first packets vanish, and retransmitted packets arrive after {min(took):.1f} s"
    newest = path.observations[-2 * agree :]
    passed = {
        (observation.attempt.request == LARGE, observation.verdict is Verdict.CONNECTED)
        for observation in newest
    }
    if passed == {(False, False), (True, True)}:
        return f"datagrams of {len(LARGE)} bytes arrive, and small datagrams vanish"
    if outcome.standing == Wrong(Why.OPEN):
        return ""
    answered = [(tried.at, tried.observation.verdict) for tried in path.tries if tried.observation]
    began = min(at for at, verdict in answered if verdict in DENIED_VERDICTS)
    ended = max(at for at, verdict in answered if verdict not in DENIED_VERDICTS)
    return f"closed for {ended - began:.1f} s, then open again"


def _by_node(outcomes: Sequence[Outcome]) -> str:
    """Return ``VIOLATED linux-1 -> windows-2; INCONCLUSIVE linux-2 -> windows-2; 3 other pairs of
    nodes as expected``.
    """
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
