# SPDX-License-Identifier: Apache-2.0
"""The leftovers of runs on a cluster: journals, labelled objects, cordoned nodes, leases.  This
module only reads."""

import contextlib
import datetime
from collections.abc import Iterable, Iterator
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
    """The leftovers of one run."""

    run: str
    life: Life
    since: datetime.datetime
    """The time when the oldest leftover was made."""
    entries: tuple[Entry, ...] = ()
    """Open journal entries that are confirmed by their objects, oldest first."""
    refused: tuple[str, ...] = ()
    """Journal entries that are not confirmed, each with the reason; they are not applied."""
    unreadable: tuple[str, ...] = ()
    """Data in the run's journal that are no entries."""
    marks: tuple[tuple[ObjectRef, str], ...] = ()
    """Objects with the run's mark, and the mark's name, if no confirmed entry is about the
    object."""
    journal: bool = False
    objects: tuple[ObjectRef, ...] = ()
    """Namespaces and cluster-scoped objects with the run's label."""
    nodes: tuple[str, ...] = ()
    """Nodes that the run has cordoned."""
    leases: tuple[ObjectRef, ...] = ()

    @property
    def shared(self) -> bool:
        """Return whether any leftover is shared with other runs, so that removing it requires the
        run lock."""
        return bool(self.changed or self.journal or self.nodes or self.leases)

    @property
    def changed(self) -> bool:
        """Return whether a change outside the run's namespaces must be restored, according to its
        journal or the marks on objects."""
        return bool(self.entries or self.marks)

    @property
    def only_doubts(self) -> bool:
        """Return whether an unconfirmed journal is the only leftover; such a run may never have
        existed."""
        return bool(self.doubts) and not (self.changed or self.objects or self.nodes or self.leases)

    @property
    def doubts(self) -> list[str]:
        """Return a line for each part of the run's journal that is not applied."""
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
                [f"run {self.run}: its journal, which lists nothing more to put back"]
                if self.journal and not (self.changed or self.doubts)
                else []
            ),
        ]


def leftovers(
    kube: Kube, now: datetime.datetime | None = None, *, prefix: str = ""
) -> list[Leftovers]:
    """Return the leftovers of all runs, including living runs, oldest first. Raise ApiRefused,
    ApiUnreachable.

    ``prefix``: include leftovers in namespaces that were prepared with this prefix.
    """
    nodes = kube.objects("v1", "Node")
    leases = kube.objects(*LEASE, SYSTEM_NAMESPACE) if kube.discovery.serves(*LEASE) else []
    found = _Inventory(
        kube=kube,
        now=now or datetime.datetime.now(datetime.UTC),
        own=[(labels_of(item)[RUN_LABEL], item) for item in cluster_scoped(kube, prefix=prefix)],
        journals={item["metadata"]["labels"][RUN_LABEL]: item for item in journals(kube)},
        cordoned=[(mark, node) for node in nodes if (mark := cordoned_by(node))],
        marks=marks_on([*nodes, *changeable(kube)]),
        leases=[lease for lease in leases if labels_of(lease).get(MANAGED_BY[0]) == MANAGED_BY[1]],
    )
    return sorted(map(found.of, found.runs), key=lambda leftover: (leftover.since, leftover.run))


@dataclass(frozen=True, kw_only=True)
class _Inventory:
    """The objects of all runs on a cluster, each with the run that it names."""

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
        """Return the leftovers of one run."""
        own = [item for by, item in self.own if by == run]
        journal = self.journals.get(run)
        held = [
            lease
            for lease in self.leases
            if liveness.holds(lease, run) or labels_of(lease).get(RUN_LABEL) == run
        ]
        made = [*own, *filter(None, [journal]), *held]
        entries, refused, unreadable = self._judged(run, journal or {})
        return Leftovers(
            run=run,
            # namespaces before journals and leases, since fewer users may write namespaces
            life=liveness.of(own or made),
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
        """Return a journal's confirmed open entries, its other open entries, and its unreadable
        entries."""
        unreadable: list[str] = []
        opened = [entry for entry in entries_of(journal, unreadable.append) if entry.open]
        doubts = [(entry, _doubt(self.kube, entry, run)) for entry in opened]
        refused = tuple(f"{entry.label[:300]}: {doubt}" for entry, doubt in doubts if doubt)
        return tuple(entry for entry, doubt in doubts if not doubt), refused, tuple(unreadable)

    def _unexplained(
        self, run: str, entries: tuple[Entry, ...]
    ) -> tuple[tuple[ObjectRef, str], ...]:
        """Return the run's marks that belong to none of these entries."""
        known = {entry.mark_name for entry in entries}
        return tuple(
            (reference(obj), name)
            for by, obj, name in self.marks
            if by == run and name not in known
        )


def marks_on(objects: Iterable[Obj]) -> list[tuple[str, Obj, str]]:
    """Return the run, the object and the name of each mark on these objects."""
    return [(run, obj, name) for obj in objects for run, name in marks_of(obj)]


def changeable(kube: Kube) -> Iterator[Obj]:
    """Yield the objects other than nodes that may still have a mark of a dead run. Objects that
    cannot be read are left out.
    """
    felix = ObjectRef(api_version=V3, kind="FelixConfiguration", name="default")
    windows = ObjectRef(api_version="apps/v1", kind="DaemonSet", name=WINDOWS)
    for target in (felix, *(replace(windows, namespace=space) for space in NAMESPACES)):
        with contextlib.suppress(SuiteError):
            place = within_reach(kube, target, within=0.0)
            if found := kube.find(place.api_version, place.kind, place.name, place.namespace):
                yield {"apiVersion": place.api_version, "kind": place.kind, **found}


def _doubt(kube: Kube, entry: Entry, run: str) -> str:
    """Return why an entry is not confirmed, or why it is not known whether it is confirmed."""
    if entry.run not in ("", run):
        return f"it names run {entry.run}"
    try:
        return believed(kube, entry)
    except SuiteError as error:
        return first_line(error)


def _made_at(obj: Obj) -> datetime.datetime:
    return datetime.datetime.fromisoformat(
        str(obj["metadata"]["creationTimestamp"]).replace("Z", "+00:00")
    )
