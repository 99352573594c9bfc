"""Endpoints and EndpointSlices follow the pods that a Service selects; Endpoints made by hand are mirrored.

One slice per Service and set of resolved ports, however many endpoints: the lab's Services are small.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from typing import Any

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.cache import Cache, Caches
from hybridlab.controllers.owned import Owned, owner_reference, ready_since
from hybridlab.controllers.selectors import labels_of
from hybridlab.controllers.work import Work

SLICES = "endpointslices.discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
MIRROR = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
HEADLESS = "service.kubernetes.io/headless"
DELAY = 0.003
"""Seconds to gather changes of pods before one look at their Service."""

Ports = tuple[tuple[str, str, int], ...]
"""(name, protocol, number) as one set of pods resolves them."""


@dataclass(frozen=True)
class Target:
    """One pod behind a Service."""

    pod: Obj
    address: str
    ports: Ports
    ready: bool
    serving: bool
    terminating: bool
    hostname: str


class ServiceEndpoints:
    """The Endpoints, EndpointSlice and mirroring controllers in one."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._services = caches.of("services")
        self._pods = caches.of("pods")
        self._endpoints = caches.of("endpoints")
        self._slices = caches.of(SLICES)
        self.work: Work[tuple[str, str]] = Work("endpoints", self._sync, delay=DELAY)
        self._own = Owned(self._slices, "Service", self._note)
        self._mirrored = Owned(self._slices, "Endpoints", self._note)
        self._services.subscribe(self._on_service)
        self._pods.subscribe(self._on_pod)
        self._endpoints.subscribe(self._on_service)

    def _note(self, namespace: str, name: str) -> None:
        self.work.note((namespace, name))

    def _on_service(self, obj: Obj | None, before: Obj | None) -> None:
        found = obj or before
        if found:
            self._note(found["metadata"]["namespace"], found["metadata"]["name"])

    def _on_pod(self, pod: Obj | None, before: Obj | None) -> None:
        if pod and before and _same_for_services(pod, before):
            return
        for found in (pod, before):
            for service in self._services.within(found["metadata"]["namespace"]) if found else ():
                selector = service["spec"].get("selector")
                if found and selector and selector.items() <= labels_of(found).items():
                    self._on_service(service, None)

    async def _sync(self, key: tuple[str, str]) -> None:
        service = self._services.get(*key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            await self._mirror(key)
            return
        if not service["spec"].get("selector") or service["spec"].get("type") == "ExternalName":
            await self._mirror(key)
            return
        targets = sorted(self._targets(service), key=lambda target: ipaddress.IPv4Address(target.address))
        await self._write_slices(service, targets)
        await self._write_endpoints(service, targets)

    def _targets(self, service: Obj) -> list[Target]:
        selector = service["spec"]["selector"]
        publish = bool(service["spec"].get("publishNotReadyAddresses"))
        found = []
        for pod in self._pods.within(service["metadata"]["namespace"]):
            status = pod.get("status") or {}
            if not selector.items() <= labels_of(pod).items() or not status.get("podIP"):
                continue
            if status.get("phase") in {"Succeeded", "Failed"}:
                continue
            ready, terminating = ready_since(pod) is not None, "deletionTimestamp" in pod["metadata"]
            spec = pod["spec"]
            named = spec.get("subdomain") == service["metadata"]["name"]
            found.append(
                Target(
                    pod=pod,
                    address=status["podIP"],
                    ports=_resolve(service, pod),
                    ready=publish or (ready and not terminating),
                    serving=publish or ready,
                    terminating=terminating,
                    hostname=(spec.get("hostname") or "") if named else "",
                )
            )
        return found

    # ---- slices
    async def _write_slices(self, service: Obj, targets: list[Target]) -> None:
        wanted: dict[Ports, list[Obj]] = {}
        for target in targets:
            wanted.setdefault(target.ports, []).append(_slice_endpoint(target))
        if not wanted:
            wanted[()] = []
        labels = {**labels_of(service), SERVICE_LABEL: service["metadata"]["name"], MANAGED_BY: MANAGER}
        if service["spec"].get("clusterIP") == "None":
            labels[HEADLESS] = ""
        bodies = [_slice_body(service, labels, ports, endpoints) for ports, endpoints in wanted.items()]
        await self._replace(self._own, service, bodies)

    async def _replace(self, owned: Owned, owner: Obj, bodies: list[Obj]) -> None:
        """Make the slices of ``owner`` those, changing as few as possible."""
        present = [
            found for found in owned.of(owner["metadata"]["uid"]) if "deletionTimestamp" not in found["metadata"]
        ]
        for body in bodies:
            same = next((each for each in present if _ports_key(each) == _ports_key(body)), None) or (
                present[0] if present and len(bodies) == 1 else None
            )
            if same is None:
                owned.remember(await self._client.create(SLICES, body, owner["metadata"]["namespace"]))
                continue
            present.remove(same)
            if all(same.get(part) == body.get(part) for part in ("endpoints", "ports")) and labels_of(
                same
            ) == labels_of(body):
                continue
            meta = {**same["metadata"], "labels": body["metadata"]["labels"]}
            changed = {**body, "metadata": meta}
            owned.remember(await self._client.replace(SLICES, changed, meta["namespace"]))
        for rest in present:
            owned.doom(rest)
            meta = rest["metadata"]
            try:
                await self._client.delete(SLICES, meta["name"], meta["namespace"])
            except ApiError as error:
                if error.code != 404:
                    raise

    # ---- endpoints
    async def _write_endpoints(self, service: Obj, targets: list[Target]) -> None:
        subsets: dict[Ports, dict[str, list[Obj]]] = {}
        for target in targets:
            if target.terminating and not service["spec"].get("publishNotReadyAddresses"):
                continue
            group = subsets.setdefault(target.ports, {})
            group.setdefault("addresses" if target.ready else "notReadyAddresses", []).append(_address(target))
        body: Obj = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": service["metadata"]["name"],
                "namespace": service["metadata"]["namespace"],
                "labels": {**labels_of(service), "endpoints.kubernetes.io/managed-by": "endpoint-controller"},
            },
        }
        if service["spec"].get("clusterIP") == "None":
            body["metadata"]["labels"][HEADLESS] = ""
        if subsets:
            body["subsets"] = [
                {**group, **({"ports": _port_list(ports)} if ports else {})} for ports, group in subsets.items()
            ]
        await self._write(self._endpoints, "endpoints", body)

    async def _write(self, cache: Cache, resource: str, body: Obj) -> None:
        meta = body["metadata"]
        before = cache.get(meta["namespace"], meta["name"])
        if before is None:
            await self._client.create(resource, body, meta["namespace"])
        elif before.get("subsets") != body.get("subsets") or labels_of(before) != labels_of(body):
            await self._client.replace(resource, body, meta["namespace"])

    # ---- mirroring
    async def _mirror(self, key: tuple[str, str]) -> None:
        """Endpoints of a Service without selector as a slice of their own; without Service: nothing is left."""
        endpoints, service = self._endpoints.get(*key), self._services.get(*key)
        if endpoints is None:
            return
        if service is None:
            if labels_of(endpoints).get("endpoints.kubernetes.io/managed-by") == "endpoint-controller":
                await self._client.delete("endpoints", key[1], key[0], uid=endpoints["metadata"]["uid"])
            return
        if labels_of(endpoints).get(SKIP_MIRROR) == "true":
            return
        labels = {SERVICE_LABEL: key[1], MANAGED_BY: MIRROR}
        bodies = []
        for subset in endpoints.get("subsets") or ():
            ports = tuple(
                (port.get("name") or "", port.get("protocol") or "TCP", port["port"])
                for port in subset.get("ports") or ()
            )
            found = [
                {
                    "addresses": [entry["ip"]],
                    "conditions": {"ready": ready},
                    **{name: entry[name] for name in ("hostname", "nodeName", "targetRef") if name in entry},
                }
                for name, ready in (("addresses", True), ("notReadyAddresses", False))
                for entry in subset.get(name) or ()
            ]
            bodies.append(_slice_body(endpoints, labels, ports, found))
        await self._replace(self._mirrored, endpoints, bodies)


