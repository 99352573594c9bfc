# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap that holds a run's journal. It has one data key per entry, so that no process
overwrites the entries of another process."""

import datetime
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from conformance.errors import EnvironmentBroken, SuiteError
from conformance.journal.mark import unmark
from conformance.journal.record import Entry, EntryState, dump, load
from conformance.journal.redaction import JournalRefused
from conformance.journal.retry import read, retry
from conformance.journal.staying import described
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import value_at
from conformance.kube.ownership import (
    MANAGED_BY,
    RUN_LABEL,
    SYSTEM_NAMESPACE,
    Ownership,
    Shared,
    is_of,
)
from conformance.kube.refused import ApiRefused
from conformance.model.change import Change, ObjectRef

JOURNAL_LABEL = "calico-conformance/journal"
AT_MOST = 1024 * 1024
"""The maximum bytes of a ConfigMap's data (validation.MaxSecretSize, 1 MiB)."""


class Journal:
    """The journal of a run. Thread-safe; all processes of the run may write at once.

    ``within``: seconds for which a write is repeated. ``memory``: a folder that the run's processes
    share, with a copy of the open entries for times when the cluster does not answer.
    """

    def __init__(
        self,
        kube: Kube,
        run: Ownership,
        *,
        within: float,
        memory: Path | None = None,
        describe: Callable[[str], object] | None = None,
    ) -> None:
        """Set up the journal. ``describe`` is given in a dry run: it receives a line for each
        entry, and no entry is written."""
        self.kube = kube
        self.run = run
        self.within = within
        self._memory = memory
        self._describe = describe
        self.ref = ObjectRef(
            api_version="v1",
            kind="ConfigMap",
            name=f"journal-{run.run}",
            namespace=SYSTEM_NAMESPACE,
        )
        self._changes = Changes(kube, run)
        self._lock = threading.Lock()
        self._newest = 0
        self._mine: dict[str, Entry] = {}

    def key(self) -> str:
        """Return the key of a new entry: nanoseconds and worker, so that entries of all workers
        sort by time.
        """
        with self._lock:
            self._newest = max(self._newest + 1, time.time_ns())
            return f"{self._newest:020d}-{self.run.worker}"

    def write(self, entry: Entry) -> Entry:
        """Write an entry, new or changed.

        Raise JournalRefused if the entry does not fit into the journal (nothing was written),
        EnvironmentBroken if the API server did not accept it.
        """
        if not entry.at:
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            entry = replace(entry, at=now, worker=self.run.worker)
        if self._describe:
            if entry.state == "intended":
                self._describe(f"journal: {described(entry)}")
            return entry
        # a closed procedure is not over yet: its node still has its mark
        is_over = not entry.open and entry.act != "procedure"
        if entry.state != "intended":  # the change was made or restored, even if this write fails
            self._remember(entry, is_over=is_over)
        retry(
            lambda: self._put(entry),
            within=self.within,
            description=f"write to {self.ref.label} before {entry.label}",
        )
        self._remember(entry, is_over=is_over)
        return entry

    def _remember(self, entry: Entry, *, is_over: bool = False) -> None:
        """Store an entry in the copy in memory. ``is_over``: nothing of the entry is left, not even
        its mark, so remove it from the copy."""
        self._mine[entry.key] = entry
        if self._memory is None:
            return
        path = self._memory / f"{entry.key}.json"
        if is_over:
            path.unlink(missing_ok=True)
            return
        fresh = path.with_suffix(".new")
        fresh.write_text(dump(entry), encoding="utf-8")
        fresh.replace(path)

    def mark(self, entry: Entry, state: EntryState) -> Entry:
        """Write the state of an entry; a closed entry loses its fields and arguments."""
        changed = replace(entry, state=state)
        if state == "closed":
            changed = replace(changed, fields=(), arguments={})
        return self.write(changed)

    def close(self, entry: Entry) -> None:
        """Record that an entry leaves nothing to restore. Then, for a procedure, remove the mark
        from its node."""
        closed = self.mark(entry, "closed")
        if entry.act == "procedure" and entry.target and not self._describe:
            unmark(self._changes, entry.target, entry.mark_name, within=self.within)
            self._remember(closed, is_over=True)

    @property
    def has_memory(self) -> bool:
        """Return whether the copy in memory has any entry, which means a change, or a mark on a
        node."""
        return self._memory is not None and any(self._memory.glob("*.json"))

    def _put(self, entry: Entry) -> None:
        data = {entry.key: dump(entry)}
        found = self.kube.find(self.ref.api_version, self.ref.kind, self.ref.name, SYSTEM_NAMESPACE)
        if found is None:
            data = {key: dump(entry) for key, entry in self._mine.items() if entry.open} | data
            _check_size(data, entry)
            self._create(data)
            return
        if not self.run.owns(found):
            raise EnvironmentBroken(
                f"{self.ref.label} exists and does not belong to this run; nothing was changed"
            )
        _check_size((found.get("data") or {}) | data, entry)
        self._changes.patch(self.ref, {"data": data}, "the journal of this run", foreign=True)

    def _create(self, data: dict[str, str]) -> None:
        ensure_namespace(self.kube, self.run)
        body: Obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.ref.name,
                "namespace": SYSTEM_NAMESPACE,
                "labels": {JOURNAL_LABEL: "true"},
            },
            "data": data,
        }
        try:
            self._changes.create(body, "the journal of this run", foreign=True)
        except (
            ApiRefused
        ) as refusal:  # another worker created it, or this worker did and the answer was lost
            if not refusal.already_exists:
                raise
            self._changes.patch(self.ref, {"data": data}, "the journal of this run", foreign=True)

    def entries(self, unreadable: Callable[[str], object] | None = None) -> list[Entry]:
        """Return all entries in the order of writing. If the API server does not answer, return the
        open entries of the copy in memory.

        For unreadable entries, see :func:`entries_of`.
        """
        try:
            found = read(self.kube, self.ref, within=self.within)
        except SuiteError:
            if self._memory is None:  # the journal of another run has no copy in memory
                raise
            return [
                load(path.read_text(encoding="utf-8"))
                for path in sorted(self._memory.glob("*.json"))
            ]
        return entries_of(found, unreadable) if found else []

    def remove(self) -> None:
        """Remove the journal if no entry is open. The next write creates it again."""

        def attempt() -> None:
            found = self.kube.find(
                self.ref.api_version, self.ref.kind, self.ref.name, SYSTEM_NAMESPACE
            )
            unreadable: list[str] = []
            if (
                found is None
                or any(entry.open for entry in entries_of(found, unreadable.append))
                or unreadable
            ):
                return
            unchanged = {"resourceVersion": found["metadata"]["resourceVersion"]}
            change = Change(
                verb="delete",
                target=self.ref,
                why="no entry in it is open",
                body={"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": unchanged},
                cluster_scoped_or_foreign=True,
            )
            try:
                self._changes.make(change)
            except ApiRefused as refusal:
                if refusal.code != 409:  # 409: another process has just written to the journal
                    raise

        retry(attempt, within=self.within, description=f"remove {self.ref.label}")


