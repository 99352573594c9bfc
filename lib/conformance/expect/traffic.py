"""Expectations about traffic: reachable, blocked, matrix, source_is, resolves.

Every wait polls to agreement and keeps all observations.  A denial is believed only when it is the named verdict
(a silent drop), when the same path was seen open before by this test (control before), when another attempt of the
same source gets through in the same rounds, or where a policy closes the source one to the same target (control
beside), when N rounds in a row agree, and when it then holds.  A control that fails is ControlBroken, a probe that
fails is ProbeBroken; neither is ever a denial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance, ProbeBroken, UsageProblem
from conformance.expect import message, names, picture
from conformance.expect.answered import ARRIVED, as_wanted, impostor, telling, usual
from conformance.expect.figures import FigureLog, PolicyChange
from conformance.expect.rounds import watch
from conformance.expect.routes import Route, Routes, each, routes_of
from conformance.model import decision
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Half, Seen
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.settings import OsTimings, Timings
from conformance.timing import SYSTEM_CLOCK, Answer, Clock, hold, until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


class Policies(Protocol):
    """The policies of a test, once they are said completely."""

    def apply(self) -> None:
        """Bring them into force; raises as the API server answers."""


class Removable(Protocol):
    """Policies in force."""

    def remove(self) -> None:
        """Delete them and wait until they are gone; raises EnvironmentBroken when one stays."""


class Prober(Protocol):
    """What expectations need of probing."""

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        """One observation per attempt, in order; raises ProbeBroken or EnvironmentBroken."""

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Raises EnvironmentBroken when one of these pods is gone, restarted, replaced or not running."""


@dataclass(frozen=True)
class Context:
    """What a message and a report need to know about the test that expects."""

    claims: tuple[str, ...] = ()
    policies: Callable[[], Sequence[str]] = tuple
    """Names of the policies in force now, with their age."""
    attach: Callable[[str, str], object] = lambda name, text: None
    """Puts a text into the report."""
    record: Callable[[str, float | str], None] = lambda name, value: None
    """Keeps a figure with the claim's result."""
    draw: Callable[[str, str], object] = lambda name, svg: None
    """Puts a drawing into the report."""
    change: Callable[[], PolicyChange | None] = lambda: None
    """The newest change of policy that this test has made."""
    figures: FigureLog = field(default_factory=FigureLog)
    keep: Callable[[Sequence[Seen]], object] = lambda seen: None
    """Keeps what was decided, for the test's claims and parts."""

    def decided(
        self,
        source: Workload | None,
        target: Workload | Target | None,
        verdict: ClaimVerdict,
        reason: str,
        half: Half = "open",
    ) -> None:
        """Say what an expectation decided about one way, with a reason that is enough on its own.

        Not for controls: they decide nothing.  Without ``source`` and ``target`` it is about the cluster.
        """
        change = self.change()
        side = change.enforced_at if change else "both"
        self.keep(decision.seen(source, target, verdict, reason.partition("\n")[0], half, enforced_at=side))


