# SPDX-License-Identifier: Apache-2.0
"""The zone of the cluster's DNS: names of Services and of the pods behind headless Services, from
live objects.

The records are those of CoreDNS' kubernetes plugin: A, SRV, PTR, and CNAME for ExternalName
Services. Pod names by address (``1-2-3-4.ns.pod``) are not emulated: NXDOMAIN.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Protocol

from hybridlab.api.contract import Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.endpoints import SERVICE_LABEL, SLICES
from hybridlab.controllers.selectors import labels_of
from hybridlab.controllers.work import Work
from hybridlab.dataplane.model import Zone

SETTLE = 0.004
"""Seconds for which changes are gathered before the zone is replaced."""


class ZoneWriter(Protocol):
    """The receiver of the zone: the data plane, or a part in front of it."""

    async def set_zone(self, zone: Zone) -> None:
        """Replace the DNS zone."""


class Dns:
    """Keeps the zone as Services and endpoints change."""

    def __init__(self, caches: Caches, resolvers: ZoneWriter, domain: str) -> None:
        self._resolvers = resolvers
        self._domain = domain
        self._services = caches.of("services")
        self._slices = caches.of(SLICES)
        self._written: Zone | None = None
        self._work: Work[str] = Work("dns", self._look, workers=1, delay=SETTLE)
        self._services.subscribe(lambda new, old: self._work.note("zone"))
        self._slices.subscribe(lambda new, old: self._work.note("zone"))

    def start(self) -> None:
        self._work.start()
        self._work.note("zone")

    async def stop(self) -> None:
        """Stop updating the zone; DNS keeps answering with the last zone."""
        await self._work.stop()

    async def _look(self, _: str) -> None:
        zone = self.zone()
        if zone != self._written:
            await self._resolvers.set_zone(zone)
            self._written = zone

    def zone(self) -> Zone:
        a: dict[str, list[str]] = defaultdict(list)
        srv: dict[str, list[tuple[int, str]]] = defaultdict(list)
        ptr: dict[str, str] = {}
        cname: dict[str, str] = {}
        slices: dict[tuple[str, str], list[Obj]] = defaultdict(list)
        for slice_ in self._slices:
            slices[
                slice_["metadata"]["namespace"], labels_of(slice_).get(SERVICE_LABEL, "")
            ].append(slice_)
        for service in self._services:
            meta = service["metadata"]
            spec = service["spec"]
            name = f"{meta['name']}.{meta['namespace']}.svc.{self._domain}"
            address = spec.get("clusterIP")
            if spec.get("type") == "ExternalName":
                cname[name] = spec["externalName"].rstrip(".")
                continue
            if not address:
                continue
            if address != "None":
                a[name].append(address)
                ptr[address] = name
                for port in spec.get("ports") or []:
                    if port.get("name"):
                        service_name = (
                            f"_{port['name']}._{port.get('protocol', 'TCP').lower()}.{name}"
                        )
                        srv[service_name].append((port["port"], name))
                continue
            for ip, host, ports in _headless(slices[meta["namespace"], meta["name"]]):
                own = f"{host}.{name}"
                a[name].append(ip)
                a[own].append(ip)
                ptr[ip] = own
                for port_name, protocol, number in ports:
                    srv[f"_{port_name}._{protocol}.{name}"].append((number, own))
        return Zone(
            domain=self._domain,
            a={name: tuple(sorted(set(addresses))) for name, addresses in a.items()},
            srv={name: tuple(sorted(set(targets))) for name, targets in srv.items()},
            ptr=ptr,
            cname=cname,
        )


def _headless(slices: list[Obj]) -> Iterator[tuple[str, str, list[tuple[str, str, int]]]]:
    """Yield (address, host label, [(port name, protocol, number)]) of each ready endpoint."""
    for slice_ in slices:
        ports = [
            (port["name"], port.get("protocol", "TCP").lower(), port["port"])
            for port in slice_.get("ports") or []
            if port.get("name")
        ]
        for endpoint in slice_.get("endpoints") or []:
            if (endpoint.get("conditions") or {}).get("ready", True):
                yield from (
                    (ip, endpoint.get("hostname") or ip.replace(".", "-"), ports)
                    for ip in endpoint["addresses"]
                )
