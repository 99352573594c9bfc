# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents, made from the shapes (``api.schemas``). ``kubectl apply``, ``kubectl explain``
and kubectl's validation need them.

Descriptions are left out; types, required fields, list keys and patch strategies are included.
"""

from collections.abc import Mapping
from typing import Any, Final

from hybridlab.api.contract import Obj
from hybridlab.api.errors import no_such_resource
from hybridlab.api.resources import Catalogue, Resource
from hybridlab.api.schemas.shapes import Shape, shape_name, shapes

_SCALARS: Final[Mapping[str, Obj]] = {
    "s": {"type": "string"},
    "i": {"type": "integer"},
    "n": {"type": "number"},
    "b": {"type": "boolean"},
    "I": {"x-kubernetes-int-or-string": True, "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "t": {"type": "string", "format": "date-time"},
    "T": {"type": "string", "format": "date-time"},
    "q": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "y": {"type": "string", "format": "byte"},
    "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_PATCH_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
    for name, kind in (
        ("dryRun", "string"),
        ("fieldManager", "string"),
        ("fieldValidation", "string"),
        ("force", "boolean"),
    )
]


class OpenApi:
    """Makes the documents when they are requested."""

    def __init__(self, catalogue: Catalogue, version: str) -> None:
        self._catalogue = catalogue
        self._version = version

    def index(self) -> Obj:
        """Return the location of the document of each group and version."""
        paths = {}
        for group, version in sorted(
            {(resource.group, resource.version) for resource in self._catalogue}
        ):
            place = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[place] = {
                "serverRelativeURL": f"/openapi/v3/{place}?hash={self._catalogue.generation}"
            }
        return {"paths": paths}

    def group_document(self, group: str, version: str) -> Obj:
        resources = [
            item for item in self._catalogue if (item.group, item.version) == (group, version)
        ]
        if not resources:
            raise no_such_resource()
        schemas: dict[str, Obj] = {}
        paths: dict[str, Obj] = {}
        for resource in resources:
            root = self._root(resource, schemas, "#/components/schemas/")
            paths.update(_paths(resource, f"#/components/schemas/{root}"))
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._version},
            "paths": paths,
            "components": {"schemas": schemas},
        }

    def swagger(self) -> Obj:
        """Return the OpenAPI v2 document of all served resources."""
        schemas: dict[str, Obj] = {}
        paths: dict[str, Obj] = {}
        for resource in self._catalogue:
            root = self._root(resource, schemas, "#/definitions/")
            for path, operations in _paths(resource, f"#/definitions/{root}").items():
                paths[path] = {
                    name: _old_style(operation) for name, operation in operations.items()
                }
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": self._version},
            "paths": paths,
            "definitions": {name: _without_unions(schema) for name, schema in schemas.items()},
        }

    def _root(self, resource: Resource, schemas: dict[str, Obj], prefix: str) -> str:
        """Add the schemas of a resource's kind and of all types in it; return the kind's name."""
        shape = shapes().get(shape_name(resource.storage_version, resource.storage_kind))
        if resource.storage == "events":
            shape = shapes().get(shape_name(resource.api_version, resource.kind))
        identity = [{"group": resource.group, "kind": resource.kind, "version": resource.version}]
        if shape is not None:
            name = _name(shape.name, resource.group)
            self._add(shape, schemas, prefix, name, resource.group)
        else:
            reversed_group = ".".join(reversed(resource.group.split(".")))
            name = f"{reversed_group}.{resource.version}.{resource.kind}"
            metadata = shapes().named("V1ObjectMeta")
            self._add(metadata, schemas, prefix, _name(metadata.name, ""), "")
            schema: Obj = dict(
                resource.structural or {"x-kubernetes-preserve-unknown-fields": True}
            )
            properties = dict(schema.get("properties") or {})
            properties.update(
                {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"$ref": prefix + _name(metadata.name, "")},
                }
            )
            schemas[name] = {**schema, "type": "object", "properties": properties}
        schemas[name]["x-kubernetes-group-version-kind"] = identity
        return name

    def _add(
        self, shape: Shape, schemas: dict[str, Obj], prefix: str, name: str, group: str
    ) -> None:
        if name in schemas:
            return
        schema: Obj = {"type": "object", "properties": {}}
        schemas[name] = schema
        if shape.required:
            schema["required"] = list(shape.required)
        if shape.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        for key, code in shape.codes.items():
            part = self._part(code, schemas, prefix, group)
            rule = shape.lists.get(key)
            if rule is not None:
                part["x-kubernetes-list-type"] = "set" if rule.is_set else "map"
                part["x-kubernetes-patch-strategy"] = (
                    "merge,retainKeys" if rule.retain_keys else "merge"
                )
                if not rule.is_set:
                    part["x-kubernetes-list-map-keys"] = list(rule.keys)
                    part["x-kubernetes-patch-merge-key"] = rule.patch_key
            elif code[0] == "[":
                part["x-kubernetes-list-type"] = "atomic"
            schema["properties"][key] = part

    def _part(self, code: str, schemas: dict[str, Obj], prefix: str, group: str) -> Obj:
        if code[0] == "[":
            return {"type": "array", "items": self._part(code[1:], schemas, prefix, group)}
        if code[0] == "{":
            return {
                "type": "object",
                "additionalProperties": self._part(code[1:], schemas, prefix, group),
            }
        if code[0] == ".":
            inner = shapes().named(code[1:])
            name = _name(inner.name, group)
            self._add(inner, schemas, prefix, name, group)
            return {"$ref": prefix + name}
        return dict(_SCALARS[code])


def _name(shape: str, group: str) -> str:
    """Return the name of a type; ``kubectl explain`` shows its last part."""
    for prefix in ("CoreV1", "EventsV1", "RbacV1", "DiscoveryV1", "AuthenticationV1", "V1", "V3"):
        if shape.startswith(prefix):
            home = "io.projectcalico.v3" if prefix == "V3" else "io.k8s.api.v1"
            kind = prefix.removesuffix("V1").removesuffix("V3").lower()
            return ".".join(part for part in (home, kind, shape[len(prefix) :]) if part)
    return f"io.k8s.api.{shape}"


def _paths(resource: Resource, reference: str) -> dict[str, Obj]:
    """Return the paths of a resource with the parts that clients read to find out whether a verb
    takes a parameter."""
    root = (
        f"/apis/{resource.group}/{resource.version}"
        if resource.group
        else f"/api/{resource.version}"
    )
    if resource.namespaced:
        root += "/namespaces/{namespace}"
    identity = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    answer = {
        "200": {
            "description": "OK",
            "content": {"application/json": {"schema": {"$ref": reference}}},
        }
    }
    found: dict[str, Obj] = {}
    for verb, method, suffix in (
        ("create", "post", ""),
        ("update", "put", "/{name}"),
        ("patch", "patch", "/{name}"),
        ("get", "get", "/{name}"),
    ):
        if verb in resource.verbs:
            action = {"create": "post", "update": "put"}.get(verb, verb)
            operation: Obj = {
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": identity,
                "responses": answer,
            }
            if verb != "get":
                operation["parameters"] = _PATCH_PARAMETERS
            found.setdefault(f"{root}/{resource.plural}{suffix}", {})[method] = operation
    return found


def _old_style(operation: Obj) -> Obj:
    """Return an OpenAPI v3 operation as an OpenAPI v2 operation."""
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    changed = {**operation, "responses": {"200": {"description": "OK", "schema": schema}}}
    if "parameters" in operation:
        changed["parameters"] = [
            {"name": item["name"], "in": "query", "type": item["schema"]["type"]}
            for item in operation["parameters"]
        ]
    return changed


def _without_unions(schema: Any) -> Any:
    """Return a schema without oneOf, which OpenAPI v2 lacks. As on the real server, a field with
    oneOf becomes a string."""
    if isinstance(schema, dict):
        if "oneOf" in schema:
            return {"type": "string", "format": "int-or-string"}
        return {key: _without_unions(value) for key, value in schema.items()}
    return [_without_unions(item) for item in schema] if isinstance(schema, list) else schema
