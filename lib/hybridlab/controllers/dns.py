"""The cluster's DNS zone from live Services and EndpointSlices, as the Kubernetes DNS specification names things.

Answers are given by the data plane; names of pods by address (``1-2-3-4.NS.pod``) and ExternalName are not emulated.
"""

from __future__ import annotations

import time

from hybridlab.api.contract import Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.service_view import ServiceView, endpoints
from hybridlab.controllers.work import Work
from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.model import Zone

DELAY = 0.008
"""Seconds to gather changes before the zone is set."""


class DNS:
    """Keeps the zone."""

    def __init__(self, caches: Caches, dataplane: Dataplane, recorder: Recorder, domain: str) -> None:
        self._view = ServiceView(caches)
        self._dataplane = dataplane
        self._recorder = recorder
        self._domain = domain
        self._set: Zone | None = None
        self._warned: set[str] = set()
        self.programmings = 0
        """How many zones were sent to the data plane."""
        self.seconds = 0.0
        """Time spent making zones."""
        self.work: Work[str] = Work("dns", self._program, workers=1, delay=DELAY)
        self._view.services.subscribe(self._on_service)
        self._view.slices.subscribe(lambda new, old: self.work.note("zone"))

    def _on_service(self, service: Obj | None, _: Obj | None) -> None:
        if service and service["spec"].get("type") == "ExternalName":
            uid = service["metadata"]["uid"]
            if uid not in self._warned:
                self._warned.add(uid)
                self._recorder.record(
                    service, "NotEmulated", "not emulated: ExternalName", component="coredns", type="Warning"
                )
        self.work.note("zone")

    async def _program(self, _: str) -> None:
        began = time.perf_counter()
        zone = self.zone()
        self.seconds += time.perf_counter() - began
        if zone == self._set:
            return
        await self._dataplane.set_zone(zone)
        self._set = zone
        self.programmings += 1

    def zone(self) -> Zone:
        """Everything the DNS answers now."""
        made = _Zone(self._domain)
        slices = self._view.by_service()
        for service in self._view.all():
            meta, spec = service["metadata"], service["spec"]
            if spec.get("type") == "ExternalName":
                continue
            behind = slices.get((meta["namespace"], meta["name"]), [])
            if spec.get("clusterIP") == "None":
                made.add_headless(service, behind)
            elif spec.get("clusterIP"):
                made.add_cluster_ip(service)
        return Zone(
            domain=self._domain,
            a={name: tuple(found) for name, found in made.a.items()},
            srv={name: tuple(found) for name, found in made.srv.items()},
            ptr=made.ptr,
        )


class _Zone:
    """A zone in the making."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self.a: dict[str, list[str]] = {}
        self.srv: dict[str, list[tuple[int, str]]] = {}
        self.ptr: dict[str, str] = {}

    def _name(self, service: Obj) -> str:
        meta = service["metadata"]
        return f"{meta['name']}.{meta['namespace']}.svc.{self._domain}"

    def add_cluster_ip(self, service: Obj) -> None:
        """One address, one name, an SRV record per named port."""
        name, address = self._name(service), service["spec"]["clusterIP"]
        self.a[name] = [address]
        self.ptr[address] = name
        for port in service["spec"].get("ports") or ():
            if port.get("name"):
                protocol = (port.get("protocol") or "TCP").lower()
                self.srv.setdefault(f"_{port['name']}._{protocol}.{name}", []).append((port["port"], name))

    def add_headless(self, service: Obj, slices: list[Obj]) -> None:
        """All ready endpoints under the Service's name, and each under a name of its own."""
        name = self._name(service)
        self.a.setdefault(name, [])
        for each in slices:
            for entry in each.get("endpoints") or ():
                if (entry.get("conditions") or {}).get("ready", True) is False:
                    continue
                for address in entry["addresses"]:
                    own = f"{entry.get('hostname') or address.replace('.', '-')}.{name}"
                    self.a[name].append(address)
                    self.a.setdefault(own, []).append(address)
                    self.ptr.setdefault(address, own)
        if not self.a[name]:
            del self.a[name]
        for port in service["spec"].get("ports") or ():
            if not port.get("name"):
                continue
            protocol = (port.get("protocol") or "TCP").lower()
            key = f"_{port['name']}._{protocol}.{name}"
            for found in endpoints(slices, port["name"]):
                if found.ready:
                    own = f"{found.hostname or found.address.replace('.', '-')}.{name}"
                    self.srv.setdefault(key, []).append((found.port, own))
