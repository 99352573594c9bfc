"""Putting a cluster back as it was before runs that are dead: their journals first, then what else they left."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field

from conformance.cluster.alive import Life
from conformance.cluster.cordon import LIFTED, cordoned_by
from conformance.cluster.journal.book import SYSTEM_NAMESPACE, Journal, journals
from conformance.cluster.journal.restore import Healers, Outcome, Restored, restore
from conformance.cluster.remains import LEASE, Remains, remains
from conformance.cluster.sweep import sweep
from conformance.errors import SuiteTrouble
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import MANAGED_BY, RUN_LABEL, Ownership
from conformance.model.change import ObjectRef


@dataclass
class Recovered:
    """What was done, and what was not."""

    restored: list[Restored] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """Of other leftovers, one each."""
    left: list[str] = field(default_factory=list)
    """What is still there or still to do, with how."""

    @property
    def anything(self) -> bool:
        """Whether there was anything to do at all."""
        return bool(self.restored or self.lines or self.left)

    @property
    def changed(self) -> bool:
        """Whether something beyond runs' own namespaces was put back."""
        return any(one.outcome is Outcome.RESTORED for one in self.restored)

    @property
    def whole(self) -> bool:
        """Whether nothing is left to do by hand."""
        return not self.left and not any(one.outcome in (Outcome.CONFLICT, Outcome.FAILED) for one in self.restored)


class Recovery:
    """Recovers one cluster.

    ``within``: seconds for which each step is tried while the API server does not answer; ``delete``: for a namespace
    to go; ``abandoned``: age from which a run of another machine, of which nothing more is heard, is taken for dead.
    """

    def __init__(self, kube: Kube, healers: Healers, *, within: float, delete: float, abandoned: float) -> None:
        self.kube, self.healers = kube, healers
        self.within, self.delete, self.abandoned = within, delete, abandoned

    def dead(self, *, own: str = "") -> tuple[list[Remains], list[str]]:
        """What dead runs have left, and lines about what is left alone because its run may be alive."""
        now = datetime.datetime.now(datetime.UTC)
        dead, lines = [], []
        for one in remains(self.kube, now):
            if one.run == own:
                continue
            age = (now - one.since).total_seconds()
            # Whoever journals holds the lease: one that is not held any more has no living run behind it.
            silent = one.life is Life.UNKNOWN and (bool(one.entries) or age > self.abandoned)
            if one.life is Life.DEAD or silent:
                dead.append(one)
            elif one.life is Life.ALIVE:
                lines.append(f"run {one.run} is alive: nothing of it is touched")
            else:
                lines.append(
                    f"run {one.run} began {age / 60:.0f} min ago on another machine, and whether it has ended is not "
                    f"known: nothing of it is touched before {self.abandoned / 3600:g} h; remove it by  kubectl delete "
                    f"namespace,globalnetworkpolicy -l {RUN_LABEL}={one.run}"
                )
        return dead, lines

    def recover(self, dead: list[Remains], tell: Callable[[str], None]) -> Recovered:
        """Put back and remove what these runs left; the newest first, which may have changed what an older one left."""
        result = Recovered()
        for one in reversed(dead):
            self._journal(one, result, tell)
        for one in dead:
            for line in sweep(self.kube, one.run, within=self.delete):
                tell(line)
                (result.lines if line.endswith("is removed") else result.left).append(line)
            for node in one.nodes:
                self._uncordon(node, one, result, tell)
            for lease in one.leases:
                self._delete(lease, "its run is over", one.run, result, tell)
        return result

    def tidy(self, result: Recovered, tell: Callable[[str], None]) -> None:
        """Remove the namespace that runs share, when nothing is in it."""
        found = self.kube.find("v1", "Namespace", SYSTEM_NAMESPACE)
        labels = (found or {"metadata": {}})["metadata"].get("labels") or {}
        if labels.get(MANAGED_BY[0]) != MANAGED_BY[1] or journals(self.kube):
            return
        if not self.kube.objects(*LEASE, SYSTEM_NAMESPACE):
            target = ObjectRef(api_version="v1", kind="Namespace", name=SYSTEM_NAMESPACE)
            self._delete(target, "nothing is in it", "", result, tell)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _journal(self, one: Remains, result: Recovered, tell: Callable[[str], None]) -> None:
        if not one.journal:
            return
        run = Ownership(one.run)
        journal = Journal(self.kube, run, within=self.within)
        try:
            for done in restore(journal, Changes(self.kube, run), self.healers):
                tell(f"run {one.run}: {done}")
                result.restored.append(done)
            journal.remove()
        except SuiteTrouble as trouble:
            line = f"run {one.run}: its journal: {str(trouble).splitlines()[0]}"
            tell(line)
            result.left.append(line)

    def _uncordon(self, node: str, one: Remains, result: Recovered, tell: Callable[[str], None]) -> None:
        """A node that the journal did not speak of any more: the mark says who cordoned it."""
        if cordoned_by(self.kube.find("v1", "Node", node)) != one.run:
            return
        target = ObjectRef(api_version="v1", kind="Node", name=node)
        self._do(
            lambda: Changes(self.kube, Ownership(one.run)).patch(target, dict(LIFTED), "its run is over", foreign=True),
            f"node {node} was cordoned by run {one.run} and takes pods again", result, tell,
        )  # fmt: skip

    def _delete(self, target: ObjectRef, why: str, run: str, result: Recovered, tell: Callable[[str], None]) -> None:
        changes = Changes(self.kube, Ownership(run))
        self._do(lambda: changes.delete(target, why, foreign=True), f"{target.label} is removed: {why}", result, tell)

    def _do(self, act: Callable[[], object], done: str, result: Recovered, tell: Callable[[str], None]) -> None:
        try:
            act()
        except SuiteTrouble as trouble:
            done = f"not done: {done}: {str(trouble).splitlines()[0]}"
            result.left.append(done)
        else:
            result.lines.append(done)
        tell(done)
