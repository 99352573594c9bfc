# SPDX-License-Identifier: Apache-2.0
"""Decides an expectation's paths: probes them until they are decided, and withdraws results that
other causes explain."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Protocol

from conformance.expect import excuses, machine_lag, owners, watches
from conformance.expect.case import Paths, Row, rows_of
from conformance.expect.crossing import Crossing
from conformance.expect.engine import ask as engine
from conformance.expect.engine.answered import default_kind
from conformance.expect.engine.decide import Held, Standing
from conformance.expect.engine.pairs import key
from conformance.expect.engine.path import Path, Rule, link
from conformance.expect.excuses import pods_of
from conformance.expect.failure import failure, name_leads_to
from conformance.expect.observed_paths import ObservedPaths, key_of
from conformance.expect.outcome import Outcome, table
from conformance.expect.session import Session
from conformance.model.attempt import Kind
from conformance.model.counted import counted
from conformance.model.decision import Half
from conformance.model.endpoint import Addressing, Pair, Target, Workload
from conformance.model.observation import Observation

MANY = 256
"""The maximum number of paths of an expectation for which each source makes attempts at its
system's cadence."""
ATTEMPTS = 1000.0
"""With more than :data:`MANY` paths, the number of attempts per second over all sources. An attempt
costs judge and lab together 2 ms of a core, and paths look closed if attempts begin faster than
pods answer."""


class Policies(Protocol):
    """All policies of a test."""

    def apply(self) -> None:
        """Bring the policies into force. Raise the API server's error."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The way an expectation tries its paths, and the role of these paths in it."""

    because: str = ""
    """The reason why the paths should be open, or closed; empty: each row has its reason."""
    kind: Kind | None = None
    """The kind of attempt; None: the default kind of each target."""
    open_is_control: bool = False
    closed_is_control: bool = False
    """True: the closed paths (``open_is_control``: the open paths) are only controls of other
    paths."""
    lasts: bool = True
    """True: the denials must last after their attempts have agreed."""
    about_denial: bool = False
    """True: policies were removed just now, so the paths that they closed should open again."""
    new: frozenset[str] = frozenset()
    """Uids of pods that were created after the policies."""
    witnesses: frozenset[tuple[str, str]] = frozenset()
    """Closed paths that only show that policies are in force."""


