# SPDX-License-Identifier: Apache-2.0
"""How disruptive changes are made: noted first where a test makes them, plainly where a restore
makes them."""

from collections.abc import Mapping
from typing import Any, Protocol

from conformance.journal.cordon import marked
from conformance.kube.changes import Changes
from conformance.model.change import ObjectRef


class Journalling(Protocol):
    """What disruptions need of the journal (``conformance.journal.Journalled``)."""

    def patch(self, target: ObjectRef, merge_patch: Mapping[str, Any], why: str) -> Any:
        """Note the fields' values, then change them."""

    def delete_owned_pod(self, target: ObjectRef, why: str) -> None:
        """Delete a pod that its controller makes anew."""

    def procedure(self, name: str, arguments: Mapping[str, Any], why: str) -> Any:
        """Note, before the act, that healer ``name`` must be run unless the entry, which is
        returned, is closed."""

    def close(self, entry: Any) -> None:
        """Nothing of an entry is to be healed any more."""


class Plainly:
    """The same changes without a note, for healers: the entry that they heal stays open until
    they are through."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def patch(self, target: ObjectRef, merge_patch: Mapping[str, Any], why: str) -> Any:
        """Change fields; a node that is cordoned so bears the run's mark, as with a note."""
        found = self._changes.kube.find(
            target.api_version, target.kind, target.name, target.namespace
        )
        patch = marked(found or {}, target, merge_patch, self._changes.run.run)
        return self._changes.patch(target, patch, why, foreign=True)

    def delete_owned_pod(self, target: ObjectRef, why: str) -> None:
        self._changes.delete(target, why, foreign=True)

    def procedure(self, name: str, arguments: Mapping[str, Any], why: str) -> Any:
        """Nothing to note."""

    def close(self, entry: Any) -> None:
        """Nothing was noted."""
