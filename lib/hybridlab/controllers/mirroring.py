# SPDX-License-Identifier: Apache-2.0
"""EndpointSlices for hand-written Endpoints of a Service without a selector.

The rules are those of kube-controller-manager (``pkg/controller/endpointslicemirroring``): it
ignores Endpoints of leader elections, Endpoints with the label that forbids mirroring, and
Endpoints of Services with a selector.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from hybridlab.api.contract import Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.endpoints import (
    MANAGED_BY,
    SERVICE_LABEL,
    SLICES,
    is_managed_by,
    owner,
    slices_of,
    write_slices,
)
from hybridlab.controllers.selectors import labels_of
from hybridlab.controllers.work import Controller, Work

FAMILIES: Final = ("IPv4", "IPv6")
MIRROR: Final = "endpointslicemirroring-controller.k8s.io"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED: Final = frozenset(
    {
        "endpoints.kubernetes.io/last-change-trigger-time",
        "kubectl.kubernetes.io/last-applied-configuration",
    }
)


class EndpointsMirroring(Controller):
    """Keeps a copy of custom Endpoints as EndpointSlices."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._services = caches.of("services")
        self._endpoints = caches.of("endpoints")
        self._slices = caches.of(SLICES)
        self.work = Work("endpoints mirroring", self._look, delay=0.002)
        self._services.subscribe(self._note)
        self._endpoints.subscribe(self._note)
        self._slices.subscribe(self._on_slice)

    def _note(self, new: Obj | None, old: Obj | None) -> None:
        meta = (new or old or {})["metadata"]
        self.work.note((meta["namespace"], meta["name"]))

    def _on_slice(self, new: Obj | None, old: Obj | None) -> None:
        if old is not None and is_managed_by(MIRROR, old):
            self.work.note((old["metadata"]["namespace"], labels_of(old)[SERVICE_LABEL]))

    async def _look(self, key: tuple[str, str]) -> None:
        service = self._services.get(*key)
        endpoints = self._endpoints.get(*key)
        existing = slices_of(self._slices, {"namespace": key[0], "name": key[1]}, MIRROR)
        wanted: list[Obj] = []
        if service is not None and endpoints is not None and not service["spec"].get("selector"):
            wanted = list(_mirrored(endpoints))
        for family in FAMILIES:
            await write_slices(
                self._client,
                [item for item in existing if item["addressType"] == family],
                [item for item in wanted if item["addressType"] == family],
            )


def _mirrored(endpoints: Obj) -> Iterator[Obj]:
    """Yield the EndpointSlices of Endpoints: one for each set of ports and family of addresses."""
    annotations = endpoints["metadata"].get("annotations") or {}
    if labels_of(endpoints).get(SKIP) == "true" or _LEADER in annotations:
        return
    for subset in endpoints.get("subsets") or ():
        found = [*_endpoints(subset, "addresses"), *_endpoints(subset, "notReadyAddresses")]
        for family in FAMILIES:
            of_family = [
                item for item in found if (":" in item["addresses"][0]) == (family == "IPv6")
            ]
            if of_family:
                ports = [{"name": "", **port} for port in subset.get("ports") or ()]
                content = {"addressType": family, "ports": ports, "endpoints": of_family}
                yield {**_head(endpoints["metadata"], annotations), **content}


def _head(meta: Obj, annotations: Mapping[str, str]) -> Obj:
    """Return an EndpointSlice of Endpoints without its content."""
    labels = {**(meta.get("labels") or {}), SERVICE_LABEL: meta["name"], MANAGED_BY[0]: MIRROR}
    about: Obj = {
        "generateName": f"{meta['name']}-",
        "namespace": meta["namespace"],
        "labels": labels,
        "ownerReferences": [owner("Endpoints", meta)],
    }
    if copied := {key: value for key, value in annotations.items() if key not in _NOT_COPIED}:
        about["annotations"] = copied
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": about}


def _endpoints(subset: Obj, group: str) -> Iterator[Obj]:
    for address in subset.get(group) or ():
        more = {
            key: address[key] for key in ("nodeName", "targetRef", "hostname") if address.get(key)
        }
        yield {"addresses": [address["ip"]], "conditions": {"ready": group == "addresses"}, **more}