@dataclass(frozen=True, eq=False)
class PathDecisions(Session):
    """Decides the paths of a test's expectations; keeps the paths that the test found open and
    closed."""

    crossing: Crossing = field(default_factory=Crossing)
    """The choice of paths if there are too many to probe at once."""
    _so_far: ObservedPaths = field(default_factory=ObservedPaths)
    _rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    """The newest row that named each path, by path."""

    def _paths_of(self, items: Iterable[Policies | Row]) -> tuple[list[Pair], list[Pair]]:
        """Return the paths that should be open, and the paths that should be closed; remember their
        rows."""
        rows = rows_of(items)
        self._rows.update({key(*pair): row for pair, row in rows.items()})
        opened = [pair for pair, row in rows.items() if row.open]
        return opened, [pair for pair, row in rows.items() if not row.open]

    def _sampled(self, items: Sequence[Policies | Row]) -> Sequence[Policies | Row]:
        """Return the items. If the rows have denials and too many paths, restrict the rows to the
        paths of the test's slice."""
        rows = [item for item in items if isinstance(item, Row)]
        is_open = self.context.world.change() is None and len(rows) == len(items)
        if is_open and all(row.open for row in rows):
            return items  # open paths alone are probed slice by slice
        if not self.crossing.is_wide(pair for row in rows for pair in row.pairs):
            return items
        return [self._sample(item) if isinstance(item, Row) else item for item in items]

    def _sample(self, row: Row) -> Row:
        return Paths(
            pairs=self.crossing.sample(row.pairs, self._so_far.opened),
            **{
                each.name: getattr(row, each.name) for each in fields(Paths) if each.name != "pairs"
            },
        )

    def _decide(
        self, open: Sequence[Pair], closed: Sequence[Pair], ask: Ask
    ) -> list[list[Observation]]:
        """Decide the paths. Return the newest observations that agreed, oldest first: lists with an
        observation of every path."""
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
                at=row.at if (row := self._rows.get(key_of(path.attempt))) else None,
            )
            for path, standing in zip(paths, standings, strict=True)
        ]
        machine_lag.excuse(self, outcomes, began)
        self._vet(outcomes)
        wrong = failure(self, outcomes, seconds=seconds, removed=ask.about_denial)
        if wrong is not None:
            raise wrong
        self._record_result(outcomes, began)
        rows = [
            outcome.standing.observations
            for outcome in outcomes
            if isinstance(outcome.standing, Held)
        ]
        return [
            list(observations)
            for observations in zip(*(row[-min(map(len, rows)) :] for row in rows), strict=True)
        ]

    def _is_control(self, path: Path, ask: Ask) -> bool:
        """Return whether a path, open or closed, is only a control for other paths."""
        if ask.about_denial and key_of(path.attempt) not in self._so_far.opened:
            return True
        if path.want:
            return ask.open_is_control
        return ask.closed_is_control or key_of(path.attempt) in ask.witnesses

    def _plan(self, open: Sequence[Pair], closed: Sequence[Pair], ask: Ask) -> list[Path]:
        """Return the paths, each with its controls.

        All paths have the same time budget, since a path may wait for another path's result. If
        open paths are the only controls, the time budget is longer: on a new pod's node, policies
        may take effect late and keep these paths closed for a while.
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
        """Probe until each path is decided. If it is this test's turn to watch a denial, observe
        that denial for longer."""
        turns = None if ask.closed_is_control else self.context.pace.watches
        change = self.context.world.change()
        if turns is None or change is None:
            return self._standings(paths, about_denial=ask.about_denial)
        with watches.watching(paths, turns, self.timings, change.enforced_at) as ended:
            ended.extend(self._standings(paths, about_denial=ask.about_denial))
        return ended

    def _standings(self, paths: Sequence[Path], *, about_denial: bool) -> list[Standing]:
        """Probe until each path is decided. Probe slice by slice if all paths should be open, and
        there are too many."""
        is_open = self.context.world.change() is None and all(path.want for path in paths)
        is_sliced = is_open and self.crossing.is_wide(map(_pair_of, paths))
        slices = self.crossing.sliced(paths, _pair_of) if is_sliced else [list(paths)]
        ended = {
            path: standing
            for part in slices
            for path, standing in zip(part, self._at_once(part, about_denial), strict=True)
        }
        return [ended[path] for path in paths]

    def _at_once(self, paths: Sequence[Path], about_denial: bool) -> list[Standing]:
        """Probe all paths at once, each source at the cadence of its system, or more slowly if
        there are many paths."""
        sources = {path.attempt.source.uid: path.attempt.source.os for path in paths}
        ids = ", ".join(self.context.claims)
        self.context.sink.progress(f"{ids}: sending attempts")
        pace = len(paths) / ATTEMPTS if len(paths) > MANY else 0.0
        timings = {uid: self.timings.of(system) for uid, system in sources.items()}
        standings = engine.ask(
            self.prober.asking(),
            paths,
            cadence={uid: max(pace, of.poll_every) for uid, of in timings.items()},
            agreeing={uid: max(pace, of.open_every) for uid, of in timings.items()},
            settle=max(path.rule.agree_span + path.attempt.give_up_after for path in paths),
            clock=self.clock,
            about_denial=about_denial,
            machine=self.context.pace.machine,
            lost=partial(self._still_wrong, len(paths)),
        )
        self.context.sink.progress(ids)
        return standings

    def _still_wrong(self, number: int, paths: Sequence[Path]) -> Sequence[Path]:
        """Report to the user for how many of the ``number`` paths the test still waits. Return the
        paths that lost an end."""
        first = paths[0]
        expected = "open" if first.want else "closed"
        share = f"{len(paths)} of {counted(number, 'path')}, up to {first.rule.within:.0f} s"
        line = f"{first.attempt.nodes} is not {expected} yet ({share})"
        self.context.sink.progress(f"{', '.join(self.context.claims)}: {line}")
        self.context.world.policies_there(())  # reads policies that may be gone at the end
        self.context.world.runs.look()  # reads other runs' changes that may be over at the end
        return excuses.lost_paths(self, paths)

    def _vet(self, outcomes: Sequence[Outcome]) -> None:
        """Withdraw results that changed pods, foreign policies or changed names explain; then
        record the decisions.
        """
        excuses.look_after_pods(self, outcomes)
        excuses.excuse(self, outcomes)
        if self.context.world.change() is not None:
            self._so_far.lose_controls(outcomes)
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
                row = self._rows.get(key_of(attempt))
                context = row.of_part(self.context) if row else self.context
                context.decided(
                    attempt.source,
                    attempt.target,
                    outcome.verdict,
                    outcome.reason + machine_lag.describe(outcome.path, outcome.standing),
                    half,
                    symptom=(outcome.expected, outcome.observed),
                )
        if len(outcomes) > 1:
            self.context.sink.attach("matrix", table(outcomes))

    def _record_result(self, outcomes: Sequence[Outcome], began: float) -> None:
        """Record which paths are open and closed now, and the attempts that showed these states."""
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
            self._so_far.remember(path, row[-1].observation)

    def _path(self, source: Workload, target: Target, kind: Kind, *, want: bool) -> Path:
        """Return a path for the engine. Its attempts fit the source's system; its rule fits the
        slower end."""
        own = self.timings.of(source.os)
        ends = [own, *(self.timings.of(backend.os) for backend in target.backends)]
        attempt = self.attempt(source, target, kind)
        within = max(timings.policy_effect for timings in ends)
        if want and target.path in (Addressing.CLUSTER_IP, Addressing.NODE_PORT, Addressing.NAME):
            within = max(
                within, *(timings.service_effect for timings in ends)
            )  # kube-proxy may not have programmed the Service yet
        rule = Rule.of(own, ends, within=within)
        return Path(
            attempt,
            want,
            rule.for_single_packets(attempt.give_up_after) if kind is Kind.UDP else rule,
        )


def _pair_of(path: Path) -> Pair:
    """Return the source and the target of a path; paths of this module always have a target."""
    assert path.attempt.target is not None
    return path.attempt.source, path.attempt.target
