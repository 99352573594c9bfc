# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions: their defaults, their checks, and serving the defined kinds at once.

Structural schemas are applied (``schemas/structural.py``); validation rules in CEL and conversion
webhooks are not emulated, and a definition that uses them is refused rather than applied in part.
"""

from collections.abc import Callable, Iterable
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, invalid_value, required
from hybridlab.api.kinds.strategy import (
    Strategy,
    dns_1035_problem,
    fill,
    path_segment_problem,
    subdomain_problem,
)
from hybridlab.api.kinds.values import invalid_if, malformed, one_of, unchanged
from hybridlab.api.lifecycle import timestamp
from hybridlab.api.resources import CUSTOM_VERBS, Catalogue, Resource
from hybridlab.api.store import Change, Key, Store

STORAGE = "customresourcedefinitions.apiextensions.k8s.io"


class DefinitionStrategy(Strategy):
    """The rules of CustomResourceDefinitions."""

    unconditional_update = False

    def default(self, obj: Obj) -> None:
        names = obj["spec"]["names"]
        fill(names, singular=names["kind"].lower(), listKind=f"{names['kind']}List")
        obj["spec"].setdefault("conversion", {"strategy": "None"})

    def prepare_create(self, obj: Obj) -> None:
        spec = obj["spec"]
        now = timestamp()
        obj["status"] = {
            "conditions": [
                {
                    "type": "NamesAccepted",
                    "status": "True",
                    "reason": "NoConflicts",
                    "message": "no conflicts found",
                    "lastTransitionTime": now,
                },
                {
                    "type": "Established",
                    "status": "True",
                    "reason": "InitialNamesAccepted",
                    "message": "the initial names have been accepted",
                    "lastTransitionTime": now,
                },
            ],
            "acceptedNames": spec["names"],
            "storedVersions": [item["name"] for item in spec["versions"] if item.get("storage")],
        }

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        spec = obj["spec"]
        names = spec["names"]
        name = obj["metadata"]["name"]
        yield from invalid_if(
            name != f"{names['plural']}.{spec['group']}",
            "metadata.name",
            name,
            'must be spec.names.plural+"."+spec.group',
        )
        yield from malformed("spec.group", spec["group"], subdomain_problem(spec["group"]))
        yield from one_of("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
        if old is not None:
            yield from unchanged("spec.scope", spec["scope"], old["spec"]["scope"])
        approved = "api-approved.kubernetes.io"
        is_protected = spec["group"].endswith((".k8s.io", ".kubernetes.io"))
        if is_protected and not (obj["metadata"].get("annotations") or {}).get(approved):
            detail = f'protected groups must have approval annotation "{approved}"'
            link = "see https://github.com/kubernetes/enhancements/pull/1111"
            yield required(f"metadata.annotations[{approved}]", f"{detail}, {link}")
        versions = spec["versions"]
        yield from invalid_if(
            sum(bool(item.get("storage")) for item in versions) != 1,
            "spec.versions",
            "",
            "must have exactly one version marked as storage version",
        )
        conversion = spec["conversion"].get("strategy")
        yield from invalid_if(
            conversion != "None",
            "spec.conversion.strategy",
            conversion,
            "not emulated: conversion webhooks",
        )
        for index, version in enumerate(versions):
            at = f"spec.versions[{index}]"
            yield from malformed(f"{at}.name", version["name"], dns_1035_problem(version["name"]))
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if schema is None:
                yield required(f"{at}.schema.openAPIV3Schema")
            elif place := _cel(schema, f"{at}.schema.openAPIV3Schema"):
                yield invalid_value(place, "", "not emulated: validation rules in CEL")


def _cel(schema: Any, at: str) -> str | None:
    """Return where a schema has validation rules in CEL, or None."""
    if isinstance(schema, dict):
        if "x-kubernetes-validations" in schema:
            return f"{at}.x-kubernetes-validations"
        for key, value in schema.items():
            if found := _cel(value, f"{at}.{key}"):
                return found
    return None


class RegistrationStrategy(Strategy):
    """The rules of APIServices: their names end in a dot for the core group."""

    counts_generations = False
    unconditional_update = False

    def name_problem(self, name: str) -> str | None:
        return path_segment_problem(name)


class Definitions:
    """Keeps the catalogue consistent with the stored CustomResourceDefinitions."""

    def __init__(
        self, store: Store, catalogue: Catalogue, later: Callable[[Callable[[], None]], None]
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._later = later
        self.built_in: set[str] = set()
        """The names of the definitions whose resources are in the catalogue from the start."""
        store.listeners.append(self._on_change)

    def _on_change(self, bucket: str, key: Key, change: Change) -> None:
        if bucket != STORAGE or (key[1] in self.built_in and change.type == "ADDED"):
            return
        if change.type == "DELETED":
            served = next(
                (resource for resource in self._catalogue if resource.name == key[1]), None
            )
            self._catalogue.remove(key[1])
            self.built_in.discard(key[1])
            if served is not None:
                storage = served.storage
                self._later(lambda: self._purge(storage))
        elif change.previous is None or change.previous["spec"] != change.object["spec"]:
            self._catalogue.remove(key[1])
            for resource in resources_of(change.object):
                self._catalogue.add(resource)

    def _purge(self, storage: str) -> None:
        """Remove the objects of a kind that is no longer served."""
        for obj in self._store.bucket(storage).within(None):
            self._store.remove(
                storage, (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            )


def resources_of(definition: Obj) -> list[Resource]:
    """Return the resources that a CustomResourceDefinition defines, the newest version first."""
    spec = definition["spec"]
    names = spec["names"]
    group = spec["group"]
    stored = next(item["name"] for item in spec["versions"] if item.get("storage"))
    found = []
    for version in sorted(spec["versions"], key=lambda item: version_order(item["name"])):
        if not version.get("served", True):
            continue
        subresources = version.get("subresources") or {}
        found.append(
            Resource(
                group=group,
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                singular=names.get("singular") or names["kind"].lower(),
                namespaced=spec["scope"] == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=tuple(name for name in ("status", "scale") if name in subresources),
                storage=f"{names['plural']}.{group}",
                storage_kind=names["kind"],
                storage_version=f"{group}/{stored}",
                fields=tuple(
                    item["jsonPath"].lstrip(".") for item in version.get("selectableFields") or ()
                ),
                by_crd=True,
                verbs=CUSTOM_VERBS,
                columns=tuple(version.get("additionalPrinterColumns") or ()),
                scale=subresources.get("scale"),
                structural=(version.get("schema") or {}).get("openAPIV3Schema"),
            )
        )
    return found


def version_order(version: str) -> tuple[int, int, int]:
    """Sort versions as Kubernetes prefers them: v2, v1, v1beta2, v1beta1, v1alpha1."""
    rest = version.removeprefix("v")
    for rank, stage in ((1, "beta"), (2, "alpha")):
        major, found, minor = rest.partition(stage)
        if found:
            return rank, -int(major or 0), -int(minor or 0)
    return 0, -int(rest) if rest.isdigit() else 0, 0
