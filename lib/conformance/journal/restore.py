# SPDX-License-Identifier: Apache-2.0
"""Restores journalled changes, newest first. Each field is restored only while it holds the run's
value, and the result is verified.

An entry is applied only if the suite makes such changes (``restorable``) and the object confirms it
(``mark``).
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.errors import SuiteError, first_line
from conformance.journal.fields import Field, content_at, putting_back
from conformance.journal.mark import doubt, mark_fields, within_reach
from conformance.journal.record import Entry
from conformance.journal.restorable import by_hand, refusal
from conformance.journal.retry import read, retry
from conformance.journal.staying import stays, text_of
from conformance.journal.store import Journal
from conformance.kube.changes import Changes
from conformance.kube.client import Obj
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef

Healers = Mapping[str, Callable[[str, dict[str, Any]], None]]
"""The functions that undo procedures, by the procedures' names. A function receives the run that
began the procedure and the procedure's arguments, and raises an error if it fails."""
CONFLICTS = 5
"""The number of attempts to restore a field whose object may change at the same time."""


class Outcome(enum.StrEnum):
    """The result of restoring an entry."""

    RESTORED = "restored"
    UNCHANGED = "nothing to restore"
    CONFLICT = "conflict"
    """Another user has changed the object since, so the object is left as it is."""
    REFUSED = "refused"
    """Only the journal claims that a run of this suite made the change, so the object is left as it
    is."""
    FAILED = "not restored"


NOT_RESTORED = (Outcome.CONFLICT, Outcome.FAILED, Outcome.REFUSED)
"""Outcomes after which the cluster is not restored, if a run of this suite wrote the entry."""


@dataclass(frozen=True)
class Restored:
    """The result of restoring an entry."""

    entry: Entry
    outcome: Outcome
    text: str
    """One line: the object, its value before, its value now."""
    by_hand: str = ""
    """The command that remains to be run by hand."""

    def __str__(self) -> str:
        return f"{self.outcome}: {self.text}" + (f"; {self.by_hand}" if self.by_hand else "")


def restore(
    journal: Journal,
    changes: Changes,
    healers: Healers,
    *,
    only: Callable[[Entry], bool] = lambda entry: True,
    marked: Sequence[Entry] = (),
) -> list[Restored]:
    """Restore every open entry for which ``only`` returns true, newest first. Close entries for
    which nothing is left to do. ``marked``: entries that may be closed, but whose nodes may still
    have the mark.

    This is safe to repeat, since restored values are recognised.
    """
    restorer = _Restorer(journal, changes, healers)
    entries = [
        item
        for item in journal.entries(unreadable=lambda problem: None)
        if item.open and only(item)
    ]
    noted = {entry.key for entry in entries}
    return [
        *(restorer.restore(entry) for entry in reversed(entries)),
        *(restorer.restore(entry, is_over=True) for entry in marked if entry.key not in noted),
    ]


