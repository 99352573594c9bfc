# SPDX-License-Identifier: Apache-2.0
"""Handles an HTTPS request from its headers to its answer: user, rights, verb, and format of the
answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hybridlab.api.audit import Audit, Entry
from hybridlab.api.calico_server import apply_refused
from hybridlab.api.contract import ApiError, NodeAgent, Obj
from hybridlab.api.core import Core
from hybridlab.api.errors import (
    bad_request,
    internal,
    method_not_allowed,
    not_acceptable,
    not_emulated,
    unauthorized,
    unsupported_patch,
)
from hybridlab.api.http import execs, logs
from hybridlab.api.http.aio import ClientConnectionResetError, web
from hybridlab.api.http.bodies import (
    APPLY,
    JSON,
    PATCHES,
    STRATEGIC,
    body_of,
    delete_options,
    flag,
    number,
    write_options,
)
from hybridlab.api.http.documents import HEALTH, PUBLIC, Documents
from hybridlab.api.http.paths import Request, parse
from hybridlab.api.http.replies import (
    BODY_LIMIT,
    STREAMING,
    accepts_json,
    deleted_status,
    error_reply,
    in_yaml,
    json_reply,
    prefers_yaml,
    wants,
)
from hybridlab.api.http.tables import partial, table
from hybridlab.api.http.watching import Watching
from hybridlab.api.impersonation import acting_as
from hybridlab.api.interference import Interference
from hybridlab.api.operations import is_built_in
from hybridlab.api.requests import Target, User, WriteOptions
from hybridlab.api.resources import V3, Resource
from hybridlab.api.selectors import required_name
from hybridlab.api.views import TIERED

_NOT_EMULATED: Final = {
    "attach": "attach: containers of the lab have no terminal to attach to; use exec",
    "portforward": "port-forward: only other pods can reach the lab's pods",
    "proxy": "the API server's proxy: only pods can reach the lab's pods, services and nodes",
    "ephemeralcontainers": "ephemeral containers (kubectl debug)",
}
_INCLUDED: Final = frozenset({"None", "Metadata", "Object"})
AgentOf = Callable[[str], NodeAgent | None]


class Handler:
    """Answers requests."""

    def __init__(
        self, core: Core, agent_of: AgentOf, interference: Interference, address: str
    ) -> None:
        self._core = core
        self._operations = core.operations
        self._agent_of = agent_of
        self._interference = interference
        self._documents = Documents(core.catalogue, address, core.settings.kubernetes_version)
        self._watching = Watching(core.operations, interference.catches_watch)
        self.audit = Audit()
        major, minor = core.settings.kubernetes_version.lstrip("v").split(".")[:2]
        self._exec_needs_create = (int(major), int(minor)) >= (1, 35)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; every error becomes a Status."""
        path = request.path
        note = _Note(request)
        try:
            reply = await self._answer(request, path, note)
        except ApiError as error:
            reply = self._failed(request, error)
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {BODY_LIMIT}"
            reply = error_reply(ApiError(413, "RequestEntityTooLarge", message))
        # the client left while the answer was being written, which is how watches and logs end
        except ClientConnectionResetError:
            if request.transport is not None and not request.transport.is_closing():
                raise
            return web.Response()  # nobody reads this answer
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception as error:
            loop = asyncio.get_running_loop()
            loop.call_exception_handler(
                {"message": f"API server: {request.method} {path}", "exception": error}
            )
            reply = self._failed(request, internal(f"{type(error).__name__}: {error}"))
        self._note(note, reply.status)
        if isinstance(reply, web.Response) and prefers_yaml(request.headers.get("Accept", "")):
            return in_yaml(reply)
        return reply

    @staticmethod
    def _failed(request: web.BaseRequest, error: ApiError) -> web.Response:
        """Answer with an error. If the answer has begun already, cut the connection instead."""
        if request.get(STREAMING):
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError(f"cut off: {error}")
        return error_reply(error)

    def _note(self, note: _Note, code: int) -> None:
        if not note.noted:
            note.noted = True
            self.audit.note(
                Entry(
                    note.verb, note.resource, note.namespace, note.name, note.user, note.agent, code
                )
            )

    async def _answer(self, request: web.BaseRequest, path: str, note: _Note) -> web.StreamResponse:
        if path not in HEALTH:
            refused = self._interference.before_request(path, request.query_string)
            if refused is not None:
                raise refused
        header = request.headers.get("Authorization", "")
        if not header and path in PUBLIC:
            user = None
        elif not header:
            raise unauthorized()
        else:
            user = self._core.authenticator.authenticate(header)
            user = acting_as(request.headers.items(), user, self._core.authorizer, path)
            note.user = user.name
        query = request.query
        about = parse(request.method, path, self._core.catalogue, watch=flag(query, "watch"))
        if about is None:
            if user is not None:
                self._core.authorizer.check_path(user, "get", path)
            return self._documents.answer(request, path)
        if user is None:
            raise unauthorized()
        note.about(about)
        self._core.authorizer.check(user, about.verb, _asked(about, query.get("fieldSelector", "")))
        return await self._resource(request, about, user, note)

    async def _resource(
        self, request: web.BaseRequest, about: Request, user: User, note: _Note
    ) -> web.StreamResponse:
        target = about.target
        verb = about.verb
        if target.subresource and target.subresource != "status":
            return await self._subresource(request, about, user, note)
        if target.resource.verbs == ("create",):
            return await self._create_only(request, target, user)
        if verb in {"get", "list", "watch"}:
            return await self._read(request, about, user, note)
        if verb in {"delete", "deletecollection"}:
            return await self._delete(request, about, user)
        return await self._write(request, about, user)

    async def _read(
        self, request: web.BaseRequest, about: Request, user: User, note: _Note
    ) -> web.StreamResponse:
        target = about.target
        resource = target.resource
        accept = request.headers.get("Accept", "")
        if not accepts_json(accept):
            raise not_acceptable()
        include = request.query.get("includeObject") or "Metadata"
        if wants(accept, "Table") and include not in _INCLUDED:
            why = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            raise bad_request(f"Unable to convert to Table as requested: {why}")
        if about.verb == "list":
            return self._list(request.query, target, accept, include)
        form = _shown_as(resource, accept, include)
        if about.verb == "watch":
            self._note(note, 200)
            return await self._watching.serve(request, resource, target.namespace or None, form)
        obj = self._operations.get(target)
        self._check_tier(user, "get", target, obj)
        return json_reply(form(obj), warnings=resource.warnings)

    def _list(
        self, query: Mapping[str, str], target: Target, accept: str, include: str
    ) -> web.Response:
        resource = target.resource
        labels = query.get("labelSelector", "")
        fields = query.get("fieldSelector", "")
        page = self._operations.page(
            resource,
            target.namespace or None,
            labels,
            fields,
            limit=number(query.get("limit") or "0"),
            token=query.get("continue", ""),
        )
        meta: Obj = {"resourceVersion": page.revision}
        if page.next:
            meta["continue"] = page.next
            if not labels and not fields:
                meta["remainingItemCount"] = page.remaining
        if wants(accept, "Table"):
            body = table(resource, page.items, meta, include=include)
        elif wants(accept, "PartialObjectMetadataList"):
            listed = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            return json_reply(
                {**listed, "metadata": meta, "items": [partial(item) for item in page.items]}
            )
        else:
            body = _list_of(resource, page.items, meta)
        return json_reply(body, warnings=resource.warnings)

    async def _write(self, request: web.BaseRequest, about: Request, user: User) -> web.Response:
        target = about.target
        verb = about.verb
        if not target.resource.emulated:
            raise not_emulated(target.resource.name)
        options = write_options(request)
        options.user = user
        if verb in {"create", "update"}:
            body = await body_of(request, JSON, target.resource.kind)
            self._check_tier(user, verb, target, body)
            write = self._operations.create if verb == "create" else self._operations.replace
            code = 201 if verb == "create" else 200
            return self._reply(request, target, write(target, body, options), code, options)
        kind = request.content_type
        if kind in APPLY:
            body = await body_of(request, APPLY, target.resource.kind)
            self._check_tier(user, verb, target, body)
            exists = self._operations.exists(target)
            if refused := apply_refused(self._core.settings.calico_version, target, exists=exists):
                raise refused
            obj, created = self._operations.apply(target, body, options)
            return self._reply(request, target, obj, 201 if created else 200, options)
        if kind not in PATCHES:
            raise unsupported_patch()
        patch = await body_of(request, frozenset(PATCHES))
        self._check_tier(user, verb, target, self._operations.get(target))
        changed = self._operations.patch(target, patch, PATCHES[kind], options)
        return self._reply(request, target, changed, 200, options)

    @staticmethod
    def _reply(
        request: web.BaseRequest, target: Target, obj: Obj, code: int, options: WriteOptions
    ) -> web.Response:
        if wants(request.headers.get("Accept", ""), "Table"):
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            obj = table(
                target.resource, [obj], meta, include=request.query.get("includeObject", "Metadata")
            )
        return json_reply(obj, code, warnings=(*options.warnings, *target.resource.warnings))

    async def _delete(self, request: web.BaseRequest, about: Request, user: User) -> web.Response:
        target = about.target
        options = await delete_options(request)
        resource = target.resource
        if about.verb == "deletecollection":
            query = request.query
            labels = query.get("labelSelector", "")
            deleted = self._operations.delete_collection(
                resource, target.namespace or None, labels, query.get("fieldSelector", ""), options
            )
            meta = {"resourceVersion": str(self._operations.store.revision)}
            return json_reply(_list_of(resource, deleted, meta))
        self._check_tier(user, "delete", target, self._operations.get(target))
        obj, gone = self._operations.delete(target, options)
        if gone and not self._operations.strategy(resource.storage).returns_deleted:
            return json_reply(deleted_status(resource.plural, resource.group, obj["metadata"]))
        return json_reply(obj)

    async def _create_only(
        self, request: web.BaseRequest, target: Target, user: User
    ) -> web.Response:
        """Answer a request for an object that is created and never stored: a review or a
        binding."""
        body = await body_of(request, JSON)
        if not isinstance(body, dict):
            raise bad_request("the request body is not an object")
        resource = target.resource
        if resource.plural == "bindings":
            name = (body.get("metadata") or {}).get("name", "")
            options = write_options(request)
            return json_reply(
                self._core.subresources.bind(target.namespace, name, body, options), 201
            )
        body.setdefault("apiVersion", resource.api_version)
        body.setdefault("kind", resource.kind)
        body.setdefault("metadata", {})
        return json_reply(
            self._core.reviews.answer(resource.kind, body, user, target.namespace), 201
        )

    async def _subresource(
        self, request: web.BaseRequest, about: Request, user: User, note: _Note
    ) -> web.StreamResponse:
        target = about.target
        name = about.target.subresource
        if name in _NOT_EMULATED:
            raise not_emulated(_NOT_EMULATED[name])
        if name == "exec":
            return await self._exec(request, about, user, note)
        if name == "log":
            pod = self._operations.get(target)
            self._note(note, 200)
            return await logs.serve(request, pod, self._agent_of(pod["spec"].get("nodeName", "")))
        if name == "scale":
            return await self._scale(request, about)
        options = write_options(request)
        if name == "finalize":
            return json_reply(
                self._operations.replace(target, await body_of(request, JSON), options)
            )
        body = await body_of(request, JSON)
        if not isinstance(body, dict):
            raise bad_request("the request body is not an object")
        subresources = self._core.subresources
        if name == "binding":
            return json_reply(subresources.bind(target.namespace, target.name, body, options), 201)
        if name == "eviction":
            return json_reply(subresources.evict(target.namespace, target.name, body, options), 201)
        return json_reply(self._core.authenticator.issue(self._operations.get(target), body), 201)

    async def _scale(self, request: web.BaseRequest, about: Request) -> web.Response:
        target = about.target
        subresources = self._core.subresources
        if about.verb == "get":
            return json_reply(subresources.scale(target))
        options = write_options(request)
        if about.verb == "update":
            body = await body_of(request, JSON)
        elif about.verb == "patch" and request.content_type in {
            "application/merge-patch+json",
            *STRATEGIC,
        }:
            given = await body_of(request, frozenset(PATCHES))
            body = {**subresources.scale(target), **given}
            body["metadata"] = given.get("metadata") or {}
        elif about.verb == "patch" and request.content_type == "application/json-patch+json":
            from hybridlab.api.patches import json_patch  # rarely needed

            body = json_patch(
                subresources.scale(target), await body_of(request, frozenset(PATCHES))
            )
        else:
            raise method_not_allowed()
        return json_reply(subresources.rescale(target, body, options))

    async def _exec(
        self, request: web.BaseRequest, about: Request, user: User, note: _Note
    ) -> web.StreamResponse:
        target = about.target
        query = request.query
        if self._exec_needs_create and about.verb == "get":
            self._core.authorizer.check(user, "create", target)
        found = self._operations.store.bucket("pods").get((target.namespace, target.name))
        if found is not None:
            execs.choose_container(found, query.get("container", ""))
        pod = execs.pod_for_exec(found, target.name)
        argv = tuple(query.getall("command", []))
        if not argv:
            raise bad_request('PodExecOptions "" is invalid: command: Required value')
        container = execs.choose_container(pod, query.get("container", ""))
        streams = {name: flag(query, name) for name in ("stdin", "stdout", "stderr", "tty")}
        if not (streams["stdin"] or streams["stdout"] or streams["stderr"]):
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        execs.check_upgrade(request.headers)
        self._note(note, 101)
        asked = execs.ExecRequest(pod=pod, container=container, argv=argv, **streams)
        return await execs.run(request, asked, self._agent_of(pod["spec"]["nodeName"]))

    def _check_tier(self, user: User, verb: str, target: Target, obj: Any) -> None:
        """Check the rights on a policy's tier, which calico-apiserver requires in addition to
        those on the policy.
        """
        resource = target.resource
        if resource.group == V3 and resource.storage_kind in TIERED and isinstance(obj, dict):
            tier = (obj.get("spec") or {}).get("tier") or "default"
            name = target.name or (obj.get("metadata") or {}).get("name", "")
            self._core.authorizer.check_tier(user, verb, target._replace(name=name), tier)


