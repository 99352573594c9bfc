# SPDX-License-Identifier: Apache-2.0
"""Expectations in a world (a set of policies), cell by cell. A cell is a pair of seats (the world's
pods) with protocol and port. The oracle, a model of Calico's policies, computes its expected
result.

Each world begins and ends at rest: every pair is open before it and after it. Agreement with the
expectation counts only after a barrier. The barrier is reached when the change has taken effect
wherever it should, closed paths are decided, and some time has passed. This time is twice the
longest time that a policy has taken here to close a path.

Worlds may close all paths of pods. Therefore each node has a bystander, which no world selects; the
bystanders of both ends connect at the same time as each time-out. So no outage of a node or network
can look like a denial. Attempts at closed paths can therefore be shorter and more frequent than
elsewhere, so that a denial is noticed sooner. They still send a second packet, so no open path
looks closed. A difference must persist over the whole time limit. It is then checked again from
rest, with the usual time limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from conformance.catalog import catalog
from conformance.enforcement.worlds import Ground
from conformance.errors import ControlBroken, Nonconformance
from conformance.expect import excuses, machine_lag, owners
from conformance.expect.engine.ask import ask
from conformance.expect.engine.decide import Broken, BrokenControl, Wrong
from conformance.expect.engine.path import Path, Rule
from conformance.expect.engine.sources import MARGIN
from conformance.expect.explain import advice, cause, message
from conformance.expect.outcome import Outcome, table
from conformance.expect.session import Session
from conformance.model.claim import ClaimKind, ClaimVerdict
from conformance.model.counted import counted
from conformance.model.decision import decisions_about
from conformance.model.endpoint import Workload
from conformance.model.explanation import Explanation
from conformance.pods.roles import ECHO_PORT
from conformance.policy import worlds
from conformance.policy.oracle.oracle import Verdict
from conformance.policy.worlds import Cell, World
from conformance.timing import hold
from conformance.verdicts.meaning import of_cell
from conformance.worlds.cell_result import (
    AGREED,
    CellResult,
    changed_cells,
    closed_cells,
    differs,
    last_agreement,
    not_held,
)

__tracebackhide__ = True  # a failure shows a line of the test, not of this module
NAMED = 4
"""The number of other cells that a message names."""
OPEN = 2
"""The number of attempts in a row that decide an open path after the barrier."""
UNSURE = (
    "it is not certain whether the result is as expected, even after the policies were "
    "applied again"
)
NOT_HONOURED = "the edit is not honoured: the same policies, applied anew, give the expected result"


@dataclass(frozen=True, eq=False, kw_only=True)
class InWorld(Session):
    """A world, and the expected results in it."""

    ground: Ground
    world: World
    replay: str
    """The command that runs the world again."""

    def holds(self, *, because: str) -> None:
        """Expect every pair of seats to be as the oracle says, at rest and after the world's edit.

        Raise Nonconformance with the cell, the expectation, its rule and the observation;
        ControlBroken if pairs are not open at rest, or a difference does not repeat; and the errors
        of probing and applying.
        """
        self.context.sink.keep(self.ground.seats.taken())
        stages = [self.world, self.world.edited()] if self.world.then else [self.world]
        if not self.ground.seats.at_rest:  # else the last world left every pair open
            self._at_rest("before the world")
        self.ground.seats.at_rest = False
        asked: list[CellResult] = []
        past: list[CellResult] = []
        try:
            for stage in stages:
                past = asked
                asked = self._stage(stage, past, decides=stage is stages[-1])
                if not all(result.outcome.held for result in asked):
                    break
            self._ask_again(stage, asked)
        finally:
            self.ground.clear()
        self._at_rest("after the world")
        self.ground.seats.at_rest = True
        opened = {result.cell.key for result in asked if result.outcome.held and result.want}
        past = [result for result in past if result.cell.key in opened and not result.want]
        when = "" if stage is self.world else "after the edit: "
        self._report([*asked, *past], because, when)

    # --- asking -------------------------------------------------------------------------------

    def _cells(
        self, world: World, *, every: bool = False, past: Sequence[CellResult] = ()
    ) -> list[Cell]:
        """Return the cells that the world's claims are about.

        ``every``: return all cells; ``past``: the results before an edit, whose decisions each cell
        keeps.
        """
        ends = {result.cell.key: result.cell.decisions for result in past}
        claims = (world.claim, *world.beside)
        seats = self.ground.seats.seats
        spaces = self.ground.seats.namespaces
        objects = [*worlds.surroundings(world, seats, spaces), *world.filled(seats, spaces)]
        return [
            replace(cell, before=ends.get(cell.key, ()))
            for cell in worlds.cells(objects, seats, world.claim)
            if every or cell.claim in claims
        ]

    def _at_rest(self, when: str) -> None:
        """Raise ControlBroken if a pair is not open without policies."""
        paths = [
            self._path(cell, self._rule(cell, agree=1), want=True)
            for cell in self._cells(self.world, every=True)
        ]
        wrong = next((outcome for outcome in self._ask_paths(paths) if not outcome.held), None)
        if wrong is None:
            return
        if isinstance(wrong.standing, Broken):
            raise wrong.standing.error
        attempt = wrong.path.attempt
        explanation = message.explanation(
            self.context.claims,
            attempt,
            expected="CONNECTED",
            because="no policies of a world are left",
            observations=wrong.observations,
            seconds=wrong.path.seconds,
            further={"do": advice.open_path(attempt, wrong.observations)},
        )
        raise ControlBroken(
            message.of_control(explanation, f"{when} {self.world.name}"),
            attempt.label,
            wrong.observations,
        )

    def _stage(
        self, world: World, past: Sequence[CellResult], *, decides: bool
    ) -> list[CellResult]:
        """Bring a world into force and probe every cell.

        ``past``: the results before an edit; ``decides``: this stage is the last, and not only a
        control for the stage after the edit.
        """
        cells = self._cells(world, past=past)
        seats = self.ground.seats
        self.context.sink.attach("policies in force", self.ground.show(world))
        changed = changed_cells(cells, past)
        opens = [cell for cell in cells if cell.key in changed and cell.expected is Verdict.ALLOWED]
        # before the change was observed, a cell may agree only because of the old policies
        if unseen := not_held(self._ask_cells(opens, agree=1)):
            return unseen
        if past:
            self._rest(seats.latency)
        began = self.clock.monotonic() - self.ground.at
        agree = 0 if decides else 1
        asked = self._ask_cells(cells, agree=agree)
        closing = [result for result in closed_cells(asked) if result.cell.key in changed]
        if unseen := not_held(closing):
            return unseen
        closed = self._closed_cells(asked, closing, agree)
        agreed = began + last_agreement(closing if past else closed)
        if not past:
            seats.latencies.append(agreed)
        opened = [result for result in asked if result.want]
        if decides:  # before an edit, open cells are only controls
            opened = self._past_barrier(opened, began, max(agreed, 2 * seats.latency))
        return [*closed, *opened]

    def _closed_cells(
        self, asked: Sequence[CellResult], closing: Sequence[CellResult], agree: int
    ) -> list[CellResult]:
        """Return the results of closed cells.

        ``closing``: the cells that the edit closes. If one of them closed late, the other closed
        cells are probed again: their answers may be older than the change.
        """
        closed = closed_cells(asked)
        if not any(result.is_late for result in closing):
            return closed
        left = [result.cell for result in closed if result not in closing]
        return [*closing, *self._ask_cells(left, agree=agree)]

    def _past_barrier(
        self, opened: Sequence[CellResult], began: float, barrier: float
    ) -> list[CellResult]:
        """Return the results of open cells. Cells that agreed before the barrier are probed again.

        ``began``: seconds from the newest change to the attempts.
        """
        early = [
            result for result in opened if result.row and began + result.row[-OPEN].at < barrier
        ]
        if early:
            self._rest(barrier)
        again = self._ask_cells([result.cell for result in early])
        return [*(result for result in opened if result not in early), *again]

    def _rest(self, seconds: float) -> None:
        """Wait until this much time has passed since the newest change."""
        rest = seconds - (self.clock.monotonic() - self.ground.at)
        if rest > 0:
            hold(
                lambda: True,
                bool,
                seconds=rest,
                every=rest,
                description="policies take effect",
                clock=self.clock,
            )

    def _ask_again(self, world: World, asked: Sequence[CellResult]) -> None:
        """Probe the cells that differ once more, starting from rest."""
        different = [result for result in asked if differs(result.outcome)]
        if not different:
            return
        self.ground.clear()
        self._at_rest("before the difference is looked for again")
        self.context.sink.attach("policies in force", self.ground.show(world))
        found = self._ask_cells([result.cell for result in different], held=True)
        for result, again in zip(different, found, strict=True):
            result.again = again.outcome

    def _ask_cells(
        self, cells: Sequence[Cell], *, agree: int = 0, held: bool = False
    ) -> list[CellResult]:
        """Probe cells, with bystanders as controls.

        ``agree``: the number of attempts in a row that is enough, without a least time between
        them; 0: the usual rule. ``held``: denials must last.
        """
        if not cells:
            return []
        ring = self._bystander_ring()
        controls = [(ring[cell.source.node][0], ring[cell.destination.node][1]) for cell in cells]
        paths = [self._cell_path(cell, agree=agree, held=held) for cell in cells]
        for path, (before, after) in zip(paths, controls, strict=True):
            path.controls = () if path.want else ((before,), (after,))
        witnesses = list({id(path): path for pair in ring.values() for path in pair}.values())
        outcomes = self._ask_paths([*paths, *witnesses])
        lost = {id(outcome.path) for outcome in outcomes[len(paths) :] if not outcome.held}
        asked = [CellResult(*pair) for pair in zip(cells, outcomes, strict=False)]
        for result, around in zip(asked, controls, strict=True):
            standing = result.outcome.standing
            if isinstance(standing, Wrong) and lost & set(map(id, around)):
                result.outcome.standing = BrokenControl(standing.why)
        for result in asked:
            result.peers = asked
        return asked

    def _ask_paths(self, paths: Sequence[Path]) -> list[Outcome]:
        """Return the outcome of each path. Failures that changed pods or foreign policies could
        explain are withdrawn."""
        if not paths:
            return []
        wanted = [path.attempt for path in paths if path.want]
        owners.demand_open(self.context.world.others, wanted, all_needed=False)
        began = self.clock.monotonic()
        sources = {path.attempt.source.uid: path.attempt.source.os for path in paths}
        rows = {path.attempt.source.uid: path.rule.span + MARGIN for path in paths if not path.want}
        patience = {uid: self.timings.of(system) for uid, system in sources.items()}
        standings = ask(
            self.prober.asking(),
            paths,
            clock=self.clock,
            about_denial=True,
            machine=self.context.pace.machine,
            cadence={
                uid: max(timings.poll_every, rows.get(uid, 0.0) / (AGREED - 1))
                for uid, timings in patience.items()
            },
            agreeing={uid: timings.agree_every for uid, timings in patience.items()},
            settle=max(path.rule.agree_span + path.attempt.give_up_after for path in paths),
            lost=lambda paths: excuses.lost_paths(self, paths),
        )
        outcomes = [
            Outcome(path, standing, False) for path, standing in zip(paths, standings, strict=True)
        ]
        machine_lag.excuse(self, outcomes, began)
        excuses.look_after_pods(self, outcomes)
        excuses.excuse(self, outcomes)
        return outcomes

    def _cell_path(self, cell: Cell, *, agree: int, held: bool) -> Path:
        """Return the path that decides a cell under policies."""
        want = cell.expected is Verdict.ALLOWED
        rule = self._rule(cell, agree=agree or (OPEN if want and not held else 0), held=held)
        path = self._path(cell, rule, want=want)
        path.later = want
        return path

    def _path(self, cell: Cell, rule: Rule, *, want: bool) -> Path:
        source = self.ground.seats.pod(cell.source)
        target = self.ground.seats.pod(cell.destination)
        at = target.tcp(cell.port) if cell.protocol == "TCP" else target.udp(cell.port)
        attempt = self.attempt(source, at, want=want)
        patience = self.timings.of(source.os)
        if not want and not rule.hold:
            shorter = (
                patience.tcp_give_up - patience.syn_again
            ) / 4  # a path as slow as 500 ms still counts as open
            attempt = replace(attempt, give_up_after=patience.tcp_give_up - shorter)
        return Path(attempt, want, rule)

    def _rule(self, cell: Cell, *, agree: int = 0, held: bool = False) -> Rule:
        """Return the rule that decides the cell.

        ``agree`` and ``held``: as for :meth:`_ask_cells`.
        """
        source = self.ground.seats.pod(cell.source)
        rule = self._rule_between(source, self.ground.seats.pod(cell.destination))
        patience = self.timings.of(source.os)
        if held:
            return rule.for_single_packets(patience.udp_give_up) if cell.protocol == "UDP" else rule
        rule = replace(
            rule, agree_span=rule.agree_span / 2, hold=0.0, near=patience.tcp_give_up
        )  # bystanders have the same time limit
        return replace(rule, agree=agree, agree_span=0.0) if agree else rule

    def _rule_between(self, *ends: Workload) -> Rule:
        patience = [self.timings.of(end.os) for end in ends]
        return Rule.of(
            patience[0], patience, within=max(timings.policy_effect for timings in patience)
        )

    def _bystander_ring(self) -> dict[str, tuple[Path, Path]]:
        """Map each node to two paths: from its bystander to the next node's bystander, and from the
        previous node's bystander to it."""
        there = list(self.ground.seats.bystanders.values())
        ring = []
        for pod, following in zip(there, [*there[1:], there[0]], strict=True):
            attempt = self.attempt(pod, following.tcp(ECHO_PORT))
            ring.append(Path(attempt, True, replace(self._rule_between(pod, following), agree=1)))
        return {pod.node: (ring[number], ring[number - 1]) for number, pod in enumerate(there)}

    # --- saying -------------------------------------------------------------------------------

    def _report(self, asked: Sequence[CellResult], because: str, when: str) -> None:
        """Record each cell's decision for its claim. Raise the error about the cells with the worst
        verdict. ``when``: the previous event, for the first line: ``after the edit: ``; empty:
        there was no event."""
        found = [(result, *self._verdict(result, because, edited=bool(when))) for result in asked]
        for result, verdict, reason in found:
            self._keep_decisions(result, verdict, reason.partition("\n")[0])
        self.context.sink.record(
            "seconds until policies had closed what they close", round(self.ground.seats.latency, 3)
        )
        wrong = [
            (result, reason)
            for result, verdict, reason in found
            if verdict is ClaimVerdict.VIOLATED
        ]
        unsure = [result for result, verdict, _ in found if verdict is ClaimVerdict.INCONCLUSIVE]
        if wrong or unsure:
            self.context.sink.attach("matrix", table([result.outcome for result in asked]))
        if wrong:
            raise self._violation(wrong, asked, because, when)
        for result in unsure:
            if isinstance(result.outcome.standing, Broken):
                raise result.outcome.standing.error
        if unsure:
            raise ControlBroken(
                self._message(unsure[0], f"{when}{UNSURE}", because),
                unsure[0].outcome.label,
                unsure[0].outcome.observations,
            )

    def _keep_decisions(self, result: CellResult, verdict: ClaimVerdict, reason: str) -> None:
        """Record a cell's decision for its claim."""
        attempt = result.outcome.path.attempt
        decisions = decisions_about(
            attempt.source,
            attempt.target,
            verdict,
            reason,
            "open" if result.want else "closed",
            enforced_at=result.side,
            symptom=(result.outcome.expected, result.outcome.observed),
        )
        self.context.sink.keep([replace(each, claim=result.cell.claim) for each in decisions])

    def _violation(
        self,
        wrong: Sequence[tuple[CellResult, str]],
        asked: Sequence[CellResult],
        because: str,
        when: str,
    ) -> Nonconformance:
        """Return the error about wrong cells; each comes with its reason."""
        first, reason = wrong[0]
        cells = [result for result, _ in wrong]
        so = f"{NOT_HONOURED}; {first.rule}" if NOT_HONOURED in reason else first.rule
        every = [observation for result in cells for observation in result.outcome.observations]
        alike = [
            result.outcome.path.attempt
            for result in cells
            if (result.want, result.stale_side) == (first.want, first.stale_side)
        ]
        peers = [
            result.outcome.path.attempt
            for result in (*first.peers, *asked)
            if result.outcome.held and result.want is first.want
        ]
        side = cause.differs_at(alike, peers) if first.stale_side == "both" else first.stale_side
        of_side = cause.withholds if first.want else cause.passes
        text = self._message(first, f"{when}{so}", because, cells[1:])
        error = Nonconformance(replace(text, cause=of_side(alike, side)), every)
        error.paths = [result.outcome.path.attempt for result in cells]
        return error

    def _verdict(
        self, result: CellResult, because: str, *, edited: bool
    ) -> tuple[ClaimVerdict, str]:
        """Return a cell's verdict, and the reason."""
        outcome = result.outcome
        again = result.again
        cell = result.cell
        held_again = again is not None and again.held
        sure = again is not None and (differs(again) or (held_again and edited))
        limitation = (
            cell.promised is not cell.expected
            and catalog()[cell.claim].kind is ClaimKind.LIMITATION
        )
        verdict = of_cell(held=outcome.held, sure=sure, again=held_again, limitation=limitation)
        if outcome.held:
            return verdict, f"{because}: {result.rule}"
        if not sure:
            return verdict, f"{UNSURE}: {outcome.reason}"
        if limitation:
            return (
                verdict,
                f"{outcome.label} is {cell.promised.value}, as policies promise, although the "
                "documentation says otherwise",
            )
        return verdict, f"{outcome.reason}: {NOT_HONOURED if held_again else result.rule}"

    def _message(
        self, result: CellResult, so: str, because: str, also: Sequence[CellResult] = ()
    ) -> Explanation:
        """Return the whole message about a cell."""
        outcome = result.outcome
        attempt = result.outcome.path.attempt
        further = {"world": f"{self.world.name} (its policies are attached)"}
        if result.again:
            further["from rest"] = message.summary(result.again.observations)
        if also:
            more = f", and {len(also) - NAMED} more" if len(also) > NAMED else ""
            named = "; ".join(
                f"{each.outcome.label} expected {each.outcome.expected}" for each in also[:NAMED]
            )
            further["also"] = f"{counted(len(also), 'other cell', 'other cells')}: {named}{more}"
        further["beside"] = "pods on both nodes that no policy selects connected all the while"
        further["do"] = advice.felix(attempt, result.stale_side)
        further["replay"] = self.replay
        return message.explanation(
            [result.cell.claim],
            attempt,
            expected=outcome.expected,
            because=f"{because}: {result.rule}",
            observations=outcome.observations,
            seconds=outcome.path.seconds,
            further=further,
            so=so,
        )
