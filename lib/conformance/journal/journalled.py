# SPDX-License-Identifier: Apache-2.0
"""Changes outside the run's own namespaces. They are written to the journal before they are made,
and restored at the end."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from conformance.errors import EnvironmentBroken
from conformance.journal.cordon import marked
from conformance.journal.fields import touched
from conformance.journal.mark import with_mark
from conformance.journal.record import Act, Entry
from conformance.journal.redaction import SECRET_KINDS, JournalRefused, secret_fields
from conformance.journal.restorable import refusal
from conformance.journal.restore import Healers, Restored, restore
from conformance.journal.retry import read, retry
from conformance.journal.store import Journal
from conformance.kube.changes import Changes, reference
from conformance.kube.client import Obj
from conformance.kube.fields import value_at
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef


class Journalled:
    """A test's changes outside the run's namespaces.

    ``check`` is called before each change, and raises an error if this run may make no further
    change.
    """

    def __init__(
        self, changes: Changes, journal: Journal, healers: Healers, check: Callable[[], object]
    ) -> None:
        self.changes = changes
        self.journal = journal
        self.healers = healers
        self._check = check
        self._keys: list[str] = []
        self._marked: dict[str, Entry] = {}
        """Entries that may be closed, but whose nodes may still have their marks."""

    def patch(self, target: ObjectRef, merge_patch: Mapping[str, Any], why: str) -> Obj:
        """Change fields of an object by a JSON merge patch; return the object as the server now has
        it.

        Raise JournalRefused if the object is a secret, or the change is too big for the journal;
        nothing was changed then. Raise EnvironmentBroken if there is no such object, or if the API
        server accepted neither the entry nor the change. Raise LockLost.
        """
        _refuse_secret(target, "patch")
        current = read(self.changes.kube, target, within=self.journal.within)
        if current is None:
            raise EnvironmentBroken(
                f"{target.label} does not exist, so it cannot be changed: {why}"
            )
        merge_patch = marked(current, target, merge_patch, self.changes.run.run)
        fields = touched(current, merge_patch)
        for field in fields:
            _refuse_content(
                {
                    "before": {field.path[-1]: field.before.value},
                    "ours": {field.path[-1]: field.ours.value},
                },
                f"patch {target.label}",
            )
        meta = current["metadata"]
        entry = self._write(
            self._entry(
                "patch",
                why,
                target,
                fields=fields,
                uid=str(meta.get("uid") or ""),
                resource_version=str(meta.get("resourceVersion") or ""),
            )
        )
        marking = with_mark(merge_patch, entry)
        made = self._act(entry, lambda: self.changes.patch(target, marking, why, foreign=True))
        self.journal.mark(entry, "done")
        return made or current

    def create(self, obj: Obj, why: str) -> Obj | None:
        """Create an object outside the run's namespaces; a restore removes the object. Raise the
        errors of :meth:`patch`."""
        target = reference(obj)
        _refuse_secret(target, "create")
        entry = self._write(self._entry("create", why, target))
        marked_body = with_mark(obj, entry)

        def create() -> Obj | None:
            try:
                return self.changes.create(marked_body, why, foreign=True)
            except ApiRefused as refusal:
                if not refusal.already_exists:
                    raise
                found = self.changes.kube.get(
                    target.api_version, target.kind, target.name, target.namespace
                )
                if not self.changes.run.owns(
                    found
                ):  # otherwise an earlier attempt created it, and only the answer was lost
                    raise
                return found

        made = self._act(entry, create)
        self.journal.mark(replace(entry, uid=str(value_at(made, "metadata", "uid") or "")), "done")
        return made

    def delete_owned_pod(self, target: ObjectRef, why: str) -> None:
        """Delete a pod that its controller creates again. The deletion is recorded, but not
        restored. Raise EnvironmentBroken for a pod without a controller, since no other pod would
        replace it."""
        found = read(self.changes.kube, target, within=self.journal.within)
        if found is None:
            raise EnvironmentBroken(
                f"{target.label} does not exist, so it cannot be deleted: {why}"
            )
        owners = found["metadata"].get("ownerReferences") or []
        if not any(owner.get("controller") for owner in owners):
            raise EnvironmentBroken(
                f"refused to delete {target.label}: it has no controller that would create it again"
            )
        uid = str(found["metadata"]["uid"])
        entry = self._write(self._entry("delete-owned-pod", why, target, uid=uid))
        self._act(entry, lambda: self.changes.delete(target, why, foreign=True))
        self.close(entry)

    def procedure(self, name: str, arguments: Mapping[str, Any], why: str) -> Entry:
        """Record a procedure before it begins: the healer ``name`` must run with ``arguments``
        unless the entry is closed.

        The node in ``arguments`` is marked first. An entry without a mark is not applied, and a
        mark without an entry shows that nothing had begun. Raise JournalRefused for an unknown
        healer, since nobody could undo the procedure. Raise EnvironmentBroken if there is no such
        node or the API server refused the mark or entry. Raise ApiRefused, LockLost.
        """
        if name not in self.healers:
            raise JournalRefused(
                f"refused: no healer is called {name!r} (known healers: "
                f"{', '.join(sorted(self.healers)) or 'none'})"
            )
        _refuse_content(dict(arguments), f"note procedure {name}")
        node = ObjectRef(api_version="v1", kind="Node", name=str(arguments.get("node")))
        found = read(self.changes.kube, node, within=self.journal.within)
        if found is None:
            raise EnvironmentBroken(f"{node.label} does not exist: {why}")
        uid = str(found["metadata"].get("uid") or "")
        entry = self._entry(
            "procedure", why, node, uid=uid, procedure=name, arguments=dict(arguments)
        )
        self._check()
        self._marked[entry.key] = entry
        retry(
            lambda: self.changes.patch(node, with_mark({}, entry), why, foreign=True),
            within=self.journal.within,
            description=entry.label,
        )
        written = self._write(entry)
        del self._marked[entry.key]
        return written

    def close(self, entry: Entry) -> None:
        self._marked[entry.key] = entry
        self.journal.close(entry)
        self._marked.pop(entry.key, None)
        self._keys = [key for key in self._keys if key != entry.key]

    def restore(self) -> list[Restored]:
        """Restore this process' changes, newest first, and remove its marks. Repetition does no
        harm."""
        keys = self._keys
        marked = self._marked
        self._keys = []
        self._marked = {}
        if not (keys or marked):
            return []
        return restore(
            self.journal,
            self.changes,
            self.healers,
            only=lambda entry: entry.key in keys,
            marked=list(marked.values()),
        )

    def _entry(self, act: Act, why: str, target: ObjectRef, **more: Any) -> Entry:
        """Return the journal entry of a change. Raise JournalRefused for a change that no restore
        would undo."""
        entry = Entry(
            key=self.journal.key(),
            act=act,
            why=why,
            run=self.changes.run.run,
            target=target,
            **more,
        )
        if problem := refusal(entry):
            raise JournalRefused(f"refused to {entry.label}: {problem}; nothing was changed")
        return entry

    def _write(self, entry: Entry) -> Entry:
        # the key first: the write may succeed although its answer is lost
        self._keys.append(entry.key)
        return self.journal.write(entry)

    def _act(self, entry: Entry, act: Callable[[], Obj | None]) -> Obj | None:
        """Check that the change is still allowed, then make it. Repeat it after short outages.

        If the change is not allowed, nothing was changed, and the entry is closed.
        """
        try:
            self._check()
        except Exception:
            self.close(entry)
            raise
        return retry(act, within=self.journal.within, description=entry.label)


def _refuse_secret(target: ObjectRef, verb: str) -> None:
    if target.kind in SECRET_KINDS:
        raise JournalRefused(
            f"refused to {verb} {target.label}: secrets are not journalled; nothing was changed"
        )


def _refuse_content(held: Any, what: str) -> None:
    if places := list(secret_fields(held)):
        raise JournalRefused(
            f"refused to {what}: {', '.join(places)} looks like a secret, which is not journalled; nothing was changed"
        )
