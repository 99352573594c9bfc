"""What runs have left on a cluster, by run: journals, labelled objects, cordoned nodes, leases.  It changes nothing."""

import datetime
from dataclasses import dataclass

from conformance.errors import EnvironmentBroken
from conformance.journal import liveness
from conformance.journal.liveness import Life
from conformance.journal.record import Entry
from conformance.journal.store import entries_of, journals
from conformance.kube.changes import reference
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import CORDON_ANNOTATION, MANAGED_BY, RUN_LABEL, SYSTEM_NAMESPACE, labels_of
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
    """Open journal entries, oldest first."""
    problem: str = ""
    """Why its journal cannot be read, so that ``entries`` are not known; empty: it can."""
    journal: bool = False
    objects: tuple[ObjectRef, ...] = ()
    """Namespaces and cluster-scoped objects with its label."""
    nodes: tuple[str, ...] = ()
    """Nodes that it has cordoned."""
    leases: tuple[ObjectRef, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether any of it is where other runs work too, so that it takes the run lock to clear it up."""
        return bool(self.changed or self.journal or self.nodes or self.leases)

    @property
    def changed(self) -> bool:
        """Whether something beyond its own namespaces is to be put back, or may be."""
        return bool(self.entries or self.problem)

    def lines(self) -> list[str]:
        return [
            *(f"run {self.run}: to put back: {entry.label}" for entry in reversed(self.entries)),
            *(f"run {self.run}: {object_ref.label}" for object_ref in self.objects),
            *(f"run {self.run}: node {name} is cordoned" for name in self.nodes),
            *(f"run {self.run}: {lease.label}" for lease in self.leases),
            *([f"run {self.run}: {self.problem}"] if self.problem else []),
            *([f"run {self.run}: its journal, with nothing open"] if self.journal and not self.changed else []),
        ]


def leftovers(kube: Kube, now: datetime.datetime | None = None, *, prefix: str = "") -> list[Leftovers]:
    """What all runs have left, oldest first; the living ones' too.  Raises ApiRefused, ApiUnreachable.

    ``prefix``: in the namespaces that were prepared with it, too.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    by_run: dict[str, list[Obj]] = {}
    for item in cluster_scoped(kube, prefix=prefix):
        by_run.setdefault(labels_of(item)[RUN_LABEL], []).append(item)
    journals_by_run = {item["metadata"]["labels"][RUN_LABEL]: item for item in journals(kube)}
    cordoned = [obj for obj in kube.objects("v1", "Node") if CORDON_ANNOTATION in _annotations(obj)]
    leases = kube.objects(*LEASE, SYSTEM_NAMESPACE) if kube.discovery.serves(*LEASE) else []
    ours = [lease for lease in leases if (lease["metadata"].get("labels") or {}).get(MANAGED_BY[0]) == MANAGED_BY[1]]
    runs = {*by_run, *journals_by_run, *(_annotations(item)[CORDON_ANNOTATION] for item in cordoned)}
    runs |= {lease["metadata"]["labels"][RUN_LABEL] for lease in ours if RUN_LABEL in lease["metadata"]["labels"]}
    found = []
    for run in runs:
        own = by_run.get(run, [])
        journal = journals_by_run.get(run)
        held = [
            lease for lease in ours if liveness.holds(lease, run) or lease["metadata"]["labels"].get(RUN_LABEL) == run
        ]
        nodes = [item for item in cordoned if _annotations(item)[CORDON_ANNOTATION] == run]
        made = [*own, *([journal] if journal else []), *held]
        entries, problem = _open(journal) if journal else ((), "")
        found.append(
            Leftovers(
                run=run,
                life=liveness.of(made),
                since=min((_made_at(item) for item in made), default=now),
                entries=entries,
                problem=problem,
                journal=journal is not None,
                objects=tuple(reference(item) for item in own if not item["metadata"].get("deletionTimestamp")),
                nodes=tuple(str(node["metadata"]["name"]) for node in nodes),
                leases=tuple(reference(item) for item in held),
            )
        )
    return sorted(found, key=lambda one: (one.since, one.run))


def _open(journal: Obj) -> tuple[tuple[Entry, ...], str]:
    """A journal's open entries, or why it cannot be read: the other runs' are restored all the same."""
    try:
        return tuple(entry for entry in entries_of(journal) if entry.open), ""
    except EnvironmentBroken as error:
        return (), f"its journal: {str(error).splitlines()[0]}"


def _annotations(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _made_at(obj: Obj) -> datetime.datetime:
    return datetime.datetime.fromisoformat(str(obj["metadata"]["creationTimestamp"]).replace("Z", "+00:00"))
