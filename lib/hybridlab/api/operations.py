"""The verbs: what a create, update, patch, delete, list or watch does, whoever asks and over whatever transport.

Everything but a watch happens in one go without awaiting, so each verb is atomic and no write ever has to be retried.
Authentication and authorization come before, encoding after; neither is here.
"""

from __future__ import annotations

import random
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from hybridlab.api import managedfields
from hybridlab.api.contract import ApiError, Event, Obj
from hybridlab.api.errors import (
    STALE,
    Cause,
    already_exists,
    bad_request,
    conflict,
    expired,
    forbidden,
    invalid,
    invalid_value,
    not_found,
    required,
)
from hybridlab.api.kinds.strategy import Strategy
from hybridlab.api.lifecycle import Lifecycle, timestamp
from hybridlab.api.patches import json_patch, merge_patch, strategic_merge
from hybridlab.api.requests import DeleteOptions, Target, WriteOptions
from hybridlab.api.resources import Catalogue, Resource
from hybridlab.api.schemas.shapes import Findings, Shape, check_object, shapes
from hybridlab.api.selectors import ObjectTest, compile_test, exact_name
from hybridlab.api.store import Change, Key, Store
from hybridlab.api.views import Views

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
_LIST_SNAPSHOTS = 64
"""Lists that are being read page by page; the oldest is forgotten (410) when there are more."""

PatchKind = Literal["merge", "json", "strategic"]
_EVENT_TYPES: Mapping[str, Literal["ADDED", "MODIFIED", "DELETED"]] = {
    "ADDED": "ADDED",
    "MODIFIED": "MODIFIED",
    "DELETED": "DELETED",
}


def private(obj: Any) -> Any:
    """Return a deep copy of JSON data."""
    return orjson.loads(orjson.dumps(obj))


@dataclass(frozen=True)
class Page:
    """One answer to a list."""

    items: list[Obj]
    revision: str
    next: str = ""
    """Continue token; empty at the end."""
    remaining: int = 0


