# SPDX-License-Identifier: Apache-2.0
"""Finds out which groups, versions and kinds a cluster serves; each answer is requested once and
then remembered."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.errors import MissingCapability
from conformance.kube.refused import ApiRefused

AGGREGATED = 3.0
"""Seconds for which the request for a listed group is repeated if the group's server does not
answer. The cluster is usable without this group, so other reads get more time."""


@dataclass(frozen=True)
class Resource:
    """The place where a kind is served: ``prefix`` is ``/api/v1`` or ``/apis/GROUP/VERSION``."""

    prefix: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]

    @property
    def api_version(self) -> str:
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")


class Discovery:
    """Discovery of one API server.  ``read`` is ``Kube.read``.  Thread-safe."""

    def __init__(self, read: Callable[..., Any]) -> None:
        self._read = read
        self._lock = threading.RLock()
        self._versions: tuple[str, ...] | None = None
        self._kinds: dict[str, dict[str, Resource]] = {}
        self.away: dict[str, str] = {}
        """The errors of group-versions that are listed, but whose server does not answer."""

    def refresh(self) -> None:
        """Forget all answers, since groups may have been installed or removed."""
        with self._lock:
            self._versions = None
            self._kinds.clear()
            self.away.clear()

    def group_versions(self) -> tuple[str, ...]:
        with self._lock:
            if self._versions is None:
                groups = self._read("/apis").get("groups") or []
                self._versions = (
                    "v1",
                    *(
                        version["groupVersion"]
                        for group in groups
                        for version in group.get("versions") or []
                    ),
                )
            return self._versions

    def kinds(self, api_version: str) -> dict[str, Resource]:
        """Return the kinds of a group-version; an empty mapping if the group-version is not served,
        or if it is registered but its server does not answer."""
        with self._lock:
            if api_version not in self._kinds:
                self._kinds[api_version] = self._load(api_version)
            return self._kinds[api_version]

    def _load(self, api_version: str) -> dict[str, Resource]:
        if api_version != "v1" and api_version not in self.group_versions():
            return {}
        prefix = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        try:
            found = self._resources(prefix) if api_version != "v1" else self._read(prefix)
        except ApiRefused as refusal:
            if api_version != "v1" and refusal.code >= 500:  # an aggregated API's server is down
                self.away[api_version] = f"{refusal.code} {refusal.message}".strip()
                return {}
            if refusal.code == 404:
                return {}
            raise
        return {
            item["kind"]: Resource(
                prefix,
                item["name"],
                item["kind"],
                bool(item["namespaced"]),
                tuple(item.get("verbs") or ()),
            )
            for item in found.get("resources") or []
            if "/" not in item["name"]
        }

    def _resources(self, prefix: str) -> Any:
        """Read the contents of a listed group. If the API server itself fails, wait for it as long
        as any read does; if only the group's server fails, at most AGGREGATED seconds."""
        try:
            return self._read(prefix, repeat=AGGREGATED)
        except ApiRefused as refusal:
            if refusal.code < 500:
                raise
        self._read("/apis")
        return self._read(prefix, repeat=False)

    def serves(self, api_version: str, kind: str | None = None) -> bool:
        """Return whether a group-version, or a kind in it, is served."""
        kinds = self.kinds(api_version)
        return bool(kinds) if kind is None else kind in kinds

    def resource(self, api_version: str, kind: str) -> Resource:
        """Return the resource under which a kind is served. Raise MissingCapability if the kind is
        not served."""
        try:
            return self.kinds(api_version)[kind]
        except KeyError:
            raise MissingCapability(
                f"the cluster does not serve {kind} of {api_version}",
                f"install the component that serves {api_version} (kubectl api-resources "
                f"--api-group={api_version.rpartition('/')[0] or 'core'} lists what is served)",
            ) from None
