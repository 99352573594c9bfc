# SPDX-License-Identifier: Apache-2.0
"""EndpointSlices and Endpoints of Services with a selector: which pods are behind a Service, and
which of them are ready.

The EndpointSlices of Services without a selector are written by their users, or copied from
Endpoints (``mirroring``).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.cache import Cache, Caches
from hybridlab.controllers.selectors import labels_of
from hybridlab.controllers.work import Work

SLICES = "endpointslices.discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_BY = ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io")

Key = tuple[str, str]
Ports = tuple[tuple[str, int, str], ...]
"""(name, number on the pod, protocol) of each port of a Service. Pods with the same numbers form a
group."""


class EndpointsController:
    """Updates EndpointSlices and Endpoints when pods become ready or end."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._services = caches.of("services")
        self._pods = caches.of("pods")
        self._slices = caches.of(SLICES)
        self._endpoints = caches.of("endpoints")
        self._work: Work[Key] = Work("endpoints", self._look, delay=0.002)
        self._services.subscribe(self._on_service)
        self._pods.subscribe(self._on_pod)
        self._slices.subscribe(self._on_slice)
        self._endpoints.subscribe(self._on_endpoints)

    def start(self) -> None:
        self._work.start()

    async def stop(self) -> None:
        await self._work.stop()

    def _on_service(self, new: Obj | None, old: Obj | None) -> None:
        service = new or old
        if service is not None:
            self._work.note((service["metadata"]["namespace"], service["metadata"]["name"]))

    def _on_pod(self, new: Obj | None, old: Obj | None) -> None:
        if new is not None and old is not None and _facts(new) == _facts(old):
            return  # no fact that a Service needs has changed
        namespace = (new or old or {"metadata": {"namespace": ""}})["metadata"]["namespace"]
        for service in self._services.within(namespace):
            selector = service["spec"].get("selector")
            if selector and any(pod is not None and _selects(selector, pod) for pod in (new, old)):
                self._work.note((namespace, service["metadata"]["name"]))

    def _on_slice(self, new: Obj | None, old: Obj | None) -> None:
        """Check a Service again after its slice changed, to undo the changes of other clients."""
        if old is not None and is_managed_by(MANAGED_BY[1], old):
            self._work.note((old["metadata"]["namespace"], labels_of(old)[SERVICE_LABEL]))

    def _on_endpoints(self, new: Obj | None, old: Obj | None) -> None:
        if new is None and old is not None:
            self._work.note((old["metadata"]["namespace"], old["metadata"]["name"]))

    async def _look(self, key: Key) -> None:
        namespace, name = key
        service = self._services.get(namespace, name)
        if service is None:
            await delete(self._client, "endpoints", namespace, name)  # slices follow their owner
            return
        selector = service["spec"].get("selector")
        if not selector or service["spec"].get("type") == "ExternalName":
            return
        pods = [
            pod for pod in self._pods.within(namespace) if _selects(selector, pod) and _counts(pod)
        ]
        groups = _groups(service, sorted(pods, key=lambda pod: str(pod["metadata"]["name"])))
        await self._write_slices(service, groups)
        await self._write_endpoints(service, groups)

    async def _write_slices(self, service: Obj, groups: dict[Ports, list[Obj]]) -> None:
        wanted = [
            _slice(
                service,
                {
                    "endpoints": [_endpoint(pod, service) for pod in pods],
                    "ports": _listed(ports),
                },
            )
            for ports, pods in groups.items()
        ]
        existing = slices_of(self._slices, service["metadata"], MANAGED_BY[1])
        await write_slices(self._client, existing, wanted)

    async def _write_endpoints(self, service: Obj, groups: dict[Ports, list[Obj]]) -> None:
        namespace = service["metadata"]["namespace"]
        name = service["metadata"]["name"]
        subsets = list(_subsets(service, groups))
        found = self._endpoints.get(namespace, name)
        if found is None:
            labels = {
                **labels_of(service),
                "endpoints.kubernetes.io/managed-by": "endpoint-controller",
            }
            meta = {"name": name, "namespace": namespace, "labels": labels}
            body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets}
            await self._client.create("endpoints", body, namespace)
        elif (found.get("subsets") or []) != subsets:
            await self._client.patch("endpoints", name, {"subsets": subsets or None}, namespace)


def _subsets(service: Obj, groups: dict[Ports, list[Obj]]) -> Iterator[Obj]:
    """Yield the subsets of a Service's Endpoints; pods that are ending are in none."""
    for ports, pods in groups.items():
        ready: Obj = {"addresses": [], "notReadyAddresses": []}
        for pod in pods:
            if not pod["metadata"].get("deletionTimestamp"):
                usable = _ready(pod) or _publishes(service)
                ready["addresses" if usable else "notReadyAddresses"].append(_address(pod))
        addresses = {field: listed for field, listed in ready.items() if listed}
        if addresses:
            yield {"ports": _listed(ports), **addresses}