def ensure_namespace(kube: Kube, run: Ownership) -> None:
    """Create the namespace that all runs share, unless it exists."""
    if kube.find("v1", "Namespace", SYSTEM_NAMESPACE) is not None:
        return
    try:
        Changes(kube, Shared(run.run, run.worker)).create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
            "holds run locks and journals",
            foreign=True,
        )
    except ApiRefused as refusal:
        if not refusal.already_exists:
            raise


def journals(kube: Kube) -> list[Obj]:
    """Return the journals of all runs, as ConfigMaps.  Raise ApiRefused, ApiUnreachable."""
    labels = f"{JOURNAL_LABEL}=true,{MANAGED_BY[0]}={MANAGED_BY[1]},{RUN_LABEL}"
    found = kube.objects("v1", "ConfigMap", SYSTEM_NAMESPACE, labels=labels)
    return [
        obj
        for obj in found
        if is_of(obj)
        and obj["metadata"]["name"] == f"journal-{value_at(obj, 'metadata', 'labels', RUN_LABEL)}"
    ]


def entries_of(journal: Obj, unreadable: Callable[[str], object] | None = None) -> list[Entry]:
    """Return the entries of a ConfigMap.

    ``unreadable`` receives a line with the key of each unreadable entry. Without ``unreadable``,
    the first such entry raises EnvironmentBroken.
    """
    found = []
    for key, text in sorted((journal.get("data") or {}).items()):
        try:
            found.append(load(text))
        except ValueError as error:
            name = journal["metadata"]["name"]
            problem = (
                f"ConfigMap {SYSTEM_NAMESPACE}/{name}: entry {key} cannot be read ({str(error)[:200]}); "
                f"look at it: kubectl -n {SYSTEM_NAMESPACE} get configmap {name} -o yaml"
            )
            if unreadable is None:
                raise EnvironmentBroken(problem) from error
            unreadable(problem)
    return found


def _check_size(data: dict[str, str], entry: Entry) -> None:
    size = sum(len(key.encode()) + len(json.dumps(value)) for key, value in data.items())
    if size > AT_MOST:
        raise JournalRefused(
            f"refused to {entry.label}: the journal would grow to {size} bytes, more than a "
            f"ConfigMap holds ({AT_MOST}); nothing was changed"
        )
