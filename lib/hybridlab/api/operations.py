# SPDX-License-Identifier: Apache-2.0
"""The verbs create, update, patch and delete, the same for every client and every transport.

``reading`` has the verbs that read; ``checks`` finds the problems of an object. Everything except a
watch happens without awaiting, so each verb is atomic and no write ever has to be retried.
Authentication and authorization come before these verbs, encoding after them; both are elsewhere.
"""

import random
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import orjson

from hybridlab.api import managedfields
from hybridlab.api.checks import Checks
from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.errors import (
    STALE,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
    options_invalid,
    required,
    unexplained,
)
from hybridlab.api.escalation import Escalation
from hybridlab.api.kinds.rights import GROUP as RIGHTS
from hybridlab.api.kinds.strategy import Strategy
from hybridlab.api.lifecycle import Lifecycle, timestamp
from hybridlab.api.patches import json_patch, merge_patch, strategic_merge
from hybridlab.api.reading import Reading
from hybridlab.api.requests import DeleteOptions, Target, WriteOptions
from hybridlab.api.resources import Catalogue, Resource
from hybridlab.api.schemas.shapes import Findings
from hybridlab.api.store import Change, Key, Store
from hybridlab.api.views import Views
from hybridlab.taps import Seam

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
PatchKind = Literal["merge", "json", "strategic"]


def private(obj: Any) -> Any:
    """Return a deep copy of JSON data."""
    return orjson.loads(orjson.dumps(obj))