@dataclass
class Expect:
    """The expectations of one test."""

    prober: Prober
    timings: Timings
    context: Context = field(default_factory=Context)
    clock: Clock = SYSTEM_CLOCK
    _opened: set[tuple[str, str]] = field(default_factory=set)
    """Routes that this test has seen open: the controls before."""
    _led: dict[tuple[str, str], str] = field(default_factory=dict)
    """Addresses to which names led when those routes were seen open."""
    _closed: dict[tuple[str, str], Route] = field(default_factory=dict)
    """Routes that it has seen closed, and not open since."""

    # --- what tests say --------------------------------------------------------------------------------------------

    def reachable(
        self,
        sources: Workload | Iterable[Workload | Route],
        targets: Target | Sequence[Target] | None = None,
        *,
        because: str,
        kind: Kind | None = None,
    ) -> list[Observation]:
        """Every source connects to every target; returns the last round's observations.

        Without ``targets``, ``sources`` are routes.
        """
        return self._decide(routes_of(sources, targets), [], because, kind, open_is_control=False)[-1]

    def control(
        self,
        sources: Workload | Iterable[Workload | Route],
        targets: Target | Sequence[Target] | None = None,
        *,
        because: str,
    ) -> list[Observation]:
        """As :meth:`reachable`, for what has to be so before the test says anything: raises ControlBroken."""
        return self._decide(routes_of(sources, targets), [], because, None, open_is_control=True)[-1]

    def controls(self, routes: Iterable[Routes], *, because: str) -> list[Observation]:
        """As :meth:`control`, for several routes."""
        return self._decide(each(routes), [], because, None, open_is_control=True)[-1]

    def blocked(
        self,
        sources: Workload | Sequence[Workload],
        target: Target,
        *,
        because: str,
        beside: Route | Workload | list[Route | Workload],
        kind: Kind | None = None,
    ) -> list[Observation]:
        """Every source's packets vanish on their way to the target, while ``beside`` passes.

        ``beside`` are routes, or other sources to the same target; when one fails, ControlBroken is raised.  Each of
        ``sources`` needs a route of its own there, or it could as well have lost its network.
        """
        named = beside if isinstance(beside, list) else [beside]
        controls = [(one, target) if isinstance(one, Workload) else one for one in named]
        return self._decide(controls, each([(sources, target)]), because, kind, open_is_control=True)[-1]

    def matrix(
        self,
        *,
        because: str,
        open: Iterable[Routes] = (),
        closed: Iterable[Routes] = (),
        kind: Kind | None = None,
    ) -> list[Observation]:
        """All ``open`` routes connect and all ``closed`` ones time out, in the same rounds, until N agree; then held.

        Raises Nonconformance with expected and observed side by side, ControlBroken when a control is missing.
        """
        return self._decide(each(open), each(closed), because, kind, open_is_control=False)[-1]

    def change(
        self,
        *policies: Policies,
        open: Iterable[Routes] = (),
        closed: Iterable[Routes] = (),
        because: str,
        kind: Kind | None = None,
    ) -> list[Observation]:
        """Applying ``policies`` leaves the ``open`` routes open and closes the ``closed`` ones.

        All of them are seen open before (but those that an earlier change of this test has closed): the control
        before is part of it.  Raises as :meth:`control` before the change and as :meth:`matrix` after it, and what
        applying raises.
        """
        opened, shut = each(open), each(closed)
        before = [one for one in dict.fromkeys((*opened, *shut)) if route_key(*one) not in self._closed]
        self.controls(before, because="before the change nothing closes this path")
        for policy in policies:
            policy.apply()
        return self._decide(opened, shut, because, kind, open_is_control=False)[-1]

    def removed(self, policies: Removable, *, because: str) -> list[Observation]:
        """Once ``policies`` are removed, every route that this test has seen closed is open again."""
        if not self._closed:
            raise UsageProblem("expect.removed(...): this test has seen no route closed that could be open again")
        policies.remove()
        return self.reachable(list(self._closed.values()), because=because)

    def source_is(self, source: Workload, target: Target, address: str | Sequence[str], *, because: str) -> Observation:
        """The server sees ``address`` (or one of them) as its client, each time; ProbeBroken when it does not tell."""
        allowed = [address] if isinstance(address, str) else list(address)
        seen = self.told(source, target, because=because)
        if any(one.seen_client not in allowed for one in seen):
            reason = f"{seen[-1].attempt.label}  source {message.counted([one.seen_client for one in seen])}"
            self.context.decided(source, target, ClaimVerdict.VIOLATED, reason)
            raise Nonconformance(
                message.connectivity(
                    self.context.claims,
                    seen[-1].attempt,
                    expected=f"source {' or '.join(allowed)}",
                    because=because,
                    seen=seen,
                    seconds=sum(one.seconds for one in seen),
                    further={},
                    observed=f"source {message.counted([one.seen_client for one in seen])}",
                ),
                seen=seen,
            )
        return seen[-1]

    def told(self, source: Workload, target: Target, *, because: str) -> list[Observation]:
        """As :meth:`reachable`, each agreeing round, with whom the server saw; ProbeBroken when it does not tell."""
        rounds = self._decide([(source, target)], [], because, telling(target), open_is_control=False)
        seen = [one for round_ in rounds for one in round_]
        if not all(one.seen_client for one in seen):
            raise ProbeBroken(f"{seen[-1].attempt.label}: the server did not say whom it saw", seen=seen)
        return seen

    def resolves(
        self, source: Workload, name: str, to: Sequence[str], *, because: str, record: str = "A"
    ) -> Observation:
        """The name resolves, by the pod's own resolver settings, to exactly these answers."""
        patience = self._patience([source])[0]
        attempt = Attempt(source=source, kind=Kind.DNS, give_up_after=patience.dns_give_up, query=name, record=record)
        wanted = sorted(to)
        settled = until(
            lambda: self.prober.observe([attempt])[0],
            lambda seen: seen.verdict is Verdict.RESOLVED and sorted(seen.answers) == wanted,
            within=patience.service_effect,
            agree=patience.agree,
            every=patience.poll_every,
            what=because,
            clock=self.clock,
        )
        verdict = ClaimVerdict.CONFIRMED if settled.met else ClaimVerdict.VIOLATED
        reason = because if settled.met else f"{attempt.label}  observed {message.summary(settled.seen)}"
        self.context.decided(source, None, verdict, reason, "behaviour")
        if not settled.met:
            raise Nonconformance(
                message.connectivity(
                    self.context.claims,
                    attempt,
                    expected=f"RESOLVED to {', '.join(wanted)}",
                    because=because,
                    seen=settled.seen,
                    seconds=settled.seconds,
                    further={"do": "compare with the Service and with CoreDNS' log in kube-system"},
                ),
                seen=settled.seen,
            )
        return settled.last

    # --- how they are decided --------------------------------------------------------------------------------------

    def _decide(
        self,
        open: Sequence[Route],
        closed: Sequence[Route],
        because: str,
        kind: Kind | None,
        *,
        open_is_control: bool,
    ) -> list[list[Observation]]:
        """The last rounds that agreed, oldest first."""
        self._demand_controls(open, closed)
        wanted = [True] * len(open) + [False] * len(closed)
        attempts = [
            self._attempt(source, target, kind or usual(target, want=want))
            for (source, target), want in zip((*open, *closed), wanted, strict=True)
        ]

        patience = self._patience([attempt.source for attempt in attempts] + self._servers(attempts))
        began = self.clock.monotonic()
        watched = watch(
            lambda: self.prober.observe(attempts), wanted, patience=patience, because=because, clock=self.clock
        )
        rounds, settled = watched.rounds, watched.settled
        if not watched.met:
            failure = self._verdict_on(
                attempts, wanted, rounds, watched.seconds, because, open_is_control=open_is_control
            )
            self._tell(attempts, wanted, rounds[-1], because, open_is_control=open_is_control, failure=failure)
            raise failure
        if closed:  # a server that restarted meanwhile would look like a denial, and so would a name that led elsewhere
            self.prober.unchanged(self._involved(attempts))
            self._demand_same_addresses([one for one, want in zip(attempts, wanted, strict=True) if not want])
        self._tell(attempts, wanted, rounds[-1], because, open_is_control=open_is_control)
        if len(attempts) > 1:
            self.context.attach("matrix", self._table(attempts, wanted, rounds))
        if settled.first_correct_after is not None and settled.stable_after is not None:
            self.context.record("seconds to first correct answer", round(settled.first_correct_after, 3))
            self.context.record("seconds to stable answer", round(settled.stable_after, 3))
        self._take_down(attempts, wanted, settled.answers, began)
        return rounds[-max(one.agree for one in patience) :]

    def _tell(
        self,
        attempts: Sequence[Attempt],
        wanted: Sequence[bool],
        last: Sequence[Observation],
        because: str,
        *,
        open_is_control: bool,
        failure: Exception | None = None,
    ) -> None:
        """Say what was decided about each way that is no control; a failure is that of the ways that are wrong."""
        bad = ClaimVerdict.VIOLATED if isinstance(failure, Nonconformance) else ClaimVerdict.INCONCLUSIVE
        for attempt, want, observed in zip(attempts, wanted, last, strict=True):
            if want and open_is_control:
                continue
            right = as_wanted(observed, want)
            verdict = ClaimVerdict.CONFIRMED if right and not isinstance(failure, EnvironmentBroken) else bad
            expected = "CONNECTED" if want else "TIMED_OUT"
            told = f"{attempt.label}  expected {expected}, observed {observed.verdict}"
            reason = because if verdict is ClaimVerdict.CONFIRMED else told
            self.context.decided(attempt.source, attempt.target, verdict, reason, "open" if want else "closed")

    def _take_down(
        self,
        attempts: Sequence[Attempt],
        wanted: Sequence[bool],
        rounds: Sequence[Answer[list[Observation]]],
        began: float,
    ) -> None:
        """Remember which routes are open and closed now, and what it took to see that."""
        figures, change = self.context.figures, self.context.change()
        figures.decided(attempts, wanted, rounds, as_wanted)
        paths = list(zip(range(len(attempts)), attempts, wanted, strict=True))
        turned = [(index, one, want) for index, one, want in paths if not want or _key(one) in self._closed]
        if change is not None:
            figures.took_effect(change, turned, rounds, began, as_wanted)
        self._opened.update(_key(attempt) for _, attempt, want in paths if want)
        last = rounds[-1].value
        self._led.update({_key(one): names.reached(last[index]) for index, one, want in paths if want})
        for _, attempt, want in paths:
            self._closed.pop(_key(attempt), None)
            if not want and attempt.target is not None:
                self._closed[_key(attempt)] = (attempt.source, attempt.target)

    def _attempt(self, source: Workload, target: Target, kind: Kind) -> Attempt:
        patience = self.timings.of(source.os)
        give_up = patience.http_give_up if kind is Kind.HTTP else patience.tcp_give_up
        return Attempt(source=source, target=target, kind=kind, give_up_after=give_up)

    def _patience(self, workloads: Sequence[Workload]) -> list[OsTimings]:
        return [self.timings.of(system) for system in sorted({workload.os for workload in workloads})]

    @staticmethod
    def _servers(attempts: Sequence[Attempt]) -> list[Workload]:
        return [backend for attempt in attempts if attempt.target for backend in attempt.target.backends]

    def _demand_controls(self, open: Sequence[Route], closed: Sequence[Route]) -> None:
        """Raises ControlBroken where a dead client, or a dead server, would look like a denial.

        Only where a policy closes the way out may the source have no open route of its own; then another source
        has to get to the same target.
        """
        change = self.context.change()
        may_be_shut_in = change is not None and change.enforced_at != "target"
        for source, target in closed:
            route = f"{source.label} -> {target.label}"
            if (source.uid, target.label) not in self._opened:
                raise ControlBroken(
                    f"{route}: this test never saw the path open, so a denial would prove nothing; "
                    "see it open, by expect.control, before the policy is applied",
                    control="before",
                )
            own = any(other.uid == source.uid for other, _ in open)
            if not own and not (may_be_shut_in and any(goal.label == target.label for _, goal in open)):
                raise ControlBroken(
                    f"{route}: no open route beside it is its source's, so that a dead client would look like a "
                    "denial; name one to a server that no policy selects",
                    control="beside",
                )

    def _demand_same_addresses(self, closed: Sequence[Attempt]) -> None:
        """Raises ControlBroken when a name no longer leads where it led while the path was open."""
        for attempt in closed:
            before = self._led.get(_key(attempt), "")
            if not before or not names.named(attempt):
                continue
            now = names.led_to(self.prober, attempt, self.timings.of(attempt.source.os).dns_give_up)
            if before not in now.split(", "):
                raise ControlBroken(
                    f"{attempt.label}: the name led to {before} while the path was open, and leads to "
                    f"{now or 'nothing'} now: that nothing arrived proves nothing",
                    control="name",
                )

    def _verdict_on(
        self,
        attempts: Sequence[Attempt],
        wanted: Sequence[bool],
        rounds: Sequence[Sequence[Observation]],
        seconds: float,
        because: str,
        *,
        open_is_control: bool,
    ) -> Exception:
        """What the rounds deserve: a violation if any expectation itself failed, else a broken control."""
        last = rounds[-1]
        wrong = [index for index, want in enumerate(wanted) if not as_wanted(last[index], want)]
        if not wrong:  # right in the last round, but never N times in a row: show the attempt that wavered most
            wrong = [max(range(len(last)), key=lambda index: self._wrong_rounds(rounds, wanted, index))]
        astray = [
            index
            for index in wrong
            if not wanted[index] and (last[index].verdict in names.UNSENT or impostor(last[index]))
        ]
        denials = [index for index in wrong if not wanted[index] and index not in astray]
        if open_is_control and wanted[wrong[0]] and not any(last[index].verdict in ARRIVED for index in denials):
            denials = []  # with its control lost too, a path on which nothing arrived shows no more than a lost network
        first = (denials or astray or wrong)[0]
        seen = [round_[first] for round_ in rounds]
        table = self._table(attempts, wanted, rounds)
        self.context.attach("matrix", table)
        self.context.draw("matrix", self._picture(attempts, wanted, rounds))
        control_only = not denials and (open_is_control or bool(astray))
        further: dict[str, str] = {}
        policies = self.context.policies()
        if policies:
            further["policies"] = ", ".join(policies)
        if len(attempts) > 1:
            further["beside"] = f"{len(attempts) - len(wrong)} of {len(attempts)} attempts were as expected"
        led = names.led_to(self.prober, attempts[first], self.timings.of(attempts[first].source.os).dns_give_up)
        text = message.connectivity(
            self.context.claims,
            attempts[first],
            expected="CONNECTED" if wanted[first] else "TIMED_OUT",
            because=because,
            seen=seen,
            seconds=seconds,
            further=further,
            observed=f"{message.summary(seen)}, and the name leads to {led}" if led else "",
        )
        if len(attempts) > 1:
            text = f"{text}\n{table}"
        flat = [observation for round_ in rounds for observation in round_]
        involved = self._involved(attempts)
        try:  # for as long as the API may not know yet of a container that ended
            run = self.timings.run
            hold(
                lambda: self.prober.unchanged(involved), lambda _: True, seconds=run.pod_status,
                every=run.pod_status / 2, what="the pods are what they were", clock=self.clock,
            )  # fmt: skip
        except EnvironmentBroken as broken:  # says nothing about the cluster's network
            return EnvironmentBroken(f"{broken}, while this was seen: {text}")
        if control_only:
            return ControlBroken(f"control failed: {text}", control=attempts[first].label, seen=flat)
        return Nonconformance(text, seen=flat)

    @staticmethod
    def _involved(attempts: Sequence[Attempt]) -> list[Workload]:
        """Sources and backends: the pods whose own trouble would look like the network's."""
        backends = [backend for attempt in attempts if attempt.target for backend in attempt.target.backends]
        return [*(attempt.source for attempt in attempts), *backends]

    @staticmethod
    def _table(attempts: Sequence[Attempt], wanted: Sequence[bool], rounds: Sequence[Sequence[Observation]]) -> str:
        return message.table(
            [
                (
                    attempt.label,
                    "CONNECTED" if want else "TIMED_OUT",
                    message.summary([round_[index] for round_ in rounds]),
                    as_wanted(rounds[-1][index], want),
                )
                for index, (attempt, want) in enumerate(zip(attempts, wanted, strict=True))
            ]
        )

    def _picture(
        self, attempts: Sequence[Attempt], wanted: Sequence[bool], rounds: Sequence[Sequence[Observation]]
    ) -> str:
        cells = [
            picture.Cell(
                source=attempt.source.label,
                target=attempt.target.label if attempt.target else attempt.label,
                expected="CONNECTED" if want else "TIMED_OUT",
                observed=seen.verdict.value,
                right=as_wanted(seen, want),
            )
            for attempt, want, seen in zip(attempts, wanted, rounds[-1], strict=True)
        ]
        return picture.draw(", ".join(self.context.claims) or "matrix", cells)

    @staticmethod
    def _wrong_rounds(rounds: Sequence[Sequence[Observation]], wanted: Sequence[bool], index: int) -> int:
        return sum(not as_wanted(round_[index], wanted[index]) for round_ in rounds)


def route_key(source: Workload, target: Target | None) -> tuple[str, str]:
    """What a test's memory knows a route by."""
    return source.uid, target.label if target else ""


def _key(attempt: Attempt) -> tuple[str, str]:
    return route_key(attempt.source, attempt.target)
