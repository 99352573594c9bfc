# SPDX-License-Identifier: Apache-2.0
"""Calico's operator: writes Calico's workloads from Installation and FelixConfiguration, and
reverts edits of them.

It follows FelixConfiguration ``default``, and the Service networks and BGP of Installation
``default``. When one of them changes, it renders calico-node-windows and the Windows CNI
configuration again; DaemonSets then roll. It works as long as its own Deployment has a ready pod.
Other fields of an Installation, such as node images or resource requests, change nothing here.
"""

from collections.abc import Mapping
from typing import Any

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.work import Controller, Work
from hybridlab.controllers.workloads import Workloads
from hybridlab.profiles.model import Profile

INSTALLATIONS = "installations.operator.tigera.io"
RENDERED = ("daemonsets.apps", "deployments.apps", "configmaps")
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""The annotation of ``kubectl rollout restart``; the operator keeps it."""
OWN = ("tigera-operator", "tigera-operator")
DELAY = 0.005

Key = tuple[str, str, str]
"""Resource, namespace, name."""


class Operator(Controller):
    """The operator; start it after its objects have been created for the first time."""

    def __init__(
        self, client: Client, caches: Caches, profile: Profile, workloads: Workloads
    ) -> None:
        self._client = client
        self._workloads = workloads
        group = "crd.projectcalico.org" if profile.calico.crd_v1_api else "projectcalico.org"
        self._felix = caches.of(f"felixconfigurations.{group}")
        self._installations = caches.of(INSTALLATIONS)
        self._caches = {resource: caches.of(resource) for resource in RENDERED}
        self._wanted: dict[Key, Obj] = {}
        self._as_laid: dict[Key, Any] = {}
        """Maps each rendered object to the part that the operator controls, as the API returned it
        with all defaults."""
        self.work = Work("operator", self._sync, delay=DELAY)

    def start(self) -> None:
        """Take the existing objects as the operator's own, then follow changes."""
        self._wanted = self._render()
        for key in self._wanted:
            current = self._caches[key[0]].get(key[1], key[2])
            if current is not None:
                self._as_laid[key] = _content(current)
        super().start()
        self._felix.subscribe(lambda new, old: self._everything())
        self._installations.subscribe(lambda new, old: self._everything())
        for resource, cache in self._caches.items():
            cache.subscribe(lambda new, old, resource=resource: self._on_owned(resource, new, old))  # type: ignore[misc]

    def _everything(self) -> None:
        for resource, namespace, name in self._wanted:
            self.work.note((resource, f"{namespace}/{name}"))

    def _on_owned(self, resource: str, new: Obj | None, old: Obj | None) -> None:
        meta = (new or old or {})["metadata"]
        namespace = meta.get("namespace", "")
        name = meta["name"]
        if (namespace, name) == OWN:
            self._everything()
        elif (resource, namespace, name) in self._wanted:
            self.work.note((resource, f"{namespace}/{name}"))

    def _running(self) -> bool:
        own = self._caches["deployments.apps"].get(*OWN)
        return bool(own and (own.get("status") or {}).get("readyReplicas"))

    def _render(self) -> dict[Key, Obj]:
        """Return the objects that the current FelixConfiguration and Installation require."""
        felix = (self._felix.get("", "default") or {}).get("spec") or {}
        installation = (self._installations.get("", "default") or {}).get("spec") or {}
        return {
            (resource, obj["metadata"]["namespace"], obj["metadata"]["name"]): obj
            for resource, obj in self._workloads.rendered(installation, felix)
            if resource in RENDERED
            and obj["metadata"]["namespace"] in {"calico-system", "calico-apiserver"}
        }

    async def _sync(self, noted: tuple[str, str]) -> None:
        resource = noted[0]
        (namespace, _, name) = noted[1].partition("/")
        if not self._running():
            return
        key = (resource, namespace, name)
        wanted = self._render().get(key)
        if wanted is None:
            return
        current = self._caches[resource].get(namespace, name)
        if current is None:
            try:
                made = await self._client.create(resource, wanted, namespace)
            except ApiError as error:
                if error.code != 409:
                    raise
                return
        elif wanted == self._wanted.get(key) and _content(current) == self._as_laid.get(key):
            return
        else:
            # read again: while a DaemonSet rolls out, its status changes faster than the cache
            now = await self._client.get(resource, name, namespace)
            made = await self._client.replace(
                resource, {**now, **_laid_over(now, wanted)}, namespace
            )
        self._as_laid[key] = _content(made)
        self._wanted[key] = wanted


def _content(obj: Obj) -> Any:
    """Return the part of an object that the operator controls."""
    if obj.get("kind") == "ConfigMap" or "data" in obj:
        return obj.get("data")
    return _without_restart(obj["spec"])


def _without_restart(spec: Mapping[str, Any]) -> dict[str, Any]:
    template = spec["template"]
    annotations = {
        k: v
        for k, v in (template["metadata"].get("annotations") or {}).items()
        if k != RESTARTED_AT
    }
    metadata = {**template["metadata"], "annotations": annotations or None}
    return {**spec, "template": {**template, "metadata": metadata}}


def _laid_over(current: Obj, wanted: Obj) -> Obj:
    """Return the part of ``wanted`` that replaces the part of ``current``, with ``current``'s
    annotation of a restart that a user requested."""
    if "data" in wanted:
        return {"data": wanted["data"]}
    spec = wanted["spec"]
    marked = (current["spec"]["template"]["metadata"].get("annotations") or {}).get(RESTARTED_AT)
    if marked:
        metadata = {**spec["template"]["metadata"], "annotations": {RESTARTED_AT: marked}}
        spec = {**spec, "template": {**spec["template"], "metadata": metadata}}
    return {"spec": spec}
