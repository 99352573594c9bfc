# SPDX-License-Identifier: Apache-2.0
"""Two ways to make disruptive changes: recorded first for a test, or without a record for a
restore."""

from collections.abc import Mapping
from typing import Any, Protocol

from conformance.journal.cordon import marked
from conformance.kube.changes import Changes
from conformance.model.change import ObjectRef


class Journalling(Protocol):
    """The part of the journal that disruptions need (``conformance.journal.Journalled``)."""

    def patch(self, target: ObjectRef, merge_patch: Mapping[str, Any], why: str) -> Any:
        """Record the present values of the fields, then change them."""

    def delete_owned_pod(self, target: ObjectRef, why: str) -> None:
        """Delete a pod that its controller creates again."""

    def procedure(self, name: str, arguments: Mapping[str, Any], why: str) -> Any:
        """Record, before the change, that the healer ``name`` must run; return the entry. If the
        entry is closed, the healer need not run."""

    def close(self, entry: Any) -> None:
        """Close an entry: its healer need not run."""


class Plainly:
    """Makes changes without entries in the journal. Healers use it, since the entry that they heal
    stays open until the end."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def patch(self, target: ObjectRef, merge_patch: Mapping[str, Any], why: str) -> Any:
        """Change fields. A node that this method cordons gets the run's mark, as if the change had
        been recorded."""
        found = self._changes.kube.find(
            target.api_version, target.kind, target.name, target.namespace
        )
        patch = marked(found or {}, target, merge_patch, self._changes.run.run)
        return self._changes.patch(target, patch, why, foreign=True)

    def delete_owned_pod(self, target: ObjectRef, why: str) -> None:
        self._changes.delete(target, why, foreign=True)

    def procedure(self, name: str, arguments: Mapping[str, Any], why: str) -> Any:
        """Do nothing: the procedure needs no further record."""

    def close(self, entry: Any) -> None:
        """Do nothing: there is no record."""
