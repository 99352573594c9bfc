# SPDX-License-Identifier: Apache-2.0
"""Expectations about traffic: reachable, matrix, change, sources, resolves.

Every wait polls to agreement and keeps all observations.  A denial is believed only when it is the named verdict
(a silent drop), when the same path was seen open before by this test (control before; of a source that came later,
another that came with it has to get through), when another attempt of the same source gets through in the same rounds,
or where a policy closes the source one to the same target (control beside), when N rounds in a row agree, and when it
then holds.  A control that fails is ControlBroken, a probe that fails is ProbeBroken; neither is ever a denial.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from conformance.errors import (
    EnvironmentBroken,
    Nonconformance,
    ProbeBroken,
    UsageProblem,
    first_line,
)
from conformance.expect import excuses, limitation, machine_lag, owners, resolution, watches
from conformance.expect.addresses import among
from conformance.expect.case import Case, rows_of
from conformance.expect.engine import ask as engine
from conformance.expect.engine.answered import default_kind, telling
from conformance.expect.engine.decide import Held, Path, Rule, Standing, link
from conformance.expect.engine.pairs import Pairs, each, key, pairs_of
from conformance.expect.excuses import pods_of
from conformance.expect.explain import message
from conformance.expect.failure import failure, name_leads_to
from conformance.expect.limitation import LimitedCase
from conformance.expect.outcome import Outcome, table
from conformance.expect.seen_paths import SeenPaths, key_of
from conformance.expect.session import Session
from conformance.model.attempt import Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.decision import Half
from conformance.model.endpoint import Addressing, Pair, Target, Workload
from conformance.model.observation import Observation
from conformance.verdicts.meaning import of_failure


class Policies(Protocol):
    """The policies of a test, once they are said completely."""

    def apply(self) -> None:
        """Bring them into force; raises as the API server answers."""


class Removable(Protocol):
    """Policies in force."""

    def remove(self) -> None:
        """Delete them and wait until they are gone; raises EnvironmentBroken when one stays."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How an expectation asks its paths, and what they are to it."""

    because: str = ""
    """Why the paths are to be open, or closed; empty: as their rows say."""
    kind: Kind | None = None
    """None: as each target is asked by default."""
    open_is_control: bool = False
    closed_is_control: bool = False
    """Whether open paths, or closed ones, are so for others' sake only."""
    lasts: bool = True
    """Whether denials have to last once they have agreed."""
    about_denial: bool = False
    """Whether policies were removed just now, so that what they closed is to be open again."""
    new: frozenset[str] = frozenset()
    """Uids of pods that came after the policies."""
    witnesses: frozenset[tuple[str, str]] = frozenset()
    """Closed paths that only show that policies are in force."""


