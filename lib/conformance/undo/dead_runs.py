# SPDX-License-Identifier: Apache-2.0
"""Restores clusters after runs that died: by command (``--restore``, ``--janitor``), and before the
next run. Changes outside the runs' own namespaces are restored under the run lock."""

import functools
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance.errors import ClusterUnusable, SuiteError, first_line
from conformance.facts.detect import detect
from conformance.journal import NOT_RESTORED, Journal, Outcome, Restored
from conformance.journal.lease import RunLock
from conformance.journal.restorable import refusal
from conformance.journal.restore import restore
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.kube.refused import ApiRefused
from conformance.kube.rights import Right
from conformance.model.change import PutBack
from conformance.model.counted import counted
from conformance.model.facts import Facts
from conformance.printing import say
from conformance.settings import Settings
from conformance.undo.healers import healers_of, revivals
from conformance.undo.leftovers import Leftovers
from conformance.undo.recovery import Recovered, Recovery
from conformance.undo.rights import lacking_to_restore
from conformance.undo.verify_connectivity import Disrupted, connectivity_problem

LEFT = 6
NOTHING_LEFT = "nothing was left by dead runs"
FINDING_RIGHTS = (
    Right("list", "namespaces", needed_for="find what dead runs left"),
    Right("list", "nodes", needed_for="find nodes that dead runs cordoned"),
    Right("list", "configmaps", namespace="calico-conformance-system", needed_for="find journals"),
    Right(
        "list",
        "leases",
        "coordination.k8s.io",
        namespace="calico-conformance-system",
        needed_for="find run locks",
    ),
)
"""The rights for finding leftovers; the rights for restoring depend on the changes."""


def clear_up(
    kube: Kube, settings: Settings, process: str, *, dry_run: bool, named: str = ""
) -> int:
    """Restore the changes of dead runs and print them, or only print the leftovers. Return the exit
    code.

    ``named``: restore only this run.
    """
    facts = detect(kube, evidence="field")
    run = Ownership(settings.run_id, settings.worker, process)
    recovery = recovery_of(kube, facts, settings, run, say)
    dead, others = recovery.dead(named=named)
    say(*others)
    if dry_run:
        return _print_plan(dead)
    _demand_rights(kube, dead)
    shared = any(leftovers.shared for leftovers in dead)
    lock = _lock(recovery, run, settings, tell=say, progress=lambda line: None)
    try:
        held = (shared or (not others and recovery.untidy())) and _taken(lock, needed=shared)
        if shared:
            dead, others = recovery.dead(
                own=run.run, named=named
            )  # read again: under the lock, no other run changes the cluster
        result = recovery.recover(dead, check=lock.check)
        problem = (
            _problem(result.restored, Changes(kube, run), settings, process, say)
            if result.acted
            else ""
        )
        if held and not others:
            recovery.tidy(result, own=run.run)
    finally:
        lock.release()
    return _report(result, problem, named_lives=bool(named and others))


def _print_plan(dead: Sequence[Leftovers]) -> int:
    """Print the changes to restore and the objects to remove, and return the exit code."""
    lines = [line for leftovers in dead for line in leftovers.lines()]
    say(*(lines or [NOTHING_LEFT]), "dry run: nothing was changed" if lines else "")
    return 0


def _report(result: Recovered, problem: str, *, named_lives: bool) -> int:
    """Print the results and return the exit code.

    ``named_lives``: the user named a run that may be alive.
    """
    if not result.anything:
        say("nothing was touched" if named_lives else NOTHING_LEFT)
        return LEFT if named_lives else 0
    if result.acted:
        say(problem or "pods of both operating systems reach each other in all directions")
        result.left += [problem] if problem else []
    say(summary(result))
    return 0 if result.whole else LEFT


def _demand_rights(kube: Kube, dead: Sequence[Leftovers]) -> None:
    """Raise ClusterUnusable, before any change, if the user may not restore every change."""
    changes = [entry for leftovers in dead for entry in leftovers.entries]
    if lacking := lacking_to_restore(kube, changes) if changes else []:
        raise ClusterUnusable(
            [
                *lacking,
                f"nothing was touched, and {counted(len(changes), 'change')} of dead runs stay",
            ]
        )


def _taken(lock: RunLock, *, needed: bool) -> bool:
    """Try to take the run lock, and return whether this succeeded. Raise ClusterUnusable if the
    lock is ``needed`` and another run holds it."""
    try:
        lock.acquire(patient=False)
    except ClusterUnusable:
        if needed:
            raise
        return False
    return True


