# SPDX-License-Identifier: Apache-2.0
"""Which groups, versions and kinds a cluster serves, asked when first needed and then
remembered."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.errors import MissingCapability
from conformance.kube.refused import ApiRefused


@dataclass(frozen=True)
class Resource:
    """Where a kind is served: ``prefix`` is ``/api/v1`` or ``/apis/GROUP/VERSION``."""

    prefix: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]

    @property
    def api_version(self) -> str:
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")


class Discovery:
    """Discovery of one API server.  ``read`` is a GET that answers JSON.  Thread-safe."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read
        self._lock = threading.RLock()
        self._versions: tuple[str, ...] | None = None
        self._kinds: dict[str, dict[str, Resource]] = {}

    def refresh(self) -> None:
        """Forget everything: groups may have been installed or removed."""
        with self._lock:
            self._versions = None
            self._kinds.clear()

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
        """Kinds of a group-version; empty when it is not served, or is registered but its server
        does not answer."""
        with self._lock:
            if api_version not in self._kinds:
                self._kinds[api_version] = self._load(api_version)
            return self._kinds[api_version]

    def _load(self, api_version: str) -> dict[str, Resource]:
        if api_version != "v1" and api_version not in self.group_versions():
            return {}
        prefix = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        try:
            found = self._read(prefix).get("resources") or []
        except ApiRefused as refusal:
            if refusal.code in (404, 503):  # an aggregated API whose server is down answers 503
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
            for item in found
            if "/" not in item["name"]
        }

    def serves(self, api_version: str, kind: str | None = None) -> bool:
        """Whether a group-version, or a kind in it, is served."""
        kinds = self.kinds(api_version)
        return bool(kinds) if kind is None else kind in kinds

    def resource(self, api_version: str, kind: str) -> Resource:
        """Where a kind is served.  Raises MissingCapability."""
        try:
            return self.kinds(api_version)[kind]
        except KeyError:
            raise MissingCapability(
                f"the cluster does not serve {kind} of {api_version}",
                f"install what serves {api_version} (kubectl api-resources --api-group="
                f"{api_version.rpartition('/')[0] or 'core'} shows what is there)",
            ) from None
