"""kube-proxy on every node: Services and their ready endpoints become the node's service table.

ClusterIP and NodePort over TCP and UDP, externalTrafficPolicy and internalTrafficPolicy Local.  Session affinity,
external addresses and load balancers are not emulated; a Service that asks for them gets an event that says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from hybridlab.api.contract import Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.service_view import Endpoint, ServiceView, endpoints
from hybridlab.controllers.work import Work
from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable

logger = logging.getLogger(__name__)

DELAY = 0.008
"""Seconds to gather changes before all nodes are programmed: pods become ready in bursts."""

SnatAddress = Callable[[str], str | None]
"""By node: the source that its pods get on their way to a ClusterIP (Windows without DSR), or None."""

PROTOCOLS: dict[str, Literal["tcp", "udp"]] = {"TCP": "tcp", "UDP": "udp"}


class KubeProxies:
    """The kube-proxies of all nodes."""

    def __init__(
        self, caches: Caches, dataplane: Dataplane, recorder: Recorder, nodes: Sequence[str], snat: SnatAddress
    ) -> None:
        self._view = ServiceView(caches)
        self._dataplane = dataplane
        self._recorder = recorder
        self._nodes = nodes
        self._snat = snat
        self._programmed: dict[str, ServiceTable] = {}
        self._warned: set[str] = set()
        self.programmings = 0
        """How many node tables were sent to the data plane."""
        self.work: Work[str] = Work("kube-proxy", self._program, workers=len(nodes) or 1, delay=DELAY)
        self._view.services.subscribe(self._on_service)
        self._view.slices.subscribe(lambda new, old: self.refresh())

    def refresh(self) -> None:
        """Look at all nodes again (also for whoever changes what ``snat`` answers)."""
        for node in self._nodes:
            self.work.note(node)

    def _on_service(self, service: Obj | None, _: Obj | None) -> None:
        if service:
            self._warn(service)
        self.refresh()

    def _warn(self, service: Obj) -> None:
        spec, uid = service["spec"], service["metadata"]["uid"]
        missing = []
        if spec.get("sessionAffinity", "None") != "None":
            missing.append("sessionAffinity")
        if spec.get("externalIPs"):
            missing.append("externalIPs")
        if spec.get("type") == "LoadBalancer":
            missing.append("LoadBalancer addresses")
        if any(port.get("protocol") == "SCTP" for port in spec.get("ports") or ()):
            missing.append("SCTP")
        if missing and uid not in self._warned:
            self._warned.add(uid)
            message = f"not emulated: {', '.join(missing)}"
            self._recorder.record(service, "NotEmulated", message, component="kube-proxy", type="Warning")

    async def _program(self, node: str) -> None:
        table = self.table(node)
        if self._programmed.get(node) == table:
            return
        await self._dataplane.set_services(node, table)
        self._programmed[node] = table
        self.programmings += 1

    def table(self, node: str) -> ServiceTable:
        """What the node is to be programmed with now."""
        slices = self._view.by_service()
        ports: list[ServicePort] = []
        for service in self._view.all():
            meta, spec = service["metadata"], service["spec"]
            if spec.get("type") == "ExternalName" or spec.get("clusterIP") in {None, "", "None"}:
                continue
            behind = slices.get((meta["namespace"], meta["name"]), [])
            for port in spec.get("ports") or ():
                ports += _service_ports(service, port, list(endpoints(behind, port.get("name") or "")), node)
        return ServiceTable(ports=tuple(ports), snat_local_pods_to=self._snat(node))


def _service_ports(service: Obj, port: Obj, found: list[Endpoint], node: str) -> Iterator[ServicePort]:
    meta, spec = service["metadata"], service["spec"]
    protocol = PROTOCOLS.get(port.get("protocol") or "TCP")
    if protocol is None:
        return
    name = f"{meta['namespace']}/{meta['name']}" + (f":{port['name']}" if port.get("name") else "")
    ready = [each for each in found if each.ready] or [each for each in found if each.serving]
    inside = _local(ready, node) if spec.get("internalTrafficPolicy") == "Local" else ready
    outside = _local(ready, node) if spec.get("externalTrafficPolicy") == "Local" else ready
    node_port = port.get("nodePort")
    together = node_port is not None and inside == outside
    yield ServicePort(
        name=name,
        protocol=protocol,
        cluster_ip=spec["clusterIP"],
        port=port["port"],
        node_port=node_port if together else None,
        backends=_backends(inside),
    )
    if node_port is not None and not together:
        yield ServicePort(
            name=name,
            protocol=protocol,
            cluster_ip=None,
            port=port["port"],
            node_port=node_port,
            backends=_backends(outside),
        )


def _local(found: list[Endpoint], node: str) -> list[Endpoint]:
    return [each for each in found if each.node == node]


def _backends(found: list[Endpoint]) -> tuple[Backend, ...]:
    return tuple(Backend(address=each.address, port=each.port) for each in found)
