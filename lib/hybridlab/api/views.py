"""One store, several API groups: how objects look in a group other than the one they are kept in.

Events are kept as core/v1 and also served as events.k8s.io/v1.  Calico's objects are kept as projectcalico.org/v3 and
also served as crd.projectcalico.org/v1, where one kind has another name and, up to Calico v3.31, policies of the
default tier carry the tier in their name (``default.allow-dns``).
"""

from typing import Any, Final

from hybridlab.api.contract import Obj
from hybridlab.api.resources import CRD_V1, V3, Resource

TIERED: Final = frozenset({"NetworkPolicy", "GlobalNetworkPolicy", "StagedNetworkPolicy", "StagedGlobalNetworkPolicy"})
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
    """Converts between what is stored and what a resource shows."""

    def __init__(self, *, tier_prefixed_names: bool) -> None:
        self._prefixed = tier_prefixed_names

    def shown(self, resource: Resource, obj: Obj) -> Obj:
        """Return a stored object as ``resource`` shows it; the same object when nothing differs."""
        if resource.group == V3 and "generation" in obj["metadata"]:
            # calico-apiserver shows no generation; the objects of crd.projectcalico.org behind it have one
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
            meta = view["metadata"]
            changed: dict[str, Any] = {}
            if self._prefixed and resource.storage_kind in TIERED:
                changed["name"] = self.shown_name(resource, meta["name"])
            if resource.storage_kind == "BlockAffinity":
                spec = view.get("spec") or {}
                view["spec"] = {**spec, "deleted": "true" if spec.get("deleted") else "false"}
            if changed:
                view["metadata"] = {**meta, **changed}
        return view

    def stored(self, resource: Resource, obj: Obj) -> Obj:
        """Return an object sent to ``resource`` as it is kept; ``obj`` belongs to the caller."""
        if not resource.is_view:
            return obj
        obj["apiVersion"], obj["kind"] = resource.storage_version, resource.storage_kind
        if resource.storage == "events":
            return _renamed(obj, {new: old for old, new in _EVENT_FIELDS})
        if resource.group == CRD_V1:
            if "name" in obj["metadata"]:
                obj["metadata"]["name"] = self.stored_name(resource, obj["metadata"]["name"])
            spec = obj.get("spec")
            if resource.storage_kind == "BlockAffinity" and isinstance(spec, dict):
                spec["deleted"] = spec.get("deleted") in {True, "true"}
        return obj

    def shown_name(self, resource: Resource, name: str) -> str:
        """Return the name under which ``resource`` shows the stored object ``name``."""
        tiered = resource.group == CRD_V1 and resource.storage_kind in TIERED
        if self._prefixed and tiered and "." not in name:
            return f"default.{name}"
        return name

    def stored_name(self, resource: Resource, name: str) -> str:
        """Return the name under which the object is kept that ``resource`` calls ``name``.

        projectcalico.org/v3 takes both ``allow-dns`` and ``default.allow-dns`` for the same policy.
        """
        if self._prefixed and resource.storage_kind in TIERED and resource.group in {CRD_V1, V3}:
            return name.removeprefix("default.")
        return name


def _renamed(obj: Obj, names: dict[str, str]) -> Obj:
    return {names.get(key, key): value for key, value in obj.items()}