class Operations(Reading):
    """The verbs on every resource: the verbs that write are here, the verbs that read are
    inherited.
    """

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        views: Views,
        strategies: Mapping[str, Strategy],
        custom_shape: Callable[[Resource, Obj], Findings] | None = None,
        *,
        escalation: Escalation | None = None,
    ) -> None:
        super().__init__(store, catalogue, views)
        self._strategies = strategies
        self._plain = Strategy()
        self._custom = CustomStrategy()
        self._checks = Checks(store, views, custom_shape)
        self.lifecycle = Lifecycle(store, self.strategy)
        self._escalation = escalation
        self._random = random.Random()
        self.admission: Seam[Obj] = Seam()
        """A seam through which each object passes that is about to be created. A tap may change the
        object, or raise an error that refuses it."""
        store.listeners.append(self._committed)

    def strategy(self, storage: str) -> Strategy:
        """Return the strategy of a stored kind."""
        found = self._strategies.get(storage)
        if found is not None:
            return found
        return self._plain if is_built_in(storage.partition(".")[2]) else self._custom

    def _committed(self, storage: str, key: Key, change: Change) -> None:
        self.strategy(storage).committed(
            None if change.type == "DELETED" else change.object, change.previous
        )

    def _check_grants(
        self, resource: Resource, obj: Obj, old: Obj | None, options: WriteOptions
    ) -> None:
        if resource.group == RIGHTS and options.user is not None and self._escalation is not None:
            self._escalation.check(options.user, resource, obj, old)

    def create(
        self, target: Target, body: Any, options: WriteOptions, *, managed: list[Obj] | None = None
    ) -> Obj:
        """Create an object from a private copy of it; ``managed``: its managedFields, if they are
        known already."""
        resource, namespace, _, _ = target
        obj = self._checks.decode(resource, namespace, body)
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            raise unexplained("resourceVersion should not be set on objects to be created")
        given_name = self._new_name(resource, meta)
        if resource.namespaced:
            self._checks.namespace(resource, namespace, given_name)
        obj = self.views.stored(resource, obj)
        strategy = self.strategy(resource.storage)
        shape = self._checks.shape(resource)
        if shape is not None and "spec" in shape.codes and obj.get("spec") is None:
            obj["spec"] = {}
        self._checks.fields(resource, obj, options)
        self._check_grants(resource, obj, None, options)
        _start_metadata(resource, strategy, obj)
        self.views.keep_name(resource, given_name, meta)
        present = self.store.bucket(resource.storage).get((namespace, meta["name"]))
        if present is not None:
            ending = "deletionTimestamp" in present["metadata"]
            raise already_exists(resource.plural, resource.group, given_name, ending=ending)
        obj = self.admission(obj, resource.plural, None)
        meta = obj["metadata"]
        strategy.default(obj)
        strategy.prepare_create(obj)
        self._checks.rules(resource, strategy, obj, None, options)
        strategy.admit(obj)
        if managed is not None:
            meta["managedFields"] = managed
        elif options.tracked:
            managedfields.track_update(
                self._checks.shape(resource), obj, None, options.field_manager, ""
            )
        if not options.dry_run:
            self.store.put(resource.storage, obj)
            self.lifecycle.adopt_check(resource.storage, obj)
            strategy.after_create(obj)
        return self.views.shown(resource, obj)

    def _new_name(self, resource: Resource, meta: Obj) -> str:
        """Return the name of a new object; if it has none, generate it from its generateName."""
        if not meta.get("name"):
            if not meta.get("generateName"):
                cause = required("metadata.name", "name or generateName is required")
                raise invalid(resource.kind, resource.group, "", [cause])
            suffix = "".join(self._random.choices(_SUFFIX_LETTERS, k=5))
            meta["name"] = f"{meta['generateName'][:58]}{suffix}"
        return str(meta["name"])

    def replace(self, target: Target, body: Any, options: WriteOptions) -> Obj:
        """Replace an object (or a subresource of it) by the new object, of which the caller passes
        a private copy."""
        resource, namespace, name, _ = target
        obj = self._checks.decode(resource, namespace, body)
        given = obj["metadata"].setdefault("name", name)
        if given != name:
            raise _other_name(given, name)
        old = self.stored(target)
        obj = self.views.stored(resource, obj)
        strategy = self.strategy(resource.storage)
        if not obj["metadata"].get("resourceVersion") and not strategy.unconditional_update:
            cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(resource.plural, resource.group, name, [cause])
        version = obj["metadata"].get("resourceVersion") or "0"
        if not version.isdigit():
            raise unexplained(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        return self._update(target, obj, old, options)

    def patch(self, target: Target, patch: Any, kind: PatchKind, options: WriteOptions) -> Obj:
        """Patch an object in the form in which its resource shows it."""
        resource, namespace, name, _ = target
        old = self.stored(target)
        shown = self.views.shown(resource, old)
        if kind == "json":
            if not isinstance(patch, list):
                given = "object" if isinstance(patch, dict) else "string"
                why = f"json: cannot unmarshal {given} into Go value of type []handlers.jsonPatchOp"
                raise bad_request(f"error decoding patch: {why}")
            changed = json_patch(shown, patch)
        elif not isinstance(patch, dict):
            given = "array" if isinstance(patch, list) else "string"
            raise bad_request(
                f"json: cannot unmarshal {given} into Go value of type map[string]interface {{}}"
            )
        elif kind == "merge":
            changed = merge_patch(shown, patch)
        else:
            shape = self._checks.shape(resource)
            if shape is None or not is_built_in(resource.group):
                accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                message = (
                    "the body of the request was in an unknown format - accepted media types include: "
                    + accepted
                )
                raise ApiError(415, "UnsupportedMediaType", message)
            changed = strategic_merge(shown, patch, shape)
        shown_patch = partial(_shown_patch, patch if kind == "strategic" else changed, kind)
        obj = self._checks.decode(resource, namespace, private(changed), shown_patch)
        new_name = obj["metadata"].get("name", "")
        if new_name != shown["metadata"]["name"]:
            raise _other_name(new_name, name)
        return self._update(target, self.views.stored(resource, obj), old, options, shown_patch)

    def apply(self, target: Target, body: Any, options: WriteOptions) -> tuple[Obj, bool]:
        """Apply an object server-side; return the object and whether it was created."""
        resource, _, name, subresource = target
        wanted = self._decode_applied(target, body, options)
        old = self.kept(target)
        if old is None:
            _check_applied_create(target, wanted)
            base: Obj = {"apiVersion": wanted["apiVersion"], "kind": wanted["kind"], "metadata": {}}
        else:
            base = old
        scratch = private(wanted)
        self._checks.fields(resource, scratch, options, partial=old is not None)
        result = managedfields.apply(
            self._checks.shape(resource),
            base,
            scratch,
            options.field_manager,
            force=options.force,
            subresource=subresource,
        )
        if isinstance(result, managedfields.Conflicts):
            raise result.error(resource.kind, name)
        merged, entries = result
        quiet = replace(
            options, field_manager="", field_validation="Ignore", force=False, tracked=False
        )
        if old is None:
            shown = self.views.shown(resource, merged)
            shown["metadata"]["name"] = name
            return self.create(target, shown, quiet, managed=entries), True
        merged["metadata"]["managedFields"] = entries
        return self._update(target, merged, old, quiet), False

    def _decode_applied(self, target: Target, body: Any, options: WriteOptions) -> Obj:
        """Check the body of a server-side apply; return it in the form in which it would be
        stored."""
        resource, namespace, name, _ = target
        if not options.field_manager:
            raise options_invalid(
                "PatchOptions", required("fieldManager", "is required for apply patch")
            )
        if isinstance(body, dict) and not (body.get("apiVersion") and body.get("kind")):
            version = body.get("apiVersion") or "/"
            raise bad_request(f"invalid object type: {version}, Kind={body.get('kind') or ''}")
        given_namespace = (
            (body.get("metadata") or {}).get("namespace", "") if isinstance(body, dict) else ""
        )
        wanted = self._checks.decode(resource, namespace, body)
        if not wanted["metadata"].get("name"):
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )
        if wanted["metadata"]["name"] != name:
            raise _other_name(wanted["metadata"]["name"], name)
        if wanted["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        wanted = self.views.stored(resource, wanted)
        self._checks.declared(resource, private(wanted), given_namespace)
        return wanted

    def _update(
        self,
        target: Target,
        obj: Obj,
        old: Obj,
        options: WriteOptions,
        patched: Callable[[], str] | None = None,
    ) -> Obj:
        """Replace ``old`` by ``obj`` (private, in stored form). ``patched`` returns the patch that
        produced ``obj``, as text."""
        resource = target.resource
        subresource = target.subresource
        meta = obj["metadata"]
        old_meta = old["metadata"]
        meta["name"] = old_meta["name"]
        _check_same_object(resource, meta, old_meta, patched=patched is not None)
        strategy = self.strategy(resource.storage)
        self._checks.fields(resource, obj, options, patched=patched)
        self._check_grants(resource, obj, old, options)
        meta = obj["metadata"]
        _drop_empty(meta)
        _copy_fields(old_meta, meta, (*_SERVER_OWNED, "resourceVersion"))
        if "managedFields" in old_meta:
            meta.setdefault("managedFields", old_meta["managedFields"])
        obj = self._isolated(resource, obj, old, subresource)
        obj = self.admission(obj, resource.plural, old)
        if not subresource:
            strategy.default(obj)
        strategy.prepare_update(obj, old, subresource)
        meta = obj["metadata"]
        outside_spec = {"metadata", "status"} if resource.has_status else {"metadata"}
        if "generation" in meta and not _equal_but_for(outside_spec, obj, old):
            meta["generation"] += 1
        self._checks.rules(resource, strategy, obj, old, options)
        if (
            options.tracked
            and "managedFields" in old_meta
            and meta.get("managedFields") == old_meta["managedFields"]
        ):
            managedfields.track_update(
                self._checks.shape(resource), obj, old, options.field_manager, subresource
            )
        if _same(obj, old):
            return self.views.shown(resource, old)
        if not options.dry_run and not self.lifecycle.finish(resource.storage, obj):
            self.store.put(resource.storage, obj)
        return self.views.shown(resource, obj)

    @staticmethod
    def _isolated(resource: Resource, obj: Obj, old: Obj, subresource: str) -> Obj:
        """Return the new object in which the fields that this (sub)resource may not write are
        unchanged."""
        if subresource == "status":
            result = {**old, "metadata": dict(old["metadata"])}
            for key in ("labels", "annotations", "finalizers", "managedFields"):
                if key in obj["metadata"]:
                    result["metadata"][key] = obj["metadata"][key]
                elif resource.storage == "pods":
                    result["metadata"].pop(key, None)
            _copy_fields(obj, result, ("status",))
            return result
        if resource.has_status:
            _copy_fields(old, obj, ("status",))
        return obj

    def delete(self, target: Target, options: DeleteOptions) -> tuple[Obj, bool]:
        """Delete an object; return its last state and whether it is already removed."""
        resource = target.resource
        key = (target.namespace, self.stored(target)["metadata"]["name"])
        obj, gone = self.lifecycle.delete(resource.storage, key, options)
        return self.views.shown(resource, obj), gone

    def delete_collection(
        self,
        resource: Resource,
        namespace: str | None,
        labels: str,
        fields: str,
        options: DeleteOptions,
    ) -> list[Obj]:
        """Delete all objects that the selectors select, and return them."""
        items, _ = self.select(resource, namespace, labels, fields)
        for item in items:
            meta = item["metadata"]
            self.delete(Target(resource, meta.get("namespace", ""), meta["name"]), options)
        return items


def _shown_patch(value: Any, kind: PatchKind) -> str:
    """Return a refused patch as the real server shows it: a strategic patch in the form in which Go
    prints a map, other patches as JSON."""
    if kind != "strategic":
        return orjson.dumps(value).decode()
    if isinstance(value, dict):
        return (
            "map["
            + " ".join(f"{key}:{_shown_patch(value[key], kind)}" for key in sorted(value))
            + "]"
        )
    if isinstance(value, list):
        return "[" + " ".join(_shown_patch(item, kind) for item in value) + "]"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def is_built_in(group: str) -> bool:
    """Return whether an API group belongs to Kubernetes itself."""
    return group in {"", "apps", "autoscaling", "batch", "policy"} or group.endswith(".k8s.io")


def _other_name(given: str, name: str) -> ApiError:
    return bad_request(
        f"the name of the object ({given}) does not match the name on the URL ({name})"
    )


def _drop_empty(meta: Obj) -> None:
    """Remove empty fields, as Go's encoder does."""
    for key in _EMPTY_IS_ABSENT:
        if key in meta and not meta[key]:
            del meta[key]


_EMPTY_IS_ABSENT = ("labels", "annotations", "finalizers", "ownerReferences", "generateName")


class CustomStrategy(Strategy):
    """The rules of kinds of CustomResourceDefinitions and of aggregated servers."""

    unconditional_update = False


def _start_metadata(resource: Resource, strategy: Strategy, obj: Obj) -> None:
    """Replace the fields that a client may not set in a new object by the server's own values."""
    meta = obj["metadata"]
    for key in (*_SERVER_OWNED, "resourceVersion", "managedFields"):
        meta.pop(key, None)
    if resource.has_status and not strategy.keeps_status_on_create:
        obj.pop("status", None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = timestamp()
    _drop_empty(meta)
    if strategy.counts_generations and ("spec" in obj or strategy.generation_without_spec):
        meta["generation"] = 1


def _check_applied_create(target: Target, wanted: Obj) -> None:
    """Refuse to create a subresource, or an object with a uid: both can only exist already."""
    resource, _, name, subresource = target
    if subresource:
        raise not_found(resource.plural, resource.group, name)
    if wanted["metadata"].get("uid"):
        raise conflict(
            resource.plural,
            resource.group,
            name,
            "uid mismatch: the provided object specified a uid, and no existing object was found",
        )


def _check_same_object(resource: Resource, meta: Obj, old: Obj, *, patched: bool) -> None:
    """Refuse an update that is based on another version of the object, or on another object."""
    name = old["name"]
    version = meta.get("resourceVersion")
    if version and version != old["resourceVersion"]:
        raise conflict(resource.plural, resource.group, name, STALE)
    uid = meta.get("uid")
    if not uid or uid == old["uid"]:
        return
    if patched:
        cause = invalid_value("metadata.uid", uid, "field is immutable")
        raise invalid(resource.kind, resource.group, name, [cause])
    given = f"UID in precondition: {uid}, UID in object meta: {old['uid']}"
    raise conflict(resource.plural, resource.group, name, f"Precondition failed: {given}")


def _copy_fields(source: Obj, target: Obj, keys: Iterable[str]) -> None:
    """Make ``target`` equal to ``source`` in these fields; drop the fields that ``source``
    lacks."""
    for key in keys:
        if key in source:
            target[key] = source[key]
        else:
            target.pop(key, None)


def _equal_but_for(ignored: Collection[str], obj: Obj, other: Obj) -> bool:
    return all(
        obj.get(key) == other.get(key) for key in obj.keys() | other.keys() if key not in ignored
    )


def _same(obj: Obj, old: Obj) -> bool:
    """Return whether a write changed only resourceVersion and the times in managedFields."""
    new_meta = obj["metadata"]
    old_meta = old["metadata"]
    return (
        _equal_but_for({"metadata"}, obj, old)
        and _equal_but_for({"resourceVersion", "managedFields"}, new_meta, old_meta)
        and managedfields.same_owners(new_meta.get("managedFields"), old_meta.get("managedFields"))
    )


__all__ = ["Operations", "PatchKind", "is_built_in", "private"]
