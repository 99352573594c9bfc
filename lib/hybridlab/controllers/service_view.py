"""Services with their endpoints as kube-proxy and the cluster's DNS need them, read from EndpointSlices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hybridlab.api.contract import Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.endpoints import SERVICE_LABEL, SLICES
from hybridlab.controllers.selectors import labels_of


@dataclass(frozen=True)
class Endpoint:
    """One address behind one port of a Service."""

    address: str
    port: int
    node: str
    hostname: str
    ready: bool
    serving: bool


class ServiceView:
    """All Services and what stands behind them now."""

    def __init__(self, caches: Caches) -> None:
        self.services = caches.of("services")
        self.slices = caches.of(SLICES)

    def all(self) -> list[Obj]:
        """Every Service that is not being deleted, by namespace and name."""
        found = [service for service in self.services if "deletionTimestamp" not in service["metadata"]]
        return sorted(found, key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"]))

    def by_service(self) -> dict[tuple[str, str], list[Obj]]:
        """Slices by namespace and name of their Service."""
        found: dict[tuple[str, str], list[Obj]] = {}
        for each in self.slices:
            name = labels_of(each).get(SERVICE_LABEL)
            if name:
                found.setdefault((each["metadata"]["namespace"], name), []).append(each)
        return found


def endpoints(slices: list[Obj], port_name: str) -> Iterator[Endpoint]:
    """The endpoints of one port of a Service, in a stable order."""
    for each in sorted(slices, key=lambda each: str(each["metadata"]["name"])):
        number = next((port["port"] for port in each.get("ports") or () if (port.get("name") or "") == port_name), None)
        if number is None:
            continue
        for entry in each.get("endpoints") or ():
            conditions = entry.get("conditions") or {}
            ready = conditions.get("ready", True) is not False
            for address in entry["addresses"]:
                yield Endpoint(
                    address=address,
                    port=number,
                    node=entry.get("nodeName") or "",
                    hostname=entry.get("hostname") or "",
                    ready=ready,
                    serving=conditions.get("serving", ready) is not False,
                )