def before_a_run(
    kube: Kube,
    facts: Facts,
    settings: Settings,
    *,
    process: str,
    named_by: Sequence[str],
    tell: Callable[[str], None],
) -> list[str]:
    """Restore the changes of dead runs, if this run may do so. Return the reasons, if there are
    any, why no run can begin.

    A run that only reads reports what it would restore, and changes nothing. ``process`` signs the
    created objects (``journal.liveness``); ``named_by`` are the options that name the cluster.
    """
    run = Ownership(settings.run_id, settings.worker, process)
    recovery = recovery_of(kube, facts, settings, run, tell)
    dead = _unrestored(recovery, run, tell)
    if settings.reads_only and (settings.disruptive or settings.dry_run):
        for leftovers in dead:
            _announce(leftovers, tell)
        return []
    if not dead or not settings.disruptive:
        return [_describe(leftovers, named_by) for leftovers in dead]
    progress = functools.cache(tell)  # prints each line once
    lock = _lock(recovery, run, settings, tell=tell, progress=progress)
    try:
        lock.acquire()
        result = recovery.recover(_unrestored(recovery, run), check=lock.check)
        problem = (
            _problem(result.restored, Changes(kube, run), settings, process, tell)
            if result.changed
            else ""
        )
    except ClusterUnusable as unusable:
        return list(unusable.reasons)
    finally:
        lock.release()
    if problem:
        tell(problem)
    failed = [str(restored) for restored in result.restored if restored.outcome is Outcome.FAILED]
    return [
        f"leftovers of a dead run are not cleared up: {line} (to clear up: {_command(named_by)})"
        for line in dict.fromkeys([*failed, *result.left, *([problem] if problem else [])])
    ]


def _announce(leftovers: Leftovers, tell: Callable[[str], None]) -> None:
    """Report what a run with the necessary rights would restore."""
    tell(
        f"leftovers: {_who(leftovers)}; a run with --allow-disruptive puts the following back "
        "before its first test:"
    )
    for line in leftovers.lines():
        tell(f"  {line}")


def left_by_dead(
    kube: Kube, facts: Facts, settings: Settings, *, named_by: Sequence[str]
) -> list[str]:
    """Return a line for each dead run whose changes are not restored. Since this run holds the
    lock now, no other run restores them."""
    run = Ownership(settings.run_id, settings.worker)
    recovery = recovery_of(kube, facts, settings, run, lambda line: None)
    return [_describe(leftovers, named_by) for leftovers in _unrestored(recovery, run)]


def recovery_of(
    kube: Kube, facts: Facts, settings: Settings, run: Ownership, tell: Callable[[str], None]
) -> Recovery:
    """Return the recovery of this cluster; it acts in the name of ``run``."""
    healers = healers_of(Changes(kube, run), facts, settings)
    return Recovery(kube, healers, settings.timings, tell=tell, prefix=settings.namespaces_prefix)


def of_a_worker(
    kube: Kube,
    facts: Facts,
    settings: Settings,
    worker: str,
    *,
    process: str,
    memory: Path | None = None,
    named_by: Sequence[str] = (),
) -> PutBack:
    """Restore the changes of an ended process of this run (``worker``; empty: of every process).
    Then remove the marks that none of its open entries explains.

    If other processes of the run go on, traffic then verifies that the cluster is restored.
    ``memory``: the journal's copy, which serves to report the remaining changes if the cluster does
    not answer.
    """
    run = Ownership(settings.run_id, process=process)
    journal = Journal(kube, run, within=settings.timings.run.journal, memory=memory)
    unreadable: list[str] = []
    if not (
        journal.entries(unreadable.append)
        or journal.has_memory
        or (worker and settings.disruptive)  # a dead worker may have left a mark without an entry
    ):
        return PutBack()
    changes = Changes(kube, run)
    healers = healers_of(changes, facts, settings)
    done = restore(journal, changes, healers, only=lambda entry: worker in ("", entry.worker))
    lines = [*map(str, done), *unreadable]
    if failed := sum(restored.outcome is Outcome.FAILED for restored in done):
        lines.append(
            f"{counted(failed, 'change')} of the cluster not put back; put back by: {_command(named_by)}"
        )
    problem = next((str(restored) for restored in done if _is_unrestored(restored)), "")
    if worker and not problem and any(restored.outcome is Outcome.RESTORED for restored in done):
        try:
            problem = _problem(done, changes, settings, process, lines.append)
        except SuiteError as unknown:
            problem = f"it is not known whether pods reach each other: {first_line(unknown)}"
        lines += filter(None, [problem])
    marks = recovery_of(kube, facts, settings, run, lambda line: None).take_marks(journal, worker)
    left = [f"{line}; put back by: {_command(named_by)}" for line in marks.left]
    lines += [*marks.lines, *left]
    return PutBack(lines=tuple(lines), problem=next(filter(None, [problem, *left]), ""))


