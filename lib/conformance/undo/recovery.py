# SPDX-License-Identifier: Apache-2.0
"""Recovers a cluster from dead runs: their journals first, then their other objects."""

import datetime
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from conformance.errors import SuiteError, UsageProblem, first_line
from conformance.journal import liveness
from conformance.journal.cordon import LIFTED, cordoned_by
from conformance.journal.lease import held_by, is_silent, lasts, version_of
from conformance.journal.liveness import Life
from conformance.journal.mark import unmark
from conformance.journal.restore import NOT_RESTORED, Healers, Outcome, Restored, restore
from conformance.journal.store import Journal, journals
from conformance.kube.changes import Changes, reference
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import (
    HOLDS_LABEL,
    MANAGED_BY,
    SYSTEM_NAMESPACE,
    Ownership,
    removed_by_hand,
)
from conformance.model.change import ObjectRef
from conformance.settings import Timings
from conformance.timing import SYSTEM_CLOCK, Clock
from conformance.undo.cleanup import clean_up
from conformance.undo.leftovers import LEASE, Leftovers, changeable, leftovers, marks_on


@dataclass
class Recovered:
    """The results of a recovery: the changes that were restored, and those that could not be
    restored."""

    restored: list[Restored] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """One line for each leftover that is not a change."""
    left: list[str] = field(default_factory=list)
    """The leftovers that remain on the cluster or need manual work, with instructions."""
    unreadable: list[str] = field(default_factory=list)
    """Data in journals that are no entries; they are left there."""

    @property
    def anything(self) -> bool:
        """Return whether there was anything to do."""
        return bool(self.restored or self.lines or self.left or self.unreadable)

    @property
    def acted(self) -> bool:
        """Return whether any journal entry was applied."""
        return any(restored.outcome is not Outcome.REFUSED for restored in self.restored)

    @property
    def changed(self) -> bool:
        """Return whether a change outside the runs' own namespaces was restored."""
        return any(restored.outcome is Outcome.RESTORED for restored in self.restored)

    @property
    def whole(self) -> bool:
        """Return whether nothing is left to do by hand."""
        wrong = any(restored.outcome in NOT_RESTORED for restored in self.restored)
        return not (self.left or self.unreadable or wrong)