@dataclass(frozen=True, eq=False)
class Expect(Session):
    """The expectations of one test, with what it has seen open and closed."""

    _so_far: SeenPaths = field(default_factory=SeenPaths)
    _rows: dict[tuple[str, str], Case] = field(default_factory=dict)
    """Paths to the newest row that named them."""

    # --- what tests say --------------------------------------------------------------------------------------------

    def reachable(
        self,
        sources: Workload | Iterable[Workload | Pair],
        targets: Target | Sequence[Target] | None = None,
        *,
        because: str,
        kind: Kind | None = None,
    ) -> list[Observation]:
        """Every source connects to every target; returns the last round's observations.

        Without ``targets``, ``sources`` are pairs.
        """
        return self._decide(pairs_of(sources, targets), [], Ask(because=because, kind=kind))[-1]

    def control(
        self,
        sources: Workload | Iterable[Workload | Pair],
        targets: Target | Sequence[Target] | None = None,
        *,
        because: str,
    ) -> list[Observation]:
        """As :meth:`reachable`, for what has to be so before the test says anything: raises ControlBroken."""
        ask = Ask(because=because, open_is_control=True)
        return self._decide(pairs_of(sources, targets), [], ask)[-1]

    def controls(self, pairs: Iterable[Pairs], *, because: str) -> list[Observation]:
        """As :meth:`control`, for several pairs."""
        return self.control(each(pairs), because=because)

    def matrix(
        self,
        *cases: Case,
        because: str = "",
        open: Iterable[Pairs] = (),
        closed: Iterable[Pairs] = (),
        kind: Kind | None = None,
        new: Iterable[Workload] = (),
        gone: Iterable[Workload] = (),
        lasts: bool = True,
    ) -> list[Observation]:
        """All open paths connect and all closed ones time out, in the same rounds, until N agree; then held.

        Paths are those of the cases, of ``open`` and of ``closed``.  ``new``: pods that came after the policies, so
        that no path of theirs was ever open before.  In place of the control before, another of them on the same node
        gets to the same target in the same rounds, or another source to the one that is new; :meth:`removed` then
        shows, as a control after, that the path is open without the policies.  ``gone``: pods that the test has taken
        away, whose paths :meth:`removed` leaves alone.  ``lasts``: not of paths that are asked again once the next
        thing has happened; they have to agree, and need not be held.

        Raises Nonconformance with expected and observed side by side, ControlBroken when a control is missing.
        """
        self._so_far.forget(gone)
        opened, shut = self._paths_of(cases, open, closed)
        ask = Ask(because=because, kind=kind, new=frozenset(pod.uid for pod in new), lasts=lasts)
        return self._decide(opened, shut, ask)[-1]

    def change(
        self, *policies_and_cases: Policies | Case, kind: Kind | None = None, lasts: bool = True
    ) -> list[Observation]:
        """Applying the policies leaves open what the cases say is open, and closes the rest of them.

        All of it is seen open before (but what an earlier change of this test has closed): the control before is part
        of it.  Raises as :meth:`control` before the change and as :meth:`matrix` after it, and what applying raises.
        A case that is a ``witness`` shows that the policies are in force; that it stays open is what another claim
        says, and a broken control of this one.  ``lasts``: as for :meth:`matrix`.
        """
        opened, shut = self._paths_of(policies_and_cases)
        self._make(policies_and_cases, [*opened, *shut])
        witnesses = frozenset(key(*pair) for pair in shut if self._rows[key(*pair)].witness)
        return self._decide(opened, shut, Ask(kind=kind, witnesses=witnesses, lasts=lasts))[-1]

    def base(self, *policies_and_cases: Policies | Case) -> list[Observation]:
        """As :meth:`change`, where something is to happen next: that paths are closed is a control of what comes.

        Denials have to agree, and need not last; what passes is wrong all the same.
        """
        return self.under(*policies_and_cases, lasts=False)

    def limitation(self, *policies_and_cases: Policies | Case) -> None:
        """Under the policies the paths are as the cases say: CONFIRMED; each the other way: LIFTED; else VIOLATED.

        Cases that are a ``witness`` show in the same rounds that the policies are in force, and that the pods have a
        network.  All are seen open before.  Raises as :func:`conformance.expect.limitation.decide`.
        """
        limited = limitation.case_of(policies_and_cases)
        because = rows_of(policies_and_cases)[next(iter(limited.as_documented))].because
        self.limitations(*policies_and_cases, cases=[limited], because=because)

    def limitations(
        self, *policies: Policies | Case, cases: Sequence[LimitedCase], because: str
    ) -> None:
        """As :meth:`limitation`, of several that share a change, by ports of the same servers.

        What is wrong with one leaves the others as they are.
        """
        pairs = [
            pair for case in cases for pair in (*case.as_documented, *case.both, *case.witness)
        ]
        self._make(policies, pairs)
        ask = Ask(because=because)
        limitation.decide(
            lambda context, opened, closed: replace(self, context=context)._decide(
                opened, closed, ask
            ),
            self.context,
            cases,
            because=because,
        )

    def under(
        self,
        *policies_and_cases: Policies | Case,
        open: Iterable[Pairs] = (),
        closed: Iterable[Pairs] = (),
        because: str = "",
        lasts: bool = True,
    ) -> list[Observation]:
        """As :meth:`change`, for what has to be so before the test says anything: raises ControlBroken.

        What gets through where the policies close the path is no broken control, but Nonconformance.
        """
        opened, shut = self._paths_of(policies_and_cases, open, closed)
        self._make(policies_and_cases, [*opened, *shut])
        ask = Ask(because=because, open_is_control=lasts, closed_is_control=True, lasts=lasts)
        return self._decide(opened, shut, ask)[-1]

    def removed(self, policies: Removable, *, because: str) -> list[Observation]:
        """Once ``policies`` are removed, every path that this test has seen closed is open again.

        One that wavers then decides nothing (ControlBroken): loss is not what policies are about.  Nor does one of a
        new source that does not open: no one ever saw it open.
        """
        if not self._so_far.closed:
            raise UsageProblem(
                "expect.removed(...): this test has seen no path closed that could be open again"
            )
        policies.remove()
        return self._decide(
            list(self._so_far.closed.values()), [], Ask(because=because, about_denial=True)
        )[-1]

    def sources(
        self,
        pairs: Iterable[Pair],
        are: Callable[[Workload], Sequence[str]],
        *,
        because: str,
        control: bool = False,
    ) -> None:
        """Each server sees one of its client's allowed addresses (``are``) as its client, each time.

        ``control``: that the paths are open is one.  Raises as :meth:`told`.
        """
        wrong: list[tuple[list[Observation], Sequence[str]]] = []
        gone: list[EnvironmentBroken] = []
        for (source, target), seen in self.told(pairs, because=because, control=control).items():
            allowed = are(source)
            if not all(among(observation.seen_client, allowed) for observation in seen):
                sources = message.tally([observation.seen_client for observation in seen])
                reason = f"{seen[-1].attempt.label}  source {sources}"
                if changed := excuses.changed(self, seen[-1].attempt):
                    gone.append(changed)
                    self.context.decided(
                        source, target, of_failure(changed), f"{reason}: {first_line(changed)}"
                    )
                    continue
                self.context.decided(source, target, ClaimVerdict.VIOLATED, reason)
                wrong.append((seen, allowed))
            elif control:
                self._right(source, target, because)
        if wrong:
            seen, allowed = wrong[0]
            others = [one[-1].attempt.label for one, _ in wrong[1:]]
            raise Nonconformance(
                message.explanation(
                    self.context.claims,
                    seen[-1].attempt,
                    expected=f"source {' or '.join(allowed)}",
                    because=because,
                    seen=seen,
                    seconds=sum(observation.seconds for observation in seen),
                    further=({"also wrong": "; ".join(others)} if others else {})
                    | {
                        "do": f"look for NAT on node {seen[-1].attempt.source.node}: natOutgoing of the IPPools"
                    },
                    observed=f"source {message.tally([observation.seen_client for observation in seen])}",
                ),
                seen=seen,
            )
        if gone:
            raise gone[0]

    def _right(self, source: Workload, target: Target, because: str) -> None:
        self.context.decided(source, target, ClaimVerdict.CONFIRMED, because)

    def told(
        self, pairs: Iterable[Pair], *, because: str, control: bool = False
    ) -> dict[Pair, list[Observation]]:
        """As :meth:`heard`; ProbeBroken when a server does not tell whom it saw."""
        found = self.heard(pairs, because=because, control=control)
        for seen in found.values():
            if not all(observation.seen_client for observation in seen):
                raise ProbeBroken(
                    f"{seen[-1].attempt.label}: the server did not say whom it saw", seen=seen
                )
        return found

    def heard(
        self, pairs: Iterable[Pair], *, because: str, control: bool = False
    ) -> dict[Pair, list[Observation]]:
        """As :meth:`reachable`, or :meth:`control`, each agreeing round, with whom the servers saw where they tell."""
        single = each([pairs])
        # Pods are asked so by themselves, each by its own protocol.
        kind = None if single[0][1].backends else telling(single[0][1])
        rounds = self._decide(single, [], Ask(because=because, kind=kind, open_is_control=control))
        return {pair: [round_[index] for round_ in rounds] for index, pair in enumerate(single)}

    def started(self, pods: Iterable[Workload | Target], *, because: str) -> None:
        """These pods, which were only just started, became ready; what stands in front of pods stands for them."""
        for pod in pods:
            self.context.decided(None, pod, ClaimVerdict.CONFIRMED, because, "behaviour")

    def resolves(
        self,
        sources: Workload | Iterable[Workload],
        name: str,
        to: Sequence[str],
        *,
        because: str,
        record: str = "A",
        over_tcp: bool = False,
        at: Sequence[Target] = (),
    ) -> None:
        """The name resolves for each source, by the pod's own resolver settings, to exactly these answers, in time.

        Without answers in ``to``: there is no such record, and the source is told so.  ``at``: each of these servers is
        asked.
        """
        resolution.resolves(
            self,
            [sources] if isinstance(sources, Workload) else list(sources),
            name,
            to,
            because=because,
            record=record,
            over_tcp=over_tcp,
            at=at,
        )

    # --- how they are decided --------------------------------------------------------------------------------------

    def _paths_of(
        self,
        cases: Iterable[Policies | Case],
        open: Iterable[Pairs] = (),
        closed: Iterable[Pairs] = (),
    ) -> tuple[list[Pair], list[Pair]]:
        """Return the paths that are to be open, and those that are to be closed; remember their cases."""
        rows = rows_of(cases)
        self._rows.update({key(*pair): case for pair, case in rows.items()})
        opened = [pair for pair, case in rows.items() if case.open]
        shut = [pair for pair, case in rows.items() if not case.open]
        return each([opened, *open]), each([shut, *closed])

    def _make(self, policies_and_cases: Iterable[Policies | Case], pairs: Iterable[Pair]) -> None:
        """Apply policies once all these paths are seen open, but those that an earlier change of this test closed."""
        before = [pair for pair in dict.fromkeys(pairs) if key(*pair) not in self._so_far.closed]
        if before:
            self.controls([before], because="before the change nothing closes this path")
        for item in policies_and_cases:
            if not isinstance(item, Case):
                item.apply()

    def _decide(
        self, open: Sequence[Pair], closed: Sequence[Pair], ask: Ask
    ) -> list[list[Observation]]:
        """The last observations of each path that agreed, oldest first; each list has one of every path."""
        change = self.context.world.change()
        may_be_shut_in = change is not None and change.enforced_at != "target"
        self._so_far.demand_controls(open, closed, ask.new, may_be_shut_in=may_be_shut_in)
        paths = self._plan(open, closed, ask)
        if change is None and open:
            owners.demand_open(
                self.context.world.others,
                [path.attempt for path in paths if path.want],
                all_needed=ask.open_is_control,
            )
        began = self.clock.monotonic()
        standings = self._ask(paths, ask)
        seconds = self.clock.monotonic() - began
        outcomes = [
            Outcome(
                path,
                standing,
                self._is_control(path, ask),
                is_witness=key_of(path.attempt) in ask.witnesses,
                because=ask.because or self._rows[key_of(path.attempt)].because,
            )
            for path, standing in zip(paths, standings, strict=True)
        ]
        machine_lag.excuse(self, outcomes, began)
        self._vet(outcomes)
        wrong = failure(self, outcomes, seconds=seconds, removed=ask.about_denial)
        if wrong is not None:
            raise wrong
        self._record_result(outcomes, began)
        rows = [outcome.standing.seen for outcome in outcomes if isinstance(outcome.standing, Held)]
        return [
            list(seen) for seen in zip(*(row[-min(map(len, rows)) :] for row in rows), strict=True)
        ]

    def _is_control(self, path: Path, ask: Ask) -> bool:
        """Return whether a path is to be open, or closed, for others' sake only."""
        if ask.about_denial and key_of(path.attempt) not in self._so_far.opened:
            return True
        if path.want:
            return ask.open_is_control
        return ask.closed_is_control or key_of(path.attempt) in ask.witnesses

    def _plan(self, open: Sequence[Pair], closed: Sequence[Pair], ask: Ask) -> list[Path]:
        """Make the paths, each with its controls.  All have one budget: one may have to wait for what another shows.

        Where open paths alone are controls, a policy that is late on new pods' node may keep them
        shut for a while.
        """
        paths = [
            self._path(source, target, ask.kind or default_kind(target, want=want), want=want)
            for pairs, want in ((open, True), (closed, False))
            for source, target in pairs
        ]
        within = max(path.rule.within for path in paths)
        if ask.open_is_control and not closed:
            ends = {pod.os for path in paths for pod in pods_of(path.attempt)}
            within = max(within, *(self.timings.of(system).warm_up for system in ends))
        for path in paths:
            path.rule = replace(path.rule, within=within)
            path.steady = not (closed or ask.open_is_control or ask.about_denial)
            self.context.pace.open_paths.stricter(path)
            if not ask.lasts:
                path.rule = replace(path.rule, hold=0.0)
        link(paths)
        return paths

    def _ask(self, paths: Sequence[Path], ask: Ask) -> list[Standing]:
        """Ask until each path is decided; watch denials that are due for it for longer."""
        turns = None if ask.closed_is_control else self.context.pace.watches
        change = self.context.world.change()
        if turns is None or change is None:
            return self._standings(paths, about_denial=ask.about_denial)
        with watches.watching(paths, turns, self.timings, change.enforced_at) as ended:
            ended.extend(self._standings(paths, about_denial=ask.about_denial))
        return ended

    def _standings(self, paths: Sequence[Path], *, about_denial: bool) -> list[Standing]:
        """Ask until each path is decided, every source at the cadence of its system."""
        sources = {path.attempt.source.uid: path.attempt.source.os for path in paths}
        ids = ", ".join(self.context.claims)
        self.context.sink.progress(f"{ids}: is asked")
        standings = engine.ask(
            self.prober.asking(),
            paths,
            cadence={uid: self.timings.of(system).poll_every for uid, system in sources.items()},
            agreeing={uid: self.timings.of(system).agree_every for uid, system in sources.items()},
            settle=max(path.rule.agree_span + path.attempt.give_up_after for path in paths),
            clock=self.clock,
            about_denial=about_denial,
            machine=self.context.pace.machine,
            lost=self._still_wrong,
        )
        self.context.sink.progress(ids)
        return standings

    def _still_wrong(self, paths: Sequence[Path]) -> Sequence[Path]:
        """Tell the user what is waited for, and return the paths whose ends are lost."""
        told = f"{counted(len(paths), 'path is', 'paths are')} not yet as expected, the first {paths[0].attempt.label}"
        self.context.sink.progress(f"{', '.join(self.context.claims)}: {told}")
        self.context.world.policies_there(())  # remembers those that are gone when it is over
        self.context.world.runs.look()  # in the same way
        return excuses.lost(self, paths)

    def _vet(self, outcomes: Sequence[Outcome]) -> None:
        """Take back what changed pods, others' policies or names that lead elsewhere show; then say what is decided."""
        excuses.look_after_pods(self, outcomes)
        excuses.excuse(self, outcomes)
        self.context.pace.open_paths.look_at(
            outcomes,
            self.context.claims,
            self.clock.monotonic(),
            changed=self.context.world.change() is not None,
        )
        self._so_far.demand_same_addresses(outcomes, partial(name_leads_to, self))
        for outcome in outcomes:
            if not outcome.is_control or outcome.is_witness or outcome.passes_policy:
                attempt = outcome.path.attempt
                half: Half = "open" if outcome.path.want else "closed"
                case = self._rows.get(key_of(attempt))
                context = case.of_part(self.context) if case else self.context
                context.decided(
                    attempt.source,
                    attempt.target,
                    outcome.verdict,
                    outcome.reason + machine_lag.told(outcome.path, outcome.standing),
                    half,
                    symptom=(outcome.expected, outcome.observed),
                )
        if len(outcomes) > 1:
            self.context.sink.attach("matrix", table(outcomes))

    def _record_result(self, outcomes: Sequence[Outcome], began: float) -> None:
        """Remember which paths are open and closed now, and what it took to see that."""
        paths = [outcome.path for outcome in outcomes]
        rows = [outcome.standing.row for outcome in outcomes if isinstance(outcome.standing, Held)]
        self.context.sink.record(
            "seconds to first correct answer", round(max(path.first_right for path in paths), 3)
        )
        self.context.sink.record(
            "seconds to stable answer", round(max(row[0].came for row in rows), 3)
        )
        self.context.pace.open_paths.saw(outcomes, self.clock.monotonic())
        figures = self.context.sink.figures
        change = self.context.world.change()
        figures.decided(paths, rows)
        if change is not None:
            turned = [
                (path, row)
                for path, row in zip(paths, rows, strict=True)
                if not path.want or key_of(path.attempt) in self._so_far.closed
            ]
            figures.took_effect(change, turned, began)
        for path, row in zip(paths, rows, strict=True):
            self.context.since[(*key_of(path.attempt), path.want)] = began
            self._so_far.remember(path, row[-1].seen)

    def _path(self, source: Workload, target: Target, kind: Kind, *, want: bool) -> Path:
        """A path as the engine takes it: asked as its source's system needs it, judged as the slower end does."""
        own = self.timings.of(source.os)
        ends = [own, *(self.timings.of(backend.os) for backend in target.backends)]
        attempt = self.attempt(source, target, kind)
        within = max(timings.policy_effect for timings in ends)
        if want and target.path in (Addressing.CLUSTER_IP, Addressing.NODE_PORT, Addressing.NAME):
            within = max(
                within, *(timings.service_effect for timings in ends)
            )  # kube-proxy may not know it yet
        rule = Rule.of(own, ends, within=within)
        return Path(
            attempt,
            want,
            rule.for_single_packets(attempt.give_up_after) if kind is Kind.UDP else rule,
        )
