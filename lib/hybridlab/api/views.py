# SPDX-License-Identifier: Apache-2.0
"""One store, several API groups: the form of objects in a group that does not store them.

Events are stored as core/v1 and also served as events.k8s.io/v1. Calico's objects are stored as
projectcalico.org/v3 and also served as crd.projectcalico.org/v1. There, one kind has another name,
and up to Calico v3.31 policies of the default tier have the tier in their name
(``default.allow-dns``). Up to v3.31, ``allow-dns`` and ``default.allow-dns`` are the same object.
v3.29.0 to v3.29.3 return the longer name and find the object by either name. Other versions return
the name with which the object was created, and find the object only by this name
(``libcalico-go/lib/names/policy.go``, ``clientv3/globalnetworkpolicy.go``). From v3.32 on these
names mean two objects.
"""

from collections.abc import Callable
from typing import Final

from hybridlab.api.calico_server import release
from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.requests import Target
from hybridlab.api.resources import CRD_V1, V3, Resource
from hybridlab.api.store import Key

TIERED: Final = frozenset(
    {"NetworkPolicy", "GlobalNetworkPolicy", "StagedNetworkPolicy", "StagedGlobalNetworkPolicy"}
)
_EVENT_FIELDS: Final = (
    # core/v1, events.k8s.io/v1
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("reportingComponent", "reportingController"),
)


class Views:
    """Converts between stored objects and the objects that a resource shows."""

    def __init__(self, calico_version: str) -> None:
        self.prefixed = release(calico_version) < (3, 32, 0)
        """crd.projectcalico.org/v1 shows policies of the default tier as ``default.NAME``."""
        self._always = (3, 29, 0) <= release(calico_version) < (3, 29, 4)
        self._given: dict[str, str] = {}
        """The names with which policies were created in crd.projectcalico.org/v1, by uid, if
        :meth:`shown_name` would otherwise return another name."""

    def shown(self, resource: Resource, obj: Obj) -> Obj:
        """Return a stored object as ``resource`` shows it; the same object if nothing differs."""
        if resource.group == V3 and "generation" in obj["metadata"]:
            # calico-apiserver shows no generation, which the stored objects have
            meta = {key: value for key, value in obj["metadata"].items() if key != "generation"}
            return {**obj, "metadata": meta}
        if not resource.is_view:
            return obj
        view = {**obj, "apiVersion": resource.api_version, "kind": resource.kind}
        if resource.storage == "events":
            renamed = _renamed(view, dict(_EVENT_FIELDS))
            for key in ("reportingController", "reportingInstance"):
                if not renamed.get(key):
                    renamed.pop(key, None)
            return renamed
        if resource.group == CRD_V1:
            view["metadata"] = {
                **obj["metadata"],
                "name": self.shown_name(resource, obj["metadata"]),
            }
            if resource.storage_kind == "BlockAffinity":
                spec = view.get("spec") or {}
                view["spec"] = {**spec, "deleted": "true" if spec.get("deleted") else "false"}
        return view

    def stored(self, resource: Resource, obj: Obj) -> Obj:
        """Return an object sent to ``resource`` in the form in which it is stored; ``obj`` may be
        changed in place."""
        if "name" in obj["metadata"]:
            obj["metadata"]["name"] = self._names(resource, obj["metadata"]["name"])[0]
        if not resource.is_view:
            return obj
        obj["apiVersion"] = resource.storage_version
        obj["kind"] = resource.storage_kind
        if resource.storage == "events":
            return _renamed(obj, {new: old for old, new in _EVENT_FIELDS})
        if resource.group == CRD_V1:
            spec = obj.get("spec")
            if resource.storage_kind == "BlockAffinity" and isinstance(spec, dict):
                spec["deleted"] = spec.get("deleted") in {True, "true"}
        return obj

    def keep_name(self, resource: Resource, given: str, meta: Obj) -> None:
        """Record the name with which a new object was created in crd.projectcalico.org/v1, if
        :meth:`shown_name` would return another name: a CustomResourceDefinition renames no object.
        """
        if resource.group == CRD_V1 and self.shown_name(resource, meta) != given:
            self._given[meta["uid"]] = given

    def shown_name(self, resource: Resource, meta: Obj) -> str:
        """Return the name under which ``resource`` shows the stored object that has this
        metadata."""
        name: str = meta["name"]
        if not (self.prefixed and resource.group == CRD_V1 and resource.storage_kind in TIERED):
            return name
        return self._given.get(meta.get("uid", "")) or (name if "." in name else f"default.{name}")

    def found(self, target: Target, kept: Callable[[Key], Obj | None]) -> Obj | None:
        """Return the stored object with this name in a resource; raise ApiError if Calico's client
        finds an object of another name.

        The error is no 404: the client reports that the found object's name differs from the
        requested name.
        """
        resource, namespace, name, _ = target
        obj = next(
            filter(None, (kept((namespace, name)) for name in self._names(resource, name))), None
        )
        if (
            obj is not None
            and resource.group == CRD_V1
            and self.shown_name(resource, obj["metadata"]) != name
        ):
            return None
        if (
            obj is not None
            and resource.group == V3
            and not self._always
            and obj["metadata"]["name"] != name
        ):
            local = resource.storage_kind == "NetworkPolicy"
            called = (
                f"NetworkPolicy({namespace}/{name})" if local else f"GlobalNetworkPolicy({name})"
            )
            raise ApiError(500, "", f"resource not found {called}")
        return obj

    def _names(self, resource: Resource, name: str) -> tuple[str, ...]:
        """Return the names under which the object that ``resource`` calls ``name`` may be stored; a
        new object is stored under the first of them."""
        if not self.prefixed or resource.storage_kind not in TIERED:
            return (name,)
        by_length = sorted({name, other_name(name)}, key=len)
        if self._always:
            return (by_length[-1],)
        return tuple(by_length) if resource.group == CRD_V1 else (name, other_name(name))


def other_name(name: str) -> str:
    """Return the alias of a policy of the default tier; for another tier, return the name
    itself."""
    return name.removeprefix("default.") if "." in name else f"default.{name}"


def _renamed(obj: Obj, names: dict[str, str]) -> Obj:
    return {names.get(key, key): value for key, value in obj.items()}