def _listed(ports: Ports) -> list[Obj]:
    return [
        {"name": name, "port": number, "protocol": protocol} for name, number, protocol in ports
    ]


def is_managed_by(controller: str, slice_: Obj) -> bool:
    """Return whether this controller made the EndpointSlice for a Service."""
    labels = labels_of(slice_)
    return labels.get(MANAGED_BY[0]) == controller and SERVICE_LABEL in labels


def slices_of(slices: Cache, meta: Obj, controller: str) -> list[Obj]:
    """Return the EndpointSlices that a controller made for the Service or Endpoints with this
    metadata."""
    return [
        item
        for item in slices.within(meta["namespace"])
        if is_managed_by(controller, item) and labels_of(item)[SERVICE_LABEL] == meta["name"]
    ]


async def write_slices(client: Client, existing: list[Obj], wanted: list[Obj]) -> None:
    """Replace the existing EndpointSlices (of an address type) by the wanted slices."""
    for number, body in enumerate(wanted):
        namespace = body["metadata"]["namespace"]
        if number >= len(existing):
            await client.create(SLICES, body, namespace)
            continue
        found = existing[number]
        content = {"endpoints": body["endpoints"], "ports": body["ports"]}
        if any(found.get(field) != value for field, value in content.items()):
            await client.patch(SLICES, found["metadata"]["name"], content, namespace)
    for extra in existing[len(wanted) :]:
        await delete(client, SLICES, extra["metadata"]["namespace"], extra["metadata"]["name"])


async def delete(client: Client, resource: str, namespace: str, name: str) -> None:
    """Delete an object that may not exist any more."""
    try:
        await client.delete(resource, name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise


def _slice(service: Obj, content: Obj) -> Obj:
    meta = service["metadata"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "metadata": {
            "generateName": f"{meta['name']}-",
            "namespace": meta["namespace"],
            "labels": {
                **labels_of(service),
                SERVICE_LABEL: meta["name"],
                MANAGED_BY[0]: MANAGED_BY[1],
            },
            "ownerReferences": [owner("Service", meta)],
        },
        **content,
    }


def owner(kind: str, meta: Obj) -> Obj:
    """Return a reference to the core/v1 object that controls an EndpointSlice."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _groups(service: Obj, pods: Iterable[Obj]) -> dict[Ports, list[Obj]]:
    """Return pods by the ports they serve: one group, unless pods give a named target port
    different numbers."""
    groups: dict[Ports, list[Obj]] = defaultdict(list)
    for pod in pods:
        ports = [
            (port.get("name", ""), number, port.get("protocol", "TCP"))
            for port in service["spec"].get("ports") or []
            if (number := _target_port(port, pod)) is not None
        ]
        if ports or not service["spec"].get("ports"):
            groups[tuple(ports)].append(pod)
    return groups or {(): []}


def _target_port(port: Obj, pod: Obj) -> int | None:
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    for container in pod["spec"]["containers"]:
        for item in container.get("ports") or []:
            if item.get("name") == target and item.get("protocol", "TCP") == port.get(
                "protocol", "TCP"
            ):
                return int(item["containerPort"])
    return None


def _endpoint(pod: Obj, service: Obj) -> Obj:
    terminating = bool(pod["metadata"].get("deletionTimestamp"))
    serving = _ready(pod)
    ready = (serving and not terminating) or _publishes(service)
    endpoint: Obj = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "nodeName": pod["spec"]["nodeName"],
        "targetRef": _reference(pod),
    }
    if _named_in(pod, service):
        endpoint["hostname"] = pod["spec"]["hostname"]
    return endpoint


def _address(pod: Obj) -> Obj:
    return {
        "ip": pod["status"]["podIP"],
        "nodeName": pod["spec"]["nodeName"],
        "targetRef": _reference(pod),
    }


def _reference(pod: Obj) -> Obj:
    meta = pod["metadata"]
    return {"kind": "Pod", "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}


def _named_in(pod: Obj, service: Obj) -> bool:
    return (
        bool(pod["spec"].get("hostname"))
        and pod["spec"].get("subdomain") == service["metadata"]["name"]
    )


def _publishes(service: Obj) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses"))


def _selects(selector: dict[str, str], pod: Obj) -> bool:
    labels = labels_of(pod)
    return all(labels.get(key) == value for key, value in selector.items())


def _counts(pod: Obj) -> bool:
    status = pod.get("status") or {}
    return bool(status.get("podIP")) and status.get("phase") not in {"Succeeded", "Failed"}


def _ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _facts(pod: Obj) -> tuple[Any, ...]:
    """Return the properties of a pod that decide about its place in a Service's endpoints."""
    meta = pod["metadata"]
    status = pod.get("status") or {}
    return (
        meta["uid"],
        meta.get("labels"),
        bool(meta.get("deletionTimestamp")),
        status.get("podIP"),
        status.get("phase"),
        _ready(pod),
        pod["spec"].get("nodeName"),
    )