class Recovery:
    """Recovers one cluster. ``tell`` receives a line about each action and each wait."""

    def __init__(
        self,
        kube: Kube,
        healers: Healers,
        timings: Timings,
        *,
        tell: Callable[[str], None],
        clock: Clock = SYSTEM_CLOCK,
        prefix: str = "",
    ) -> None:
        """Set up the recovery. ``prefix``: the prefix of namespaces that were prepared for runs;
        their leftovers are searched for there."""
        self.prefix = prefix
        self.kube = kube
        self.healers = healers
        self.timings = timings
        self._tell = tell
        self._clock = clock
        self._silent: set[tuple[str, str]] = set()
        """Uid and version of each lease that nobody renewed while it was watched."""
        self._given_up: set[str] = set()
        """Runs that held the lock until it was taken over."""

    def dead(self, *, own: str = "", named: str = "") -> tuple[list[Leftovers], list[str]]:
        """Return the leftovers of dead runs, and lines about runs that may be alive.

        To know whether a run on another machine lives, its run lock may have to be watched for as
        long as the lock is valid. ``named``: consider only this run, which the user
        believes to be dead. If the named run holds a run lock, the lock decides, even if the run is
        young. Raise UsageProblem if a run of that name has left nothing.
        """
        now = datetime.datetime.now(datetime.UTC)
        dead = []
        lines = []
        for leftover in self._of_others(now, own, named):
            age = (now - leftover.since).total_seconds()
            is_suspect = leftover.life is Life.UNKNOWN and self._is_suspect(leftover, age, named)
            if leftover.life is Life.DEAD or (
                is_suspect
                and self._is_silent(leftover.run, self.timings.run.named_dead if named else 0.0)
            ):
                dead.append(leftover)
            elif leftover.life is Life.ALIVE or is_suspect:
                lines.append(f"run {leftover.run} is alive: nothing of it is touched")
            else:
                lines += leftover.doubts
                lines.append(
                    f"run {leftover.run} began {age / 60:.0f} min ago on another machine, and whether it has ended is "
                    f"not known: nothing of it is touched until the run is {self.timings.run.abandoned / 3600:g} h old; remove it by "
                    f"{removed_by_hand(leftover.run)}"
                )
        return dead, lines

    def _of_others(self, now: datetime.datetime, own: str, named: str) -> list[Leftovers]:
        """Return the leftovers of runs other than ``own``, or of the ``named`` run. Raise
        UsageProblem.
        """
        found = {
            leftover.run: leftover
            for leftover in leftovers(self.kube, now, prefix=self.prefix)
            if leftover.run != own
        }
        if not named:
            return list(found.values())
        if named not in found:
            raise UsageProblem(
                f"--run {named}: this run left nothing on this cluster; runs that left something: "
                f"{', '.join(found) or 'none'}"
            )
        return [found[named]]

    def _is_suspect(self, leftover: Leftovers, age: float, named: str) -> bool:
        """Return whether the run lock decides if a run of another machine has ended. ``age``: its
        age in seconds.

        A run that writes a journal holds the lease. If the lease has no holder, no living run wrote
        the journal.
        """
        return (
            leftover.changed
            or leftover.only_doubts
            or age > self.timings.run.abandoned
            or leftover.run in self._given_up
            or (bool(named) and held_by(self.kube, named) is not None)
        )

    def life(self, lease: Obj) -> Life:
        """Return the state of a lease's holder, for a recovery that wants the run lock. The holder
        is dead if it did not renew the lease while the lease was watched."""
        return Life.DEAD if version_of(lease) in self._silent else liveness.of_maker(lease)

    def recover(
        self, dead: list[Leftovers], *, check: Callable[[], object] = lambda: None
    ) -> Recovered:
        """Restore the changes and remove the objects that these runs left. The newest run comes
        first, since it may have changed an older run's leftovers.

        ``check`` is called before each run's journal, and raises an error if the run lock is no
        longer held.
        """
        result = Recovered()
        for item in reversed(dead):
            self._journal(item, result, check)
        for item in dead:
            for line in clean_up(
                self.kube, item.run, within=self.timings.windows.delete, prefix=self.prefix
            ):
                self._tell(line)
                (result.lines if line.endswith("is removed") else result.left).append(line)
            for node in item.nodes:
                self._uncordon(node, item, result)
            self._unmark(item, result)
        return result

    def take_marks(self, journal: Journal, worker: str) -> Recovered:
        """Remove the marks that no open entry of this journal explains: the marks of one process of
        the run, or of every process if ``worker`` is empty."""
        result = Recovered()
        run = journal.run.run
        try:
            entries = journal.entries(result.unreadable.append)
            found = marks_on([*self.kube.objects("v1", "Node"), *changeable(self.kube)])
        except SuiteError as error:
            return Recovered(
                left=[f"it is not known whether a node keeps a mark: {first_line(error)}"]
            )
        known = [entry.mark_name for entry in entries if entry.open]
        marks = [
            (reference(obj), name)
            for by, obj, name in found
            if by == run and name not in known and name.endswith(f"-{worker}" if worker else "")
        ]
        self.unmark(run, marks, result, is_doubted=bool(result.unreadable))
        return result

    def untidy(self, *, own: str = "") -> bool:
        """Return whether the shared namespace was made by a run, and has no objects except those of
        run ``own``."""
        found = self.kube.find("v1", "Namespace", SYSTEM_NAMESPACE)
        labels = (found or {"metadata": {}})["metadata"].get("labels") or {}
        if (
            labels.get(MANAGED_BY[0]) != MANAGED_BY[1]
            or HOLDS_LABEL in labels
            or journals(self.kube)
        ):
            return False
        leases = (
            self.kube.objects(*LEASE, SYSTEM_NAMESPACE)
            if self.kube.discovery.serves(*LEASE)
            else []
        )
        return not [lease for lease in leases if not own or not liveness.holds(lease, own)]

    def tidy(self, result: Recovered, *, own: str) -> None:
        """Remove the namespace of run locks, together with ``own``'s lock. The lock is held until
        then, so that no other run can take a lock in the namespace.
        """
        if self.untidy(own=own):
            target = ObjectRef(api_version="v1", kind="Namespace", name=SYSTEM_NAMESPACE)
            changes = Changes(self.kube, Ownership(own))
            self._do(
                lambda: changes.delete(target, "nothing is in it", foreign=True),
                f"{target.label} is removed: nothing is in it",
                result,
            )

    def _is_silent(self, run: str, at_least: float) -> bool:
        """Return whether a run has no run lock, or does not renew its lock in time by this
        machine's clock.

        ``at_least``: the least number of seconds to watch the lock, even if its duration is
        shorter.
        """
        lease = held_by(self.kube, run)
        if lease is None or version_of(lease) in self._silent:
            return True
        seconds = max(at_least, lasts(lease))
        self._tell(
            f"run {run} was started on another machine: watching for {seconds:g} s whether that "
            "run "
            "renews its run lock"
        )
        silent = is_silent(
            self.kube,
            run,
            lease,
            seconds=seconds,
            every=self.timings.run.lock_poll,
            clock=self._clock,
        )
        if silent:
            self._silent.add(version_of(lease))
            self._given_up.add(run)
        return silent or held_by(self.kube, run) is None

    def _journal(
        self, run_leftovers: Leftovers, result: Recovered, check: Callable[[], object]
    ) -> None:
        if not run_leftovers.journal:
            return
        run = Ownership(run_leftovers.run)
        journal = Journal(self.kube, run, within=self.timings.run.journal)
        try:
            check()
            result.unreadable += run_leftovers.unreadable
            for line in run_leftovers.unreadable:
                self._tell(f"run {run_leftovers.run}: its journal: {line}")
            for done in restore(journal, Changes(self.kube, run), self.healers):
                self._tell(f"run {run_leftovers.run}: {done}")
                result.restored.append(done)
            journal.remove()
        except SuiteError as error:
            result.left.append(
                f"run {run_leftovers.run}: its journal: {str(error).splitlines()[0]}"
            )
            self._tell(result.left[-1])

    def _uncordon(self, node: str, run_leftovers: Leftovers, result: Recovered) -> None:
        """Remove a cordon that no journal entry mentions any more. The node's mark names the run
        that cordoned the node."""
        if cordoned_by(self.kube.find("v1", "Node", node)) != run_leftovers.run:
            return
        self._do(
            lambda: Changes(self.kube, Ownership(run_leftovers.run)).patch(
                ObjectRef(api_version="v1", kind="Node", name=node),
                dict(LIFTED),
                "its run is over",
                foreign=True,
            ),
            f"node {node} was cordoned by run {run_leftovers.run} and takes pods again",
            result,
        )

    def _unmark(self, run_leftovers: Leftovers, result: Recovered) -> None:
        """Remove marks that belong to no journal entry any more."""
        for after in leftovers(self.kube) if run_leftovers.marks else ():
            if after.run == run_leftovers.run:
                self.unmark(after.run, after.marks, result, is_doubted=bool(after.doubts))

    def unmark(
        self,
        run: str,
        marks: Iterable[tuple[ObjectRef, str]],
        result: Recovered,
        *,
        is_doubted: bool = False,
    ) -> None:
        """Remove these marks from nodes, since their procedures had not begun, or are over. Leave
        marks on other objects, and report each with advice. ``is_doubted``: a part of the run's
        journal is not confirmed, so leave every mark."""
        changes = Changes(self.kube, Ownership(run))
        for target, name in marks:
            where = f"{target.label} bears mark {name} of run {run}"
            if target.kind == "Node" and not is_doubted:
                self._do(
                    functools.partial(
                        unmark, changes, target, name, within=self.timings.run.journal
                    ),
                    f"{where}, whose change is over: the mark is removed",
                    result,
                )
            else:
                space = f" -n {target.namespace}" if target.namespace else ""
                result.left.append(
                    f"{where}, and no journal records its earlier state: check the object, "
                    f"then  kubectl annotate{space} {target.kind.lower()} {target.name} {name}-"
                )
                self._tell(result.left[-1])

    def _do(self, act: Callable[[], object], done: str, result: Recovered) -> None:
        try:
            act()
        except SuiteError as error:
            done = f"not achieved: {done}: {str(error).splitlines()[0]}"
            result.left.append(done)
        else:
            result.lines.append(done)
        self._tell(done)