def _is_unrestored(restored: Restored) -> bool:
    """Return whether a change of this run is not restored. An entry that does not fit the table is
    not this run's entry."""
    return restored.outcome in NOT_RESTORED and not refusal(restored.entry)


def _disrupted(done: Sequence[Restored], changes: Changes, settings: Settings) -> Disrupted:
    """Return the nodes that journal entries name: changed nodes, and nodes of procedures."""
    entries = [restored.entry for restored in done if restored.outcome is not Outcome.REFUSED]
    changed = [
        entry.target.name for entry in entries if entry.target and entry.target.kind == "Node"
    ]
    procedures = [str(entry.arguments["node"]) for entry in entries if "node" in entry.arguments]
    return Disrupted(
        nodes=tuple(dict.fromkeys([*changed, *procedures])),
        revive=revivals(changes, settings, entries),
    )


def _problem(
    done: Sequence[Restored],
    changes: Changes,
    settings: Settings,
    process: str,
    tell: Callable[[str], None],
) -> str:
    """Describe pods that do not reach each other after the recovery. The facts are read again,
    because nodes take pods again."""
    return connectivity_problem(
        changes.kube,
        detect(changes.kube, evidence="field"),
        settings,
        process=process,
        disrupted=_disrupted(done, changes, settings),
        tell=tell,
    )


def _lock(
    recovery: Recovery,
    run: Ownership,
    settings: Settings,
    *,
    tell: Callable[[str], None],
    progress: Callable[[str], None],
) -> RunLock:
    """Return the run lock for a recovery: meanwhile no second recovery may run, and no run may
    disrupt the cluster."""
    return RunLock(
        recovery.kube,
        run,
        settings.timings.run,
        tell=tell,
        progress=progress,
        life=recovery.life,
    )


def _unrestored(
    recovery: Recovery, run: Ownership, tell: Callable[[str], None] = lambda line: None
) -> list[Leftovers]:
    """Return dead runs that may have left the cluster changed; none if the user may not read
    journals.

    ``tell`` receives a line for each refused journal entry. Such an entry is left alone, and stops
    no run.
    """
    try:
        dead = recovery.dead(own=run.run)[0]
        for line in (line for leftovers in dead for line in leftovers.doubts):
            tell(line)
        return [leftovers for leftovers in dead if leftovers.changed]
    except ApiRefused as refusal:
        if not refusal.forbidden:
            raise
        return []  # a user who may not read journals may not restore their changes either


def summary(result: Recovered) -> str:
    """Return one line about the recovery."""
    counts = [
        f"{sum(restored.outcome == outcome for restored in result.restored)} {outcome}"
        for outcome in dict.fromkeys(restored.outcome for restored in result.restored)
    ]
    counts += [f"{counted(len(result.lines), 'leftover')} removed"] if result.lines else []
    counts += [f"{len(result.left)} left to do"] if result.left else []
    return ", ".join(counts)


def _command(named_by: Sequence[str]) -> str:
    return shlex.join(["pytest", *named_by, "--restore"])


def _who(leftovers: Leftovers) -> str:
    return f"run {leftovers.run}, begun {leftovers.since:%Y-%m-%d %H:%M} UTC, died"


def _describe(leftovers: Leftovers, named_by: Sequence[str]) -> str:
    who = _who(leftovers)
    if not leftovers.entries:
        marked = ", ".join(target.label for target, _ in leftovers.marks)
        return (
            f"{who} and left its mark on {marked}, which it may have changed: {_command(named_by)}"
        )
    changes = f"{counted(len(leftovers.entries), 'change')} of the cluster"
    return (
        f"{who} and left {changes} ({leftovers.entries[-1].label}); restore the cluster first: "
        f"{_command(named_by)}  "
        "(a run with --allow-disruptive does so by itself)"
    )
