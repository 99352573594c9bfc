# SPDX-License-Identifier: Apache-2.0
"""The served groups, versions and resources, in the three formats that clients request."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hybridlab.api.contract import Obj
from hybridlab.api.errors import NoSuchPage, no_such_resource
from hybridlab.api.kinds.definitions import version_order
from hybridlab.api.resources import Catalogue, Resource

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_GROUP_ORDER: Final = (
    # A plural that several groups have means the first of these groups: aggregated servers precede
    # CustomResourceDefinitions.
    "", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
    "autoscaling", "batch", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "apiextensions.k8s.io",
    "coordination.k8s.io", "discovery.k8s.io", "projectcalico.org",
)  # fmt: skip

_CHANGE = ("get", "patch", "update")
_ALL_METHODS = ("create", "delete", "get", "patch", "update")
_SUBRESOURCES: Final[Mapping[str, tuple[str, str, str, tuple[str, ...]]]] = {
    # kind, group, version, verbs; an empty kind is the kind of the resource itself
    "status": ("", "", "", _CHANGE),
    "ephemeralcontainers": ("", "", "", _CHANGE),
    "finalize": ("", "", "", ("update",)),
    "log": ("", "", "", ("get",)),
    "exec": ("PodExecOptions", "", "v1", ("create", "get")),
    "attach": ("PodAttachOptions", "", "v1", ("create", "get")),
    "portforward": ("PodPortForwardOptions", "", "v1", ("create", "get")),
    "binding": ("Binding", "", "v1", ("create",)),
    "eviction": ("Eviction", "policy", "v1", ("create",)),
    "scale": ("Scale", "autoscaling", "v1", _CHANGE),
    "token": ("TokenRequest", "authentication.k8s.io", "v1", ("create",)),
}


def verbs_of(resource: Resource, subresource: str) -> tuple[str, ...]:
    """Return the verbs of a resource, or of its subresource."""
    return _subresource(resource, subresource)[3] if subresource else resource.verbs


def _subresource(resource: Resource, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    if name == "proxy":
        return f"{resource.kind}ProxyOptions", "", "v1", _ALL_METHODS
    kind, group, version, verbs = _SUBRESOURCES[name]
    if not kind:
        return resource.kind, resource.group, resource.version, verbs
    return kind, group, version, verbs


class Discovery:
    """Answers discovery requests from the catalogue."""

    def __init__(self, catalogue: Catalogue, server_address: str) -> None:
        self._catalogue = catalogue
        self._address = server_address
        self._made: dict[str, Any] = {}
        self._generation = -1

    def _cached(self, key: str, make: Any) -> Any:
        if self._generation != self._catalogue.generation:
            self._generation = self._catalogue.generation
            self._made.clear()
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def answer(self, path: str, *, aggregated: bool) -> tuple[Obj, bool] | None:
        """Return the document for a path, and whether it has the aggregated form; None if it is no
        discovery path."""
        parts = [part for part in path.split("/") if part]
        if parts in (["api"], ["apis"]) and aggregated:
            core = parts == ["api"]
            return self._cached(f"{path} aggregated", lambda: self._aggregated(core=core)), True
        match parts:
            case ["api"]:
                return self._versions(), False
            case ["apis"]:
                return self._cached("/apis", self._groups), False
            case ["api", version]:
                return self._cached(f"/{version}", lambda: self._resources("", version)), False
            case ["apis", group]:
                return self._cached(f"/{group}", lambda: self._group_or_404(group)), False
            case ["apis", group, version]:
                return self._cached(
                    f"/{group}/{version}", lambda: self._resources(group, version)
                ), False
        return None

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each group, in the order of preference."""
        found: dict[str, list[str]] = {}
        for resource in self._catalogue:
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        for versions in found.values():
            versions.sort(key=version_order)
        known = {group: place for place, group in enumerate(_GROUP_ORDER)}
        return dict(
            sorted(found.items(), key=lambda item: (known.get(item[0], len(known)), item[0]))
        )

    def _of(self, group: str, version: str) -> list[Resource]:
        return [item for item in self._catalogue if (item.group, item.version) == (group, version)]

    def _versions(self) -> Obj:
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}

    def _group(self, group: str, versions: Iterable[str]) -> Obj:
        listed = [
            {"groupVersion": f"{group}/{version}", "version": version} for version in versions
        ]
        return {"name": group, "versions": listed, "preferredVersion": listed[0]}

    def _groups(self) -> Obj:
        groups = [
            self._group(group, versions) for group, versions in self.groups().items() if group
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group_or_404(self, group: str) -> Obj:
        versions = self.groups().get(group)
        if not versions or not group:
            raise NoSuchPage
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group, versions)}

    def _resources(self, group: str, version: str) -> Obj:
        resources = self._of(group, version)
        if not resources:
            raise NoSuchPage if group else no_such_resource()
        listed: list[Obj] = []
        for resource in resources:
            entry: Obj = {
                "name": resource.plural,
                "singularName": resource.singular,
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": list(resource.verbs),
            }
            if resource.short_names:
                entry["shortNames"] = list(resource.short_names)
            if resource.categories:
                entry["categories"] = list(resource.categories)
            listed.append(entry)
            for name in resource.subresources:
                kind, sub_group, sub_version, verbs = _subresource(resource, name)
                part: Obj = {
                    "name": f"{resource.plural}/{name}",
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    "kind": kind,
                    "verbs": list(verbs),
                }
                if (sub_group, sub_version) != (group, version):
                    part.update({"group": sub_group, "version": sub_version})
                listed.append(part)
        group_version = f"{group}/{version}" if group else version
        # the core group's list has no apiVersion on a real server either
        version_of_list = {"apiVersion": "v1"} if group else {}
        return {
            "kind": "APIResourceList",
            **version_of_list,
            "groupVersion": group_version,
            "resources": listed,
        }

    def _aggregated(self, *, core: bool) -> Obj:
        items = []
        for group, versions in self.groups().items():
            if core != (group == ""):
                continue
            listed = [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [
                        self._aggregated_resource(resource) for resource in self._of(group, version)
                    ],
                }
                for version in versions
            ]
            items.append({"metadata": {"name": group} if group else {}, "versions": listed})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }

    @staticmethod
    def _aggregated_resource(resource: Resource) -> Obj:
        entry: Obj = {
            "resource": resource.plural,
            "responseKind": {"group": "", "version": "", "kind": resource.kind},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        if resource.subresources:
            entry["subresources"] = []
            for name in sorted(resource.subresources):
                kind, group, version, verbs = _subresource(resource, name)
                own = (group, version) == (resource.group, resource.version)
                shown = {
                    "group": "" if own else group,
                    "version": "" if own else version,
                    "kind": kind,
                }
                entry["subresources"].append(
                    {"subresource": name, "responseKind": shown, "verbs": list(verbs)}
                )
        return entry
