"""kube-proxy: from Services and EndpointSlices to each node's service table.

One reader of the API programs all nodes; a table that would not change is not sent.  Session affinity is not
emulated: the Service gets an event that says so, and its connections spread over all backends.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from hybridlab.api.contract import Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.endpoints import SERVICE_LABEL, SLICES
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.selectors import labels_of
from hybridlab.controllers.work import Work
from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable

logger = logging.getLogger(__name__)

SETTLE = 0.004
"""Seconds that changes are gathered before nodes are programmed: many pods become ready together."""


Behind = dict[tuple[str, str, str], list[tuple[Backend, str]]]
"""(namespace, service, port name) to backends, each with its node."""


class ServiceWriter(Protocol):
    """Whoever programs nodes: the data plane, or what stands before it."""

    async def set_services(self, node: str, table: ServiceTable) -> None:
        """Replace a node's services."""


class KubeProxies:
    """The kube-proxies of all nodes."""

    def __init__(
        self,
        caches: Caches,
        dataplane: ServiceWriter,
        nodes: Sequence[str],
        recorder: Recorder,
        *,
        snat_local_pods_to: Callable[[str], str | None],
        snat_node_ports_to: Callable[[str], str | None],
    ) -> None:
        """``snat_local_pods_to``: source that a node's pods get on their way to a ClusterIP (Windows without DSR).

        ``snat_node_ports_to``: source that NodePorts of a node give (Windows).
        """
        self._dataplane, self._nodes, self._recorder = dataplane, nodes, recorder
        self._snat, self._node_port_snat = snat_local_pods_to, snat_node_ports_to
        self._services, self._slices = caches.of("services"), caches.of(SLICES)
        self._programmed: dict[str, ServiceTable] = {}
        self._work: Work[str] = Work("kube-proxy", self._look, delay=SETTLE)
        self._services.subscribe(self._on_service)
        self._slices.subscribe(lambda new, old: self._work.note("all"))

    def start(self) -> None:
        self._work.start()
        self._work.note("all")

    async def stop(self) -> None:
        """End; the nodes keep what they have."""
        await self._work.stop()

    def table(self, node: str) -> ServiceTable | None:
        """What was programmed on a node last; None: nothing yet."""
        return self._programmed.get(node)

    def _on_service(self, new: Obj | None, old: Obj | None) -> None:
        if new is not None and old is None and new["spec"].get("sessionAffinity") == "ClientIP":
            self._recorder.record(
                new, "NotEmulated", "not emulated: session affinity ClientIP; connections spread over all backends",
                component="kube-proxy", type="Warning",
            )  # fmt: skip
        self._work.note("all")

    async def _look(self, _: str) -> None:
        backends, unready = self._backends(ready=True), self._backends(ready=False)
        tables = {node: self._table(node, backends, unready) for node in self._nodes}
        changed = {node: table for node, table in tables.items() if self._programmed.get(node) != table}
        await asyncio.gather(*(self._dataplane.set_services(node, table) for node, table in changed.items()))
        self._programmed.update(changed)

    def _backends(self, *, ready: bool) -> Behind:
        """(namespace, service, port name) to backends with their node: those that are ready, or those that are not."""
        found: Behind = defaultdict(list)
        for slice_ in self._slices:
            service = labels_of(slice_).get(SERVICE_LABEL)
            if not service or slice_.get("addressType") != "IPv4":
                continue
            for port in slice_.get("ports") or []:
                key = (slice_["metadata"]["namespace"], service, port.get("name") or "")
                for endpoint in slice_.get("endpoints") or []:
                    if (endpoint.get("conditions") or {}).get("ready", True) is ready and port.get("port"):
                        where = endpoint.get("nodeName") or ""
                        found[key] += [(Backend(address=ip, port=port["port"]), where) for ip in endpoint["addresses"]]
        return found

    def _table(self, node: str, backends: Behind, unready: Behind) -> ServiceTable:
        snat = self._snat(node)
        ports = [
            port
            for service in self._services
            for port in _ports(service, node, backends, unready, translated=bool(snat))
        ]
        ports.sort(key=lambda port: (port.name, port.cluster_ip is None))
        return ServiceTable(ports=tuple(ports), snat_local_pods_to=snat, snat_node_ports_to=self._node_port_snat(node))


def _ports(service: Obj, node: str, backends: Behind, unready: Behind, *, translated: bool) -> Iterator[ServicePort]:
    """``translated``: the node rewrites sources of services (Windows without DSR), even if a Service asks otherwise."""
    spec, meta = service["spec"], service["metadata"]
    address = spec.get("clusterIP")
    if spec.get("type") == "ExternalName" or address in {None, "", "None"}:
        return
    for port in spec.get("ports") or []:
        protocol = port.get("protocol", "TCP").lower()
        if protocol not in {"tcp", "udp"}:
            continue
        key = (meta["namespace"], meta["name"], port.get("name") or "")
        behind, left_out = backends.get(key, []), tuple(backend for backend, _ in unready.get(key, []))
        everywhere = tuple(backend for backend, _ in behind)
        here = tuple(backend for backend, where in behind if where == node)
        name = f"{meta['namespace']}/{meta['name']}:{port.get('name') or port['port']}"
        inside = here if spec.get("internalTrafficPolicy") == "Local" else everywhere
        local = spec.get("externalTrafficPolicy") == "Local"
        outside, kept = here if local else everywhere, local and not translated
        node_port = port.get("nodePort") or None
        split = node_port is not None and inside != outside
        yield ServicePort(
            name=name, protocol=protocol, cluster_ip=address, port=port["port"],
            node_port=None if split else node_port, backends=inside, unready=left_out,
            node_port_keeps_client=kept,
        )  # fmt: skip
        if split:
            yield ServicePort(
                name=f"{name} (external)", protocol=protocol, cluster_ip=None, port=port["port"],
                node_port=node_port, backends=outside, unready=left_out, node_port_keeps_client=kept,
            )  # fmt: skip