class Operations:
    """The verbs on every resource."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        views: Views,
        strategies: Mapping[str, Strategy],
        custom_shape: Callable[[Resource, Obj], Findings] | None = None,
    ) -> None:
        self.store, self.catalogue, self.views = store, catalogue, views
        self._strategies = strategies
        self._plain = Strategy()
        self._custom = CustomStrategy()
        self._custom_shape = custom_shape
        self.lifecycle = Lifecycle(store, self.strategy, self._plural)
        self._snapshots: OrderedDict[str, tuple[list[Obj], str]] = OrderedDict()
        self._random = random.Random()
        store.listeners.append(self._committed)

    # ---- kinds
    def strategy(self, storage: str) -> Strategy:
        """Return what is particular to a stored kind."""
        found = self._strategies.get(storage)
        if found is not None:
            return found
        return self._plain if is_built_in(storage.partition(".")[2]) else self._custom

    def _plural(self, storage: str) -> tuple[str, str]:
        plural, _, group = storage.partition(".")
        return plural, group

    def _committed(self, storage: str, key: Key, change: Change) -> None:
        self.strategy(storage).committed(None if change.type == "DELETED" else change.object, change.previous)

    @staticmethod
    def shape(resource: Resource) -> Shape | None:
        """Return the fields of a resource's stored objects; None when they are open."""
        return shapes().of(resource.storage_version, resource.storage_kind)

    # ---- reading
    def get(self, target: Target) -> Obj:
        """Return an object; ApiError 404 when there is none."""
        return self.views.shown(target.resource, self._stored(target))

    def _stored(self, target: Target) -> Obj:
        resource, namespace, name, _ = target
        key = (namespace, self.views.stored_name(resource, name))
        found = self.store.bucket(resource.storage).get(key)
        if found is None:
            raise not_found(resource.plural, resource.group, name)
        return found

    def select(
        self, resource: Resource, namespace: str | None, labels: str = "", fields: str = ""
    ) -> tuple[list[Obj], str]:
        """Return the objects that the selectors select, and the resourceVersion of the list."""
        test = compile_test(labels, fields, resource.selectable)
        bucket = self.store.bucket(resource.storage)
        revision = str(self.store.revision)
        name = exact_name(fields)
        if name is not None and (namespace or not resource.namespaced) and not resource.is_view:
            found = bucket.get((namespace or "", name))
            return ([found] if found is not None and (test is None or test(found)) else []), revision
        items = bucket.within(namespace)
        if resource.is_view:
            items = [self.views.shown(resource, item) for item in items]
        if test is not None:
            items = [item for item in items if test(item)]
        return items, revision

    def page(
        self, resource: Resource, namespace: str | None, labels: str, fields: str, *, limit: int, token: str
    ) -> Page:
        """Return one page of a list; all pages of one list show the same moment."""
        start = 0
        if token:
            try:
                snapshot, offset = orjson.loads(urlsafe_b64decode(token))
                items, revision = self._snapshots[snapshot]
                start = int(offset)
            except KeyError:
                raise expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a "
                    "new list without the continue parameter."
                ) from None
            except (ValueError, TypeError) as error:
                raise bad_request(f"continue key is not valid: {error}") from error
        else:
            items, revision = self.select(resource, namespace, labels, fields)
            snapshot = ""
        if limit <= 0 or len(items) - start <= limit:
            return Page(items[start:], revision)
        if not snapshot:
            snapshot = uuid.uuid4().hex[:12]
            self._snapshots[snapshot] = (items, revision)
            if len(self._snapshots) > _LIST_SNAPSHOTS:
                self._snapshots.popitem(last=False)
        following = urlsafe_b64encode(orjson.dumps([snapshot, start + limit])).decode()
        return Page(items[start : start + limit], revision, following, len(items) - start - limit)

    def position(self, resource: Resource, since: str) -> int:
        """Return where in the log a watch from resourceVersion ``since`` starts; ApiError 410 when that is gone."""
        try:
            return self.store.bucket(resource.storage).position(int(since))
        except ValueError:
            raise bad_request(
                f'Invalid value: "{since}": strconv.ParseUint: parsing "{since}": invalid syntax'
            ) from None

    def test(self, resource: Resource, labels: str, fields: str) -> ObjectTest | None:
        """Compile selectors for a resource."""
        return compile_test(labels, fields, resource.selectable)

    async def watch(
        self, resource: Resource, namespace: str | None, position: int, test: ObjectTest | None
    ) -> AsyncIterator[list[Event]]:
        """Yield batches of events from ``position`` on; never ends; raises ApiError 410 when it fell behind."""
        bucket = self.store.bucket(resource.storage)
        while True:
            changes, position = bucket.after(position)
            if not changes:
                await bucket.changed()
                continue
            events: list[Event] = []
            for change in changes:
                if namespace is not None and change.object["metadata"].get("namespace", "") != namespace:
                    continue
                event = self._event(resource, change, test)
                if event is not None:
                    events.append(event)
            if events:
                yield events

    def _event(self, resource: Resource, change: Change, test: ObjectTest | None) -> Event | None:
        shown = self.views.shown(resource, change.object)
        if test is None:
            return Event(_EVENT_TYPES[change.type], shown)
        before = change.previous is not None and test(self.views.shown(resource, change.previous))
        now = change.type != "DELETED" and test(shown)
        if now:
            return Event("MODIFIED" if before else "ADDED", shown)
        if not before:
            return None
        if change.type != "DELETED" and change.previous is not None:
            # the last state that was selected, under the revision at which it stopped being so
            last = self.views.shown(resource, change.previous)
            meta = {**last["metadata"], "resourceVersion": str(change.revision)}
            shown = {**last, "metadata": meta}
        return Event("DELETED", shown)

    # ---- writing
    def create(self, target: Target, body: Any, options: WriteOptions, *, managed: list[Obj] | None = None) -> Obj:
        """Create an object from a private copy of it; ``managed``: its managedFields, when already known."""
        resource, namespace, _, _ = target
        obj = self._decode(resource, namespace, body)
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        given_name = meta.get("name") or ""
        if not given_name and meta.get("generateName"):
            suffix = "".join(self._random.choices(_SUFFIX_LETTERS, k=5))
            meta["name"] = given_name = f"{meta['generateName'][:58]}{suffix}"
        if not given_name:
            raise invalid(
                resource.kind, resource.group, "", [required("metadata.name", "name or generateName is required")]
            )
        if resource.namespaced:
            self._check_namespace(resource, namespace, given_name)
        obj = self.views.stored(resource, obj)
        strategy = self.strategy(resource.storage)
        shape = self.shape(resource)
        if shape is not None and "spec" in shape.codes and obj.get("spec") is None:
            obj["spec"] = {}
        self._check_fields(resource, obj, options)
        for key in (*_SERVER_OWNED, "resourceVersion", "managedFields"):
            meta.pop(key, None)
        if resource.has_status and not strategy.keeps_status_on_create:
            obj.pop("status", None)
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = timestamp()
        if strategy.counts_generations and "spec" in obj:
            meta["generation"] = 1
        if self.store.bucket(resource.storage).get((namespace, meta["name"])) is not None:
            raise already_exists(resource.plural, resource.group, given_name)
        strategy.default(obj)
        strategy.prepare_create(obj)
        self._validate(resource, strategy, obj, None, options)
        strategy.admit(obj)
        if managed is not None:
            meta["managedFields"] = managed
        elif options.tracked:
            managedfields.track_update(self.shape(resource), obj, None, options.field_manager, "")
        if options.dry_run:
            return self.views.shown(resource, obj)
        self.store.put(resource.storage, obj)
        self.lifecycle.adopt_check(resource.storage, obj)
        strategy.after_create(obj)
        return self.views.shown(resource, obj)

    def replace(self, target: Target, body: Any, options: WriteOptions) -> Obj:
        """Replace an object (or one subresource of it) by a private copy of the new one."""
        resource, namespace, name, _ = target
        obj = self._decode(resource, namespace, body)
        given = obj["metadata"].setdefault("name", name)
        if given != name:
            raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
        old = self._stored(target)
        obj = self.views.stored(resource, obj)
        strategy = self.strategy(resource.storage)
        if not obj["metadata"].get("resourceVersion") and not strategy.unconditional_update:
            cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(resource.kind, resource.group, name, [cause])
        return self._update(target, obj, old, options)

    def patch(self, target: Target, patch: Any, kind: PatchKind, options: WriteOptions) -> Obj:
        """Patch an object as its resource shows it."""
        resource, namespace, name, _ = target
        old = self._stored(target)
        shown = self.views.shown(resource, old)
        if kind == "json":
            if not isinstance(patch, list):
                raise bad_request("error decoding patch: a JSON patch is a list of operations")
            changed = json_patch(shown, patch, resource.kind, name)
        elif not isinstance(patch, dict):
            raise bad_request("error decoding patch: a patch of this type is an object")
        elif kind == "merge":
            changed = merge_patch(shown, patch)
        else:
            shape = self.shape(resource)
            if shape is None or not is_built_in(resource.group):
                accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                message = "the body of the request was in an unknown format - accepted media types include: " + accepted
                raise ApiError(415, "UnsupportedMediaType", message)
            changed = strategic_merge(shown, patch, shape)
        obj = self._decode(resource, namespace, private(changed))
        if obj["metadata"].get("name") != shown["metadata"]["name"]:
            cause = invalid_value("metadata.name", obj["metadata"].get("name", ""), "field is immutable")
            raise invalid(resource.kind, resource.group, name, [cause])
        return self._update(target, self.views.stored(resource, obj), old, options)

    def apply(self, target: Target, body: Any, options: WriteOptions) -> tuple[Obj, bool]:
        """Server-side apply; return the object and whether it was created."""
        resource, namespace, name, subresource = target
        if not options.field_manager:
            raise bad_request(
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
            )
        wanted = self._decode(resource, namespace, body)
        if wanted["metadata"].setdefault("name", name) != name:
            raise bad_request("the name of the object does not match the name on the URL")
        if wanted["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        wanted = self.views.stored(resource, wanted)
        shape = self.shape(resource)
        old = self.store.bucket(resource.storage).get((namespace, wanted["metadata"]["name"]))
        if old is None:
            if subresource:
                raise not_found(resource.plural, resource.group, name)
            if wanted["metadata"].get("uid"):
                raise conflict(
                    resource.plural,
                    resource.group,
                    name,
                    "uid mismatch: the provided object specified a uid, and no existing object was found",
                )
            base: Obj = {"apiVersion": wanted["apiVersion"], "kind": wanted["kind"], "metadata": {}}
        else:
            base = old
        scratch = private(wanted)
        self._check_fields(resource, scratch, options, partial=old is not None)
        result = managedfields.apply(
            shape, base, scratch, options.field_manager, force=options.force, subresource=subresource
        )
        if isinstance(result, managedfields.Conflicts):
            raise result.error(resource.kind, name)
        merged, entries = result
        quiet = WriteOptions(options.dry_run, field_validation="Ignore", tracked=False, warnings=options.warnings)
        if old is None:
            shown = self.views.shown(resource, merged)
            return self.create(target, shown, quiet, managed=entries), True
        merged["metadata"]["managedFields"] = entries
        return self._update(target, merged, old, quiet), False

    def _update(self, target: Target, obj: Obj, old: Obj, options: WriteOptions) -> Obj:
        """Put ``obj`` (private, in stored form) in the place of ``old``."""
        resource, subresource = target.resource, target.subresource
        meta, old_meta = obj["metadata"], old["metadata"]
        name = old_meta["name"]
        given = meta.get("resourceVersion")
        if given and given != old_meta["resourceVersion"]:
            raise conflict(resource.plural, resource.group, name, STALE)
        if meta.get("uid") and meta["uid"] != old_meta["uid"]:
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old_meta['uid']}"
            raise conflict(resource.plural, resource.group, name, why)
        strategy = self.strategy(resource.storage)
        self._check_fields(resource, obj, options)
        meta = obj["metadata"]
        for key in (*_SERVER_OWNED, "resourceVersion"):
            if key in old_meta:
                meta[key] = old_meta[key]
            else:
                meta.pop(key, None)
        if "managedFields" in old_meta:
            meta.setdefault("managedFields", old_meta["managedFields"])
        obj = self._isolated(resource, obj, old, subresource)
        if not subresource:
            strategy.default(obj)
        strategy.prepare_update(obj, old, subresource)
        meta = obj["metadata"]
        spec_changed = any(
            obj.get(key) != old.get(key)
            for key in obj.keys() | old.keys()
            if key != "metadata" and not (key == "status" and resource.has_status)
        )
        if spec_changed and "generation" in meta:
            meta["generation"] += 1
        self._validate(resource, strategy, obj, old, options)
        if options.tracked and "managedFields" in old_meta and meta.get("managedFields") == old_meta["managedFields"]:
            managedfields.track_update(self.shape(resource), obj, old, options.field_manager, subresource)
        if _same(obj, old):
            return self.views.shown(resource, old)
        if options.dry_run:
            return self.views.shown(resource, obj)
        if self.lifecycle.finish(resource.storage, obj):
            return self.views.shown(resource, obj)
        self.store.put(resource.storage, obj)
        return self.views.shown(resource, obj)

    @staticmethod
    def _isolated(resource: Resource, obj: Obj, old: Obj, subresource: str) -> Obj:
        """Keep what this (sub)resource may not write."""
        if subresource == "status":
            result = {**old, "metadata": {**old["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}}
            for key in ("labels", "annotations", "finalizers", "managedFields"):
                if key in obj["metadata"]:
                    result["metadata"][key] = obj["metadata"][key]
            if "status" in obj:
                result["status"] = obj["status"]
            else:
                result.pop("status", None)
            return result
        if resource.has_status:
            if "status" in old:
                obj["status"] = old["status"]
            else:
                obj.pop("status", None)
        return obj

    def delete(self, target: Target, options: DeleteOptions) -> tuple[Obj, bool]:
        """Delete an object; return its last state and whether it is gone already."""
        resource = target.resource
        old = self._stored(target)
        key = (target.namespace, old["metadata"]["name"])
        obj, gone = self.lifecycle.delete(resource.storage, key, options)
        return self.views.shown(resource, obj), gone

    def delete_collection(
        self, resource: Resource, namespace: str | None, labels: str, fields: str, options: DeleteOptions
    ) -> list[Obj]:
        """Delete everything that the selectors select and return it."""
        items, _ = self.select(resource, namespace, labels, fields)
        for item in items:
            meta = item["metadata"]
            self.delete(Target(resource, meta.get("namespace", ""), meta["name"]), options)
        return items

    # ---- checks
    def _decode(self, resource: Resource, namespace: str, body: Any) -> Obj:
        """Check that a body is an object of this resource and belongs to the request's namespace."""
        if not isinstance(body, dict):
            raise bad_request("the request body is not an object")
        obj: Obj = body
        given = obj.setdefault("apiVersion", resource.api_version)
        if given != resource.api_version:
            raise bad_request(
                f"the API version in the data ({given}) does not match the expected API version "
                f"({resource.api_version})"
            )
        kind = obj.setdefault("kind", resource.kind)
        if kind != resource.kind:
            raise bad_request(
                f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: the kind in the data '
                "does not match the resource of the request"
            )
        meta = obj.get("metadata")
        if meta is None:
            meta = obj["metadata"] = {}
        if not isinstance(meta, dict):
            raise bad_request("metadata is not an object")
        if resource.namespaced:
            if meta.get("namespace") and meta["namespace"] != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        return obj

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        found = self.store.bucket("namespaces").get(("", namespace))
        if found is None:
            raise not_found("namespaces", "", namespace)
        if "deletionTimestamp" in found["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            refused = forbidden(resource.plural, resource.group, name, why)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise ApiError(403, "Forbidden", refused.message, {**refused.details, "causes": [cause]})

    def _check_fields(self, resource: Resource, obj: Obj, options: WriteOptions, *, partial: bool = False) -> None:
        """Check field names and types; unknown fields are refused, warned about or dropped silently."""
        if resource.structural is not None and self._custom_shape is not None:
            findings = self._custom_shape(resource, obj)
        else:
            findings = check_object(self.shape(resource), obj)
        causes = findings.causes
        if partial:
            causes = [cause for cause in causes if cause.type != "FieldValueRequired"]
        if findings.unknown and options.field_validation == "Strict":
            causes = causes + [
                Cause("FieldValueInvalid", path, f'strict decoding error: unknown field "{path}"')
                for path in findings.unknown
            ]
        elif findings.unknown and options.field_validation == "Warn":
            options.warnings.extend(f'unknown field "{path}"' for path in findings.unknown)
        if causes:
            raise invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), causes)

    def _validate(
        self, resource: Resource, strategy: Strategy, obj: Obj, old: Obj | None, options: WriteOptions
    ) -> None:
        causes: list[Cause] = []
        meta = obj["metadata"]
        if old is None:
            problem = strategy.name_problem(meta["name"])
            if problem:
                causes.append(invalid_value("metadata.name", meta["name"], problem))
        causes.extend(_metadata_problems(meta, old))
        causes.extend(strategy.validate(obj, old))
        if causes:
            raise invalid(resource.kind, resource.group, self.views.shown_name(resource, meta["name"]), causes)
        options.warnings.extend(strategy.warnings(obj))


def is_built_in(group: str) -> bool:
    """Say whether an API group belongs to Kubernetes itself."""
    return group in {"", "apps", "policy"} or group.endswith(".k8s.io")


class CustomStrategy(Strategy):
    """Kinds that come from CustomResourceDefinitions and aggregated servers."""

    unconditional_update = False


def _same(obj: Obj, old: Obj) -> bool:
    """Say whether a write changed nothing but its own bookkeeping."""
    if any(obj.get(key) != old.get(key) for key in obj.keys() | old.keys() if key != "metadata"):
        return False
    new_meta, old_meta = obj["metadata"], old["metadata"]
    return all(
        new_meta.get(key) == old_meta.get(key)
        for key in new_meta.keys() | old_meta.keys()
        if key not in {"resourceVersion", "managedFields"}
    ) and managedfields.same_owners(new_meta.get("managedFields"), old_meta.get("managedFields"))


def _metadata_problems(meta: Obj, old: Obj | None) -> Iterable[Cause]:
    from hybridlab.api.kinds.metadata import metadata_problems  # small, but only needed once something is written

    return metadata_problems(meta, old["metadata"] if old else None)


__all__ = ["Operations", "Page", "PatchKind", "is_built_in", "private"]