@dataclass(frozen=True)
class _Restorer:
    journal: Journal
    changes: Changes
    healers: Healers

    def restore(self, entry: Entry, *, is_over: bool = False) -> Restored:
        """Restore one entry. An error is reported, not raised, so that the other entries are still
        restored.

        ``is_over``: the procedure had not begun, or is over, so at most its mark is left.
        """
        acts: dict[str, Callable[[Entry], Restored]] = {
            "patch": self._patched,
            "create": self._created,
            "procedure": self._proceeded,
            "delete-owned-pod": lambda deleted: Restored(
                deleted, Outcome.UNCHANGED, f"{deleted.label}: its owner created a new pod"
            ),
        }
        run = self.journal.run.run
        result = None
        try:
            if why := refusal(entry) or (entry.run != run and f"it names run {entry.run}"):
                return self._refused(entry, why)
            result = (
                Restored(entry, Outcome.UNCHANGED, entry.label)
                if is_over
                else acts[entry.act](entry)
            )
            if result.outcome not in (Outcome.FAILED, Outcome.REFUSED):
                self.journal.close(entry)
        except SuiteError as error:
            text = f"{result.text if result else stays(entry)}: {first_line(error)}"
            return Restored(entry, Outcome.FAILED, text, "once that is repaired: pytest --restore")
        return result

    def _patched(self, entry: Entry) -> Restored:
        assert entry.target is not None
        target = within_reach(self.changes.kube, entry.target, within=self.journal.within)
        as_noted = target == entry.target
        for _ in range(CONFLICTS):
            current = read(self.changes.kube, target, within=self.journal.within)
            if current is None:
                return Restored(
                    entry, Outcome.CONFLICT, f"{entry.label}: the object is gone", _look(target)
                )
            todo = [
                field for field in entry.fields if content_at(current, field.path) != field.before
            ]
            marks = mark_fields(current, entry.mark_name)
            if not todo and not marks:
                return Restored(entry, Outcome.UNCHANGED, entry.label)
            if why := doubt(entry, current, as_noted=as_noted):
                return self._refused(entry, why)
            foreign = [field for field in todo if content_at(current, field.path) != field.ours]
            ours = [field for field in todo if field not in foreign]
            if self._put_back(target, [*ours, *marks], current):
                return self._verified(entry, target, ours, foreign)
        return Restored(
            entry,
            Outcome.FAILED,
            f"{entry.label}: the object was changed by others during each attempt",
            "pytest --restore",
        )

    def _put_back(self, target: ObjectRef, fields: Sequence[Field], current: Obj) -> bool:
        """Restore the fields. Return False if the object was changed or deleted in between."""
        patch = putting_back(fields, current)
        patch.setdefault("metadata", {})["resourceVersion"] = current["metadata"]["resourceVersion"]
        try:
            retry(
                lambda: self.changes.patch(target, patch, "puts it back as it was", foreign=True),
                within=self.journal.within,
                description=f"put back {target.label}",
            )
        except ApiRefused as refusal:
            if refusal.code == 409 or refusal.not_found:
                return False
            raise
        return True

    def _verified(
        self, entry: Entry, target: ObjectRef, ours: Sequence[Field], foreign: Sequence[Field]
    ) -> Restored:
        now = read(self.changes.kube, target, within=self.journal.within)
        wrong = [
            field for field in ours if now is None or content_at(now, field.path) != field.before
        ]
        if wrong:
            found = "; ".join(
                f"{field.label} expected {text_of(field, field.before)}, observed "
                f"{_content_text(field, now)}"
                for field in wrong
            )
            return Restored(
                entry,
                Outcome.FAILED,
                f"{target.label}: after it was put back: {found}",
                "pytest --restore",
            )
        if foreign:
            found = "; ".join(
                f"{field.label} was {text_of(field, field.before)}, was set to {text_of(field, field.ours)} by this suite "
                f"and is now {_content_text(field, now)}"
                for field in foreign
            )
            return Restored(
                entry,
                Outcome.CONFLICT,
                f"{target.label}: {found}: the value of another owner is kept",
                _look(target),
            )
        if not ours:
            return Restored(entry, Outcome.UNCHANGED, entry.label)
        found = ", ".join(
            f"{field.label} is {text_of(field, field.before)} again" for field in ours
        )
        return Restored(entry, Outcome.RESTORED, f"{target.label}: {found}")

    def _created(self, entry: Entry) -> Restored:
        assert entry.target is not None
        target = entry.target
        current = read(self.changes.kube, entry.target, within=self.journal.within)
        if current is None or current["metadata"].get("deletionTimestamp"):
            return Restored(entry, Outcome.UNCHANGED, f"{target.label} is gone")
        if why := doubt(entry, current) or (
            "" if self.changes.run.owns(current) else "it does not have the run's labels"
        ):
            return self._refused(entry, why)
        retry(
            lambda: self.changes.delete(target, "puts it back as it was", foreign=True),
            within=self.journal.within,
            description=f"remove {target.label}",
        )
        self.changes.waits.gone(target, within=self.journal.within)
        return Restored(
            entry, Outcome.RESTORED, f"{target.label}, which this suite made, is removed"
        )

    def _proceeded(self, entry: Entry) -> Restored:
        heal = self.healers.get(entry.procedure)
        if heal is None:
            known = ", ".join(sorted(self.healers)) or "none"
            return Restored(
                entry,
                Outcome.FAILED,
                entry.label,
                f"undo it by hand: this suite has no such procedure (it has {known})",
            )
        assert entry.target is not None
        node = read(self.changes.kube, entry.target, within=self.journal.within)
        if node is None:
            return Restored(
                entry, Outcome.CONFLICT, f"{entry.label}: the node is gone", _look(entry.target)
            )
        if why := doubt(entry, node):
            return self._refused(entry, why)
        try:
            heal(self.journal.run.run, dict(entry.arguments))
        except SuiteError:
            raise
        except Exception as error:  # a broken healer must not stop the other healers
            return Restored(
                entry,
                Outcome.FAILED,
                f"{entry.label}: {type(error).__name__}: {first_line(error)}",
                f"undo {entry.procedure} by hand, then pytest --restore",
            )
        return Restored(entry, Outcome.RESTORED, f"{entry.label}: healed by {entry.procedure}")

    def _refused(self, entry: Entry, why: str) -> Restored:
        """Leave an entry and its object alone, and report how to deal with both of them by hand."""
        where = self.journal.ref
        forget = f"kubectl delete configmap -n {where.namespace} {where.name}"
        todo = f"no run of this suite wrote this entry; remove the journal: {forget}"
        if undo := by_hand(entry):
            todo = f"if a run of yours made the change: {undo}; then: {forget}"
        return Restored(
            entry, Outcome.REFUSED, f"{_cut(entry.label)}: {why}; nothing was done", todo
        )


def _look(target: ObjectRef) -> str:
    space = f"-n {target.namespace} " if target.namespace else ""
    return (
        f"check whether that is intended: kubectl {space}get {target.kind.lower()} {target.name} "
        "-o yaml"
    )


def _content_text(field: Field, obj: Obj | None) -> str:
    return text_of(field, content_at(obj or {}, field.path))


def _cut(text: str, length: int = 300) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
