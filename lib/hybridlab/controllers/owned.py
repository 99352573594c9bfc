# SPDX-License-Identifier: Apache-2.0
"""Objects by the uid of their controller. A controller's own changes are in the index at once,
before the watch reports them."""

from collections.abc import Callable

from hybridlab.api.contract import Obj
from hybridlab.controllers.cache import Cache


def controller_of(obj: Obj) -> Obj | None:
    """Return the owner reference of the controller; None without a controller."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def owner_reference(owner: Obj) -> Obj:
    """Return a reference that makes ``owner`` the controller of another object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class Owned:
    """The objects of a resource by the uid of their controller."""

    def __init__(self, cache: Cache, kind: str, changed: Callable[[str, str], None]) -> None:
        """Set up the index. ``changed(namespace, name)`` is called with the controller's name
        whenever one of its objects changed."""
        self._kind = kind
        self._changed = changed
        self._by_owner: dict[str, dict[str, Obj]] = {}
        self._doomed: set[str] = set()
        cache.subscribe(self._on_change)

    def of(self, owner_uid: str) -> list[Obj]:
        """Return all objects of a controller except objects that it has deleted."""
        found = self._by_owner.get(owner_uid, {})
        return [obj for uid, obj in found.items() if uid not in self._doomed]

    def remember(self, obj: Obj) -> None:
        """Record an object that was just created or changed."""
        owner = controller_of(obj)
        if owner is None:
            return
        uid = obj["metadata"]["uid"]
        known = self._by_owner.setdefault(owner["uid"], {})
        if uid not in known or _version(known[uid]) < _version(obj):
            known[uid] = obj

    def doom(self, obj: Obj) -> None:
        """Record an object that was just deleted."""
        self._doomed.add(obj["metadata"]["uid"])

    def _on_change(self, obj: Obj | None, before: Obj | None) -> None:
        found = obj or before
        owner = controller_of(found) if found else None
        if found is None or owner is None or owner["kind"] != self._kind:
            return
        if obj is None:
            uid = found["metadata"]["uid"]
            self._doomed.discard(uid)
            known = self._by_owner.get(owner["uid"], {})
            known.pop(uid, None)
            if not known:
                self._by_owner.pop(owner["uid"], None)
        else:
            self.remember(obj)
        self._changed(found["metadata"]["namespace"], owner["name"])


def _version(obj: Obj) -> int:
    return int(obj["metadata"]["resourceVersion"])


def is_active(pod: Obj) -> bool:
    """Return whether the pod has not ended and is not being deleted."""
    phase = pod.get("status", {}).get("phase")
    return phase not in {"Succeeded", "Failed"} and "deletionTimestamp" not in pod["metadata"]


def ready_since(pod: Obj) -> str | None:
    """Return when the pod became ready. Return an empty string if its status has no time, and None
    if the pod is not ready."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            return str(condition.get("lastTransitionTime") or "")
    return None
