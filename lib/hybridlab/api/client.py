# SPDX-License-Identifier: Apache-2.0
"""The API for components inside the process: the same verbs and checks, without socket and
encoding."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol

from hybridlab.api.contract import Event, Obj
from hybridlab.api.errors import bad_request
from hybridlab.api.operations import Operations, private
from hybridlab.api.requests import MASTERS, DeleteOptions, Target, User, WriteOptions
from hybridlab.api.subresources import Subresources


class Authorize(Protocol):
    """A check that raises ApiError 403 unless ``user`` may use ``verb`` on ``target``."""

    def __call__(self, user: User, verb: str, target: Target) -> None: ...


class LocalClient:
    """A component's client (implements :class:`hybridlab.api.contract.Client`).

    ``user``: the component's user; members of system:masters need no further rights. Subresources
    are written by ``replace`` and ``patch``: ``status``, ``scale`` (replace), and ``binding``
    (replace of a pod by ``{"metadata": {"name": POD}, "target": {"name": NODE}}``;
    ``create("bindings", ...)`` does the same).
    """

    def __init__(
        self, operations: Operations, subresources: Subresources, user: User, authorize: Authorize
    ) -> None:
        self._operations = operations
        self._subresources = subresources
        self._user = user
        self._authorize = None if MASTERS in user.groups else authorize
        self._manager = user.name.rpartition(":")[2]

    def _target(
        self, resource: str, verb: str, namespace: str | None, name: str = "", subresource: str = ""
    ) -> Target:
        found = self._operations.catalogue.named(resource)
        if found.namespaced and not namespace and verb not in {"list", "watch"}:
            raise bad_request(f"{found.name} are namespaced: a namespace is needed")
        target = Target(found, (namespace or "") if found.namespaced else "", name, subresource)
        if self._authorize is not None:
            self._authorize(self._user, verb, target)
        return target

    def _options(self) -> WriteOptions:
        return WriteOptions(field_manager=self._manager, tracked=False, user=self._user)

    async def get(self, resource: str, name: str, namespace: str | None = None) -> Obj:
        return self._operations.get(self._target(resource, "get", namespace, name))

    async def list(
        self, resource: str, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> tuple[list[Obj], str]:
        target = self._target(resource, "list", namespace)
        return self._operations.select(target.resource, target.namespace or None, labels, fields)

    async def create(self, resource: str, obj: Obj, namespace: str | None = None) -> Obj:
        """Create an object; without ``namespace``, the object's own namespace applies."""
        namespace = namespace or obj.get("metadata", {}).get("namespace")
        if resource == "bindings":
            target = self._target(resource, "create", namespace)
            return self._subresources.bind(
                target.namespace, obj["metadata"]["name"], obj, self._options()
            )
        return self._operations.create(
            self._target(resource, "create", namespace), private(obj), self._options()
        )

    async def replace(
        self, resource: str, obj: Obj, namespace: str | None = None, *, subresource: str = ""
    ) -> Obj:
        namespace = namespace or obj["metadata"].get("namespace")
        target = self._target(resource, "update", namespace, obj["metadata"]["name"], subresource)
        if subresource == "binding":
            return self._subresources.bind(target.namespace, target.name, obj, self._options())
        if subresource == "scale":
            return self._subresources.rescale(target, obj, self._options())
        return self._operations.replace(target, private(obj), self._options())

    async def patch(
        self,
        resource: str,
        name: str,
        patch: Obj | Sequence[Any],
        namespace: str | None = None,
        *,
        kind: Literal["merge", "json", "strategic"] = "merge",
        subresource: str = "",
    ) -> Obj:
        target = self._target(resource, "patch", namespace, name, subresource)
        body = patch if isinstance(patch, dict) else [*patch]
        return self._operations.patch(target, body, kind, self._options())

    async def delete(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_period_seconds: int | None = None,
        uid: str | None = None,
    ) -> None:
        """Delete an object; dependents follow in the background."""
        options = DeleteOptions(grace_period_seconds=grace_period_seconds, uid=uid)
        self._operations.delete(self._target(resource, "delete", namespace, name), options)

    async def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        since: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[Event]:
        target = self._target(resource, "watch", namespace)
        test = self._operations.test(target.resource, labels, fields)
        position = self._operations.position(target.resource, since)
        async for events in self._operations.watch(
            target.resource, target.namespace or None, position, test
        ):
            for event in events:
                yield event