class _Note:
    """The audit record of a request."""

    def __init__(self, request: web.BaseRequest) -> None:
        self.verb = request.method.lower()
        self.resource = request.path
        self.namespace = self.name = self.user = ""
        self.agent = request.headers.get("User-Agent", "")
        self.noted = False

    def about(self, about: Request) -> None:
        """Record what the request's path means."""
        target = about.target
        self.verb = about.verb
        self.resource = target.resource.name
        if target.subresource:
            self.resource += f"/{target.subresource}"
        self.namespace = target.namespace
        self.name = target.name


def _asked(about: Request, fields: str) -> Target:
    """Return the target of the rights check. If a list or watch selects one name, the target
    includes this name.

    A role with resourceNames then allows the request (``NewRequestInfo`` of k8s.io/apiserver,
    pkg/endpoints/request).
    """
    name = required_name(fields) if about.verb in {"list", "watch"} else None
    if not name or name in {".", ".."} or "/" in name or "%" in name:
        return about.target
    return about.target._replace(name=name)


def _shown_as(resource: Any, accept: str, include: str) -> Callable[[Obj], Obj]:
    """Return the function that converts the objects in a watch's events to the form that the client
    accepts."""
    if wants(accept, "Table"):
        first = True

        def row(obj: Obj) -> Obj:
            nonlocal first
            with_columns = first
            first = False
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return table(resource, [obj], meta, include=include, with_columns=with_columns)

        return row
    return partial if wants(accept, "PartialObjectMetadata") else lambda obj: obj


def _list_of(resource: Resource, items: Sequence[Obj], meta: Obj) -> Obj:
    """Return a list; the real server leaves kind and version out of the items of its own kinds."""
    if is_built_in(resource.group):
        items = [
            {k: v for k, v in item.items() if k not in {"apiVersion", "kind"}} for item in items
        ]
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": meta,
        "items": items,
    }