def _same_for_services(pod: Obj, before: Obj) -> bool:
    """Whether nothing changed that a Service could see."""
    now, then = pod.get("status") or {}, before.get("status") or {}
    return (
        labels_of(pod) == labels_of(before)
        and now.get("podIP") == then.get("podIP")
        and now.get("phase") == then.get("phase")
        and ready_since(pod) == ready_since(before)
        and pod["metadata"].get("deletionTimestamp") == before["metadata"].get("deletionTimestamp")
    )


def _resolve(service: Obj, pod: Obj) -> Ports:
    """The Service's ports with target ports looked up in the pod; names that the pod lacks are left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        target: Any = port.get("targetPort") or port["port"]
        protocol = port.get("protocol") or "TCP"
        if isinstance(target, str):
            target = _named_port(pod, target, protocol)
        if target is not None:
            found.append((port.get("name") or "", protocol, int(target)))
    return tuple(found)


def _named_port(pod: Obj, name: str, protocol: str) -> int | None:
    side_cars = [each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in (*pod["spec"]["containers"], *side_cars):
        for port in container.get("ports") or ():
            if port.get("name") == name and (port.get("protocol") or "TCP") == protocol:
                return int(port["containerPort"])
    return None


def _reference(pod: Obj) -> Obj:
    meta = pod["metadata"]
    return {"kind": "Pod", "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}


def _slice_endpoint(target: Target) -> Obj:
    found: Obj = {
        "addresses": [target.address],
        "conditions": {"ready": target.ready, "serving": target.serving, "terminating": target.terminating},
        "nodeName": target.pod["spec"]["nodeName"],
        "targetRef": _reference(target.pod),
    }
    if target.hostname:
        found["hostname"] = target.hostname
    return found


def _address(target: Target) -> Obj:
    found: Obj = {
        "ip": target.address,
        "nodeName": target.pod["spec"]["nodeName"],
        "targetRef": _reference(target.pod),
    }
    if target.hostname:
        found["hostname"] = target.hostname
    return found


def _slice_body(owner: Obj, labels: dict[str, str], ports: Ports, endpoints: list[Obj]) -> Obj:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-",
            "namespace": owner["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(owner)],
        },
        "addressType": "IPv4",
        "ports": _port_list(ports, name_always=True),
        "endpoints": endpoints,
    }


def _port_list(ports: Ports, *, name_always: bool = False) -> list[Obj]:
    return [
        {**({"name": name} if name or name_always else {}), "port": number, "protocol": protocol}
        for name, protocol, number in ports
    ]


def _ports_key(found: Obj) -> str:
    return json.dumps(found.get("ports") or [], sort_keys=True)
