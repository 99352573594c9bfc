# SPDX-License-Identifier: Apache-2.0
"""What runs have left on a cluster, by run: journals, labelled objects, cordoned nodes, leases.
It changes nothing."""

import contextlib
import datetime
from collections.abc import Iterator
from dataclasses import dataclass, replace

from conformance.disrupt.felix import NAMESPACES
from conformance.disrupt.vni import WINDOWS
from conformance.errors import SuiteError, first_line
from conformance.facts.calico_api import V3
from conformance.journal import believed, liveness
from conformance.journal.cordon import cordoned_by
from conformance.journal.liveness import Life
from conformance.journal.mark import marks_of, within_reach
from conformance.journal.record import Entry
from conformance.journal.store import entries_of, journals
from conformance.kube.changes import reference
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import (
    MANAGED_BY,
    RUN_LABEL,
    SYSTEM_NAMESPACE,
    labels_of,
)
from conformance.model.change import ObjectRef
from conformance.undo.cleanup import cluster_scoped

LEASE = ("coordination.k8s.io/v1", "Lease")


@dataclass(frozen=True, kw_only=True)
class Leftovers:
    """What of one run is there."""

    run: str
    life: Life
    since: datetime.datetime
    """When the oldest of it was made."""
    entries: tuple[Entry, ...] = ()
    """Open journal entries that are believed, oldest first."""
    refused: tuple[str, ...] = ()
    """The other ones, with why they are not: nothing that they say is done."""
    unreadable: tuple[str, ...] = ()
    """What in its journal is no entry."""
    marks: tuple[tuple[ObjectRef, str], ...] = ()
    """Objects that bear its mark, and the mark's name, of which no entry that is believed
    speaks."""
    journal: bool = False
    objects: tuple[ObjectRef, ...] = ()
    """Namespaces and cluster-scoped objects with its label."""
    nodes: tuple[str, ...] = ()
    """Nodes that it has cordoned."""
    leases: tuple[ObjectRef, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether any of it is where other runs work too, so that it takes the run lock to clear
        it up."""
        return bool(self.changed or self.journal or self.nodes or self.leases)

    @property
    def changed(self) -> bool:
        """Whether something beyond its own namespaces is to be put back, as the changed objects
        themselves say."""
        return bool(self.entries or self.marks)

    @property
    def only_doubts(self) -> bool:
        """Whether nothing is there of it but a journal that is not believed: such a run may
        never have been."""
        return bool(self.doubts) and not (self.changed or self.objects or self.nodes or self.leases)

    @property
    def doubts(self) -> list[str]:
        """A line for each part of its journal that is not acted upon."""
        return [
            *(f"run {self.run}: refused: {line}" for line in self.refused),
            *(f"run {self.run}: its journal: {line}" for line in self.unreadable),
        ]

    def lines(self) -> list[str]:
        return [
            *(f"run {self.run}: to put back: {entry.label}" for entry in reversed(self.entries)),
            *(f"run {self.run}: {object_ref.label}" for object_ref in self.objects),
            *(f"run {self.run}: node {name} is cordoned" for name in self.nodes),
            *(f"run {self.run}: {lease.label}" for lease in self.leases),
            *(f"run {self.run}: mark {name} on {marked.label}" for marked, name in self.marks),
            *self.doubts,
            *(
                [f"run {self.run}: its journal, with nothing open"]
                if self.journal and not (self.changed or self.doubts)
                else []
            ),
        ]


def leftovers(
    kube: Kube, now: datetime.datetime | None = None, *, prefix: str = ""
) -> list[Leftovers]:
    """What all runs have left, oldest first; the living ones' too.  Raises ApiRefused,
    ApiUnreachable.

    ``prefix``: in the namespaces that were prepared with it, too.
    """
    nodes = kube.objects("v1", "Node")
    leases = kube.objects(*LEASE, SYSTEM_NAMESPACE) if kube.discovery.serves(*LEASE) else []
    seen = _Seen(
        kube=kube,
        now=now or datetime.datetime.now(datetime.UTC),
        own=[(labels_of(item)[RUN_LABEL], item) for item in cluster_scoped(kube, prefix=prefix)],
        journals={item["metadata"]["labels"][RUN_LABEL]: item for item in journals(kube)},
        cordoned=[(mark, node) for node in nodes if (mark := cordoned_by(node))],
        marks=[
            (run, obj, name) for obj in [*nodes, *_changeable(kube)] for run, name in marks_of(obj)
        ],
        leases=[lease for lease in leases if labels_of(lease).get(MANAGED_BY[0]) == MANAGED_BY[1]],
    )
    return sorted(map(seen.of, seen.runs), key=lambda one: (one.since, one.run))


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What of all runs was seen on a cluster, with the run that each object names."""

    kube: Kube
    now: datetime.datetime
    own: list[tuple[str, Obj]]
    journals: dict[str, Obj]
    cordoned: list[tuple[str, Obj]]
    marks: list[tuple[str, Obj, str]]
    leases: list[Obj]

    @property
    def runs(self) -> set[str]:
        named = [
            *(run for run, _ in (*self.own, *self.cordoned)),
            *(run for run, _, _ in self.marks),
        ]
        labelled = [
            labels_of(lease)[RUN_LABEL] for lease in self.leases if RUN_LABEL in labels_of(lease)
        ]
        return {*named, *self.journals, *labelled}

    def of(self, run: str) -> Leftovers:
        """Return what one run has left."""
        own = [item for by, item in self.own if by == run]
        journal = self.journals.get(run)
        held = [
            one
            for one in self.leases
            if liveness.holds(one, run) or labels_of(one).get(RUN_LABEL) == run
        ]
        made = [*own, *([journal] if journal else []), *held]
        entries, refused, unreadable = self._judged(run, journal or {})
        return Leftovers(
            run=run,
            life=liveness.of(own or made),  # more may write journals and leases than namespaces
            since=min(map(_made_at, made), default=self.now),
            entries=entries,
            refused=refused,
            unreadable=unreadable,
            marks=self._unexplained(run, entries),
            journal=journal is not None,
            objects=tuple(
                reference(item) for item in own if not item["metadata"].get("deletionTimestamp")
            ),
            nodes=tuple(str(node["metadata"]["name"]) for by, node in self.cordoned if by == run),
            leases=tuple(map(reference, held)),
        )

    def _judged(
        self, run: str, journal: Obj
    ) -> tuple[tuple[Entry, ...], tuple[str, ...], tuple[str, ...]]:
        """Return a journal's open entries that are believed, those that are not, and what cannot
        be read."""
        unreadable: list[str] = []
        opened = [entry for entry in entries_of(journal, unreadable.append) if entry.open]
        doubts = [(entry, _doubt(self.kube, entry, run)) for entry in opened]
        refused = tuple(f"{entry.label[:300]}: {doubt}" for entry, doubt in doubts if doubt)
        return tuple(entry for entry, doubt in doubts if not doubt), refused, tuple(unreadable)

    def _unexplained(
        self, run: str, entries: tuple[Entry, ...]
    ) -> tuple[tuple[ObjectRef, str], ...]:
        """Return the run's marks of which none of these entries speaks."""
        known = {entry.mark_name for entry in entries}
        return tuple(
            (reference(obj), name)
            for by, obj, name in self.marks
            if by == run and name not in known
        )


def _changeable(kube: Kube) -> Iterator[Obj]:
    """The objects beside nodes that may bear a mark after their run; those that cannot be read
    are left out."""
    felix = ObjectRef(api_version=V3, kind="FelixConfiguration", name="default")
    windows = ObjectRef(api_version="apps/v1", kind="DaemonSet", name=WINDOWS)
    for target in (felix, *(replace(windows, namespace=space) for space in NAMESPACES)):
        with contextlib.suppress(SuiteError):
            place = within_reach(kube, target, within=0.0)
            if found := kube.find(place.api_version, place.kind, place.name, place.namespace):
                yield {"apiVersion": place.api_version, "kind": place.kind, **found}


def _doubt(kube: Kube, entry: Entry, run: str) -> str:
    """Why an entry is not believed, or why that is not known."""
    if entry.run not in ("", run):
        return f"it speaks of run {entry.run}"
    try:
        return believed(kube, entry)
    except SuiteError as error:
        return first_line(error)


def _made_at(obj: Obj) -> datetime.datetime:
    return datetime.datetime.fromisoformat(
        str(obj["metadata"]["creationTimestamp"]).replace("Z", "+00:00")
    )
