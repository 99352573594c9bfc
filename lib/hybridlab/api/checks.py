# SPDX-License-Identifier: Apache-2.0
"""The checks of an object before it is written: its resource, its namespace, its fields, its kind's
rules."""

from collections.abc import Callable
from typing import Any

from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.errors import (
    Cause,
    bad_request,
    forbidden,
    invalid,
    invalid_value,
    not_found,
    unexplained,
)
from hybridlab.api.kinds.metadata import metadata_problems
from hybridlab.api.kinds.strategy import Strategy
from hybridlab.api.kinds.values import malformed
from hybridlab.api.managedfields import duplicate_keys
from hybridlab.api.requests import WriteOptions
from hybridlab.api.resources import CRD_V1, Resource
from hybridlab.api.schemas.go_types import decoding_problem
from hybridlab.api.schemas.shapes import Findings, Shape, check_object, shapes
from hybridlab.api.store import Store
from hybridlab.api.views import Views


class Checks:
    """The checks of an object; each check raises the ApiError that the client gets."""

    def __init__(
        self,
        store: Store,
        views: Views,
        custom_shape: Callable[[Resource, Obj], Findings] | None = None,
    ) -> None:
        """Set up the checks. ``custom_shape`` checks the fields of kinds that
        CustomResourceDefinitions define."""
        self._store = store
        self._views = views
        self._custom_shape = custom_shape

    @staticmethod
    def shape(resource: Resource) -> Shape | None:
        """Return the fields of a resource's stored objects; None if any fields are allowed."""
        return shapes().of(resource.storage_version, resource.storage_kind)

    def decode(
        self,
        resource: Resource,
        namespace: str,
        body: Any,
        patched: Callable[[], str] | None = None,
    ) -> Obj:
        """Check that a body is an object of this resource and belongs to the request's namespace.

        ``patched`` has the same meaning as for :meth:`fields`.
        """
        if not isinstance(body, dict):
            raise bad_request("the request body is not an object")
        obj: Obj = body
        given = obj.setdefault("apiVersion", resource.api_version)
        kind = obj.setdefault("kind", resource.kind)
        if given != resource.api_version and resource.by_crd:
            raise bad_request(
                f"the API version in the data ({given}) does not match the expected API version "
                f"({resource.api_version})"
            )
        if kind != resource.kind and resource.by_crd:
            name = (obj.get("metadata") or {}).get("name", "")
            raise invalid(
                kind,
                resource.group,
                name,
                [invalid_value("kind", kind, f"must be {resource.kind}")],
            )
        if (given, kind) != (resource.api_version, resource.kind):
            raise _other_kind(resource, given, kind, patched)
        if obj.get("metadata") is None:
            obj["metadata"] = {}
        meta = obj["metadata"]
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

    def namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Check that a new object's namespace exists and is not being deleted."""
        found = self._store.bucket("namespaces").get(("", namespace))
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
            raise ApiError(
                403, "Forbidden", refused.message, {**refused.details, "causes": [cause]}
            )

    def fields(
        self,
        resource: Resource,
        obj: Obj,
        options: WriteOptions,
        *,
        partial: bool = False,
        patched: Callable[[], str] | None = None,
    ) -> None:
        """Check field names and types; unknown fields are refused, warned about or dropped
        silently.

        ``partial``: fields may be missing. ``patched``: for an object that results from a patch, a
        function that returns the patch in the form that refusals show.
        """
        findings = self._findings(resource, obj, patched)
        unknown = [f'unknown field "{path}"' for path in findings.unknown]
        if unknown and options.field_validation == "Strict":
            raise _undecodable(resource, f"strict decoding error: {', '.join(unknown)}", patched)
        if options.field_validation == "Warn":
            options.warnings.extend(unknown)
        causes = findings.causes
        if partial:
            causes = [cause for cause in causes if cause.type != "FieldValueRequired"]
        if causes:
            raise invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), causes)

    def _findings(
        self, resource: Resource, obj: Obj, patched: Callable[[], str] | None
    ) -> Findings:
        """Compare an object with its shape; raise ApiError if the object cannot be decoded."""
        if resource.structural is not None and self._custom_shape is not None:
            return self._custom_shape(resource, obj)
        shape = self.shape(resource)
        findings = check_object(shape, obj)
        if findings.undecodable and shape is not None and resource.group != CRD_V1:
            path, value, why = findings.undecodable[0]
            raise _undecodable(resource, why or decoding_problem(shape, path, value), patched)
        return findings

    def declared(self, resource: Resource, wanted: Obj, namespace: str) -> None:
        """Raise ApiError 500, as the real server does, if a server-side apply names a field that
        the kind lacks."""
        if resource.structural is not None:
            return
        findings = check_object(self.shape(resource), wanted)
        why = ""
        if findings.unknown:
            why = f".{findings.unknown[0]}: field not declared in schema"
        elif not findings.undecodable:
            why = next(duplicate_keys(wanted, self.shape(resource)), "")
        if why:
            what = f"{namespace}/{wanted['metadata']['name']}; {resource.api_version}, Kind={resource.kind}"
            raise unexplained(f"failed to create typed patch object ({what}): {why}")

    def rules(
        self,
        resource: Resource,
        strategy: Strategy,
        obj: Obj,
        old: Obj | None,
        options: WriteOptions,
    ) -> None:
        """Check the metadata and the kind's own rules; record the kind's warnings."""
        causes: list[Cause] = []
        meta = obj["metadata"]
        if old is None:
            prefix = meta.get("generateName")
            if prefix:
                # a dash at the end is allowed: the generated name appends more characters
                whole = f"{prefix[:-1]}a" if prefix[-1] == "-" else prefix
                causes.extend(
                    malformed("metadata.generateName", prefix, strategy.name_problem(whole))
                )
            name = meta["name"]
            causes.extend(malformed("metadata.name", name, strategy.name_problem(name)))
        causes.extend(metadata_problems(meta, old["metadata"] if old else None))
        if strategy.checks_dry_runs or not options.dry_run:
            causes.extend(strategy.validate(obj, old))
        if causes:
            raise invalid(
                resource.kind, resource.group, self._views.shown_name(resource, meta), causes
            )
        options.warnings.extend(strategy.warnings(obj))


_INTERNAL_PACKAGES = {"": "core", "events.k8s.io": "core"}
_SCHEME = 'in scheme "pkg/runtime/scheme.go:110"'


def _other_kind(
    resource: Resource, version: str, kind: str, patched: Callable[[], str] | None
) -> ApiError:
    """Return the refusal of an object of another kind or version."""
    if shapes().of(version, kind) is None or not version.endswith("v1"):
        why = f'no kind "{kind}" is registered for version "{version}" {_SCHEME}'
    else:
        package = _INTERNAL_PACKAGES.get(resource.group, resource.group.partition(".")[0])
        own_package = "v1" if patched is not None or not version else version.rpartition("/")[2]
        why = (
            f"converting ({own_package}.{kind}) to ({package}.{resource.kind}): unknown conversion"
        )
    if patched is not None:
        return invalid("", "", "", [invalid_value("patch", patched(), why)])
    return bad_request(
        f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {resource.kind}: {why}'
    )


def _undecodable(resource: Resource, why: str, patched: Callable[[], str] | None) -> ApiError:
    """Return the refusal of a body or a patched object that is not of the resource's kind."""
    if patched is not None:
        return invalid("", "", "", [invalid_value("patch", patched(), why)])
    kind = resource.kind
    return bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
    )
