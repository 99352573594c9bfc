# SPDX-License-Identifier: Apache-2.0
"""The verbs that change nothing: get, list and watch.

A list is read without awaiting, so that all its objects are of the same moment.
"""

import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Literal

import orjson

from hybridlab.api.contract import Event, Obj
from hybridlab.api.errors import bad_request, expired, not_found, unexplained
from hybridlab.api.requests import Target
from hybridlab.api.resources import Catalogue, Resource
from hybridlab.api.selectors import ObjectTest, compile_test, required_name
from hybridlab.api.store import Change, Store
from hybridlab.api.views import Views

_LIST_SNAPSHOTS = 64
"""The maximum number of lists that clients read page by page at the same time. If there are more,
the oldest list expires: its next page is answered with 410."""

_EVENT_TYPES: Mapping[str, Literal["ADDED", "MODIFIED", "DELETED"]] = {
    "ADDED": "ADDED",
    "MODIFIED": "MODIFIED",
    "DELETED": "DELETED",
}


@dataclass(frozen=True)
class Page:
    """An answer to a list."""

    items: list[Obj]
    revision: str
    next: str = ""
    """The continue token; empty at the end."""
    remaining: int = 0


class Reading:
    """The verbs that only read, for every resource."""

    def __init__(self, store: Store, catalogue: Catalogue, views: Views) -> None:
        self.store = store
        self.catalogue = catalogue
        self.views = views
        self._snapshots: OrderedDict[str, tuple[list[Obj], str]] = OrderedDict()

    def get(self, target: Target) -> Obj:
        """Return an object; raise ApiError 404 if there is none."""
        return self.views.shown(target.resource, self.stored(target))

    def stored(self, target: Target) -> Obj:
        """Return an object as it is stored. Raise ApiError 404 if there is none."""
        found = self.kept(target)
        if found is None:
            raise not_found(target.resource.plural, target.resource.group, target.name)
        return found

    def exists(self, target: Target) -> bool:
        """Return whether the object exists."""
        return self.kept(target) is not None

    def kept(self, target: Target) -> Obj | None:
        """Return the stored object; None if it does not exist. Raise ApiError if it exists only
        under another name."""
        return self.views.found(target, self.store.bucket(target.resource.storage).get)

    def select(
        self, resource: Resource, namespace: str | None, labels: str = "", fields: str = ""
    ) -> tuple[list[Obj], str]:
        """Return the objects that the selectors select, and the resourceVersion of the list."""
        test = compile_test(labels, fields, resource.selectable, custom=resource.by_crd)
        bucket = self.store.bucket(resource.storage)
        revision = str(self.store.revision)
        name = None if "," in fields else required_name(fields)
        if name is not None and (namespace or not resource.namespaced) and not resource.is_view:
            found = bucket.get((namespace or "", name))
            return (
                [found] if found is not None and (test is None or test(found)) else []
            ), revision
        items = bucket.within(namespace)
        if resource.is_view:
            items = [self.views.shown(resource, item) for item in items]
        if test is not None:
            items = [item for item in items if test(item)]
        return items, revision

    def page(
        self,
        resource: Resource,
        namespace: str | None,
        labels: str,
        fields: str,
        *,
        limit: int,
        token: str,
    ) -> Page:
        """Return a page of a list; all pages of a list show the same moment."""
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
                raise bad_request(
                    f"invalid continue token: continue key is not valid: {error}"
                ) from error
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
        """Return the position in the log at which a watch from resourceVersion ``since`` starts;
        raise ApiError 410 if the log no longer contains this position."""
        try:
            return self.store.bucket(resource.storage).position(int(since))
        except ValueError:
            raise unexplained(
                f'resourceVersion: Invalid value: "{since}": strconv.ParseUint: parsing "{since}": invalid syntax'
            ) from None

    def test(self, resource: Resource, labels: str, fields: str) -> ObjectTest | None:
        """Compile selectors for a resource."""
        return compile_test(labels, fields, resource.selectable, custom=resource.by_crd)

    async def watch(
        self, resource: Resource, namespace: str | None, position: int, test: ObjectTest | None
    ) -> AsyncIterator[list[Event]]:
        """Yield batches of events from ``position`` on, without end; raise ApiError 410 if the
        watch is too far behind."""
        bucket = self.store.bucket(resource.storage)
        while True:
            changes, position = bucket.after(position)
            if not changes:
                await bucket.changed()
                continue
            events: list[Event] = []
            for change in changes:
                if (
                    namespace is not None
                    and change.object["metadata"].get("namespace", "") != namespace
                ):
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
            # the last state that the selectors selected, with the revision at which they stopped
            # selecting it
            last = self.views.shown(resource, change.previous)
            meta = {**last["metadata"], "resourceVersion": str(change.revision)}
            shown = {**last, "metadata": meta}
        return Event("DELETED", shown)
