# SPDX-License-Identifier: Apache-2.0
"""A cloud's controller of load balancers: a Service of type LoadBalancer gets an address.

The address is outside all networks of the cluster. kube-proxy leads it to the Service's backends on
every node, as it does for every address that ``status.loadBalancer`` names.
"""

from hybridlab.api.contract import Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.work import Controller, Work, write_status

BEGIN = "198.18"
"""The first half of each address; the second half is that of the Service's ClusterIP, so that no
two Services have the same address. The network is for tests of devices (RFC 2544): no real host has
such an address."""


def addresses_of(service: Obj) -> list[str]:
    """Return the addresses that a load balancer gave to a Service."""
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    return [entry["ip"] for entry in balancer.get("ingress") or ()]


class LoadBalancers(Controller):
    """Gives an address to each Service that requests a load balancer."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._services = caches.of("services")
        self.work = Work("load balancers", self._look)
        self._services.subscribe(self._note)

    def _note(self, new: Obj | None, old: Obj | None) -> None:
        if new is not None and (new["spec"].get("type") == "LoadBalancer" or addresses_of(new)):
            self.work.note((new["metadata"]["namespace"], new["metadata"]["name"]))

    async def _look(self, key: tuple[str, str]) -> None:
        if (service := self._services.get(*key)) is None:
            return
        end = ".".join(str(service["spec"].get("clusterIP")).split(".")[2:])
        asks = service["spec"].get("type") == "LoadBalancer"
        balancer = {"ingress": [{"ip": f"{BEGIN}.{end}"}]} if asks else None
        await write_status(self._client, "services", service, {"loadBalancer": balancer})
