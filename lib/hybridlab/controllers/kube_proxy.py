# SPDX-License-Identifier: Apache-2.0
"""kube-proxy: computes each node's service table from Services and EndpointSlices.

One reader of the API programs all nodes, and sends only tables that have changed. The table also
has the ports of Linux nodes that Calico's portmap plugin leads to pods (``hostPort``); Calico's
configuration for Windows has no such plugin.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

from hybridlab.api.contract import Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.endpoints import SERVICE_LABEL, SLICES
from hybridlab.controllers.load_balancers import addresses_of
from hybridlab.controllers.selectors import labels_of
from hybridlab.controllers.work import Work
from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable
from hybridlab.profiles.machines import Machine

SETTLE = 0.004
"""Seconds for which changes are gathered before nodes are programmed, since many pods become ready
together."""


STICKY_SINCE = 20348
"""The first Windows build with session affinity (Kubernetes, Networking on Windows: Windows Server 2022)."""

Behind = dict[tuple[str, str, str], list[tuple[Backend, str]]]
"""The backends of each (namespace, service, port name), each with its node."""


class ServiceWriter(Protocol):
    """The receiver of nodes' services: the data plane, or a part in front of it."""

    async def set_services(self, node: str, table: ServiceTable) -> None:
        """Replace a node's services."""


class KubeProxies:
    """The kube-proxies of all nodes."""

    def __init__(
        self,
        caches: Caches,
        dataplane: ServiceWriter,
        nodes: Sequence[Machine],
        *,
        snat_local_pods_to: Callable[[str], str | None],
        snat_node_ports_to: Callable[[str], str | None],
    ) -> None:
        """Set up the kube-proxies. ``snat_local_pods_to``: the source address that a node's pods
        get when they connect to a ClusterIP (Windows without DSR).

        ``snat_node_ports_to``: the source address that the NodePorts of a node give traffic
        (Windows).
        """
        self._dataplane = dataplane
        self._nodes = nodes
        self._snat = snat_local_pods_to
        self._node_port_snat = snat_node_ports_to
        self._services = caches.of("services")
        self._slices = caches.of(SLICES)
        self._pods = caches.of("pods")
        self._programmed: dict[str, ServiceTable] = {}
        self._work: Work[str] = Work("kube-proxy", self._look, delay=SETTLE)
        self._services.subscribe(lambda new, old: self._work.note("all"))
        self._slices.subscribe(lambda new, old: self._work.note("all"))
        self._pods.subscribe(self._on_pod)

    def start(self) -> None:
        self._work.start()
        self._work.note("all")

    async def stop(self) -> None:
        """Stop updating; the nodes keep their programmed services."""
        await self._work.stop()

    def table(self, node: str) -> ServiceTable | None:
        """Return the table that was last programmed on a node; None if there is none yet."""
        return self._programmed.get(node)

    def _on_pod(self, new: Obj | None, old: Obj | None) -> None:
        if any(pod is not None and any(_host_ports(pod)) for pod in (new, old)):
            self._work.note("all")

    async def _look(self, _: str) -> None:
        backends = {wanted: self._backends(wanted) for wanted in ("ready", "unready", "ending")}
        tables = {node.name: self._table(node, backends) for node in self._nodes}
        changed = {
            node: table for node, table in tables.items() if self._programmed.get(node) != table
        }
        await asyncio.gather(
            *(self._dataplane.set_services(node, table) for node, table in changed.items())
        )
        self._programmed.update(changed)

    def _backends(self, wanted: str) -> Behind:
        """Map (namespace, service, port name) to the backends in the state ``wanted``
        (:func:`_states`), each with its node."""
        found: Behind = defaultdict(list)
        for slice_ in self._slices:
            service = labels_of(slice_).get(SERVICE_LABEL)
            if not service or slice_.get("addressType") != "IPv4":
                continue
            for port in slice_.get("ports") or []:
                key = (slice_["metadata"]["namespace"], service, port.get("name") or "")
                for endpoint in slice_.get("endpoints") or []:
                    if wanted in _states(endpoint.get("conditions") or {}) and port.get("port"):
                        where = endpoint.get("nodeName") or ""
                        found[key] += [
                            (Backend(address=ip, port=port["port"]), where)
                            for ip in endpoint["addresses"]
                        ]
        return found

    def _table(self, node: Machine, backends: Mapping[str, Behind]) -> ServiceTable:
        snat = self._snat(node.name)
        ports = sorted(
            (
                port
                for service in self._services
                for port in _ports(service, node, backends, translated=bool(snat))
            ),
            key=lambda port: (port.name, port.cluster_ip is None),
        )
        return ServiceTable(
            ports=tuple(ports),
            snat_local_pods_to=snat,
            snat_node_ports_to=self._node_port_snat(node.name),
            host_ports=tuple(
                port
                for pod in sorted(self._pods, key=lambda pod: str(pod["metadata"]["uid"]))
                if node.os == "linux" and pod["spec"].get("nodeName") == node.name
                for port in _host_ports(pod)
            ),
        )


def _states(conditions: Obj) -> set[str]:
    """Return the states of an endpoint as a backend: ready or unready, and possibly ending.

    Absent conditions have the API's defaults.
    """
    ready = conditions.get("ready", True)
    serves = conditions.get("terminating", False) and conditions.get("serving", ready)
    return {"ready" if ready else "unready", "ending" if serves else ""}


def _sticky(spec: Obj, node: Machine) -> int | None:
    """Return for how many seconds a node keeps a client with its backend. Return 0 on Windows,
    where HNS has no time limit; return None if the node does not keep clients."""
    if spec.get("sessionAffinity") != "ClientIP" or (node.build or STICKY_SINCE) < STICKY_SINCE:
        return None
    return 0 if node.build else int(spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"])


def _host_ports(pod: Obj) -> Iterator[ServicePort]:
    """Yield the host ports that lead to a pod. The portmap plugin sets these ports; the
    addresses of clients are kept."""
    spec = pod["spec"]
    status = pod.get("status") or {}
    meta = pod["metadata"]
    address = status.get("podIP")
    if not address or spec.get("hostNetwork") or status.get("phase") in {"Succeeded", "Failed"}:
        return
    for port in (port for container in spec["containers"] for port in container.get("ports") or ()):
        protocol = port.get("protocol", "TCP").lower()
        number = port.get("hostPort")
        if not number or protocol not in {"tcp", "udp"}:
            continue
        own = () if port.get("hostIP") in {None, "", "0.0.0.0"} else (port["hostIP"],)
        yield ServicePort(
            name=f"{meta['namespace']}/{meta['name']}:{number} (host)",
            protocol=protocol,
            cluster_ip=None,
            port=number,
            node_port=None if own else number,
            external_ips=own,
            node_port_keeps_client=True,
            backends=(Backend(address=address, port=port["containerPort"]),),
        )


def _ports(
    service: Obj, node: Machine, backends: Mapping[str, Behind], *, translated: bool
) -> Iterator[ServicePort]:
    """Yield the ports of a Service, each with its ready backends.

    If no backend is ready, the port has the backends that still serve while they end (kube-proxy,
    topology.go). ``translated``: the node rewrites sources of Services (Windows without DSR), even
    if a Service demands otherwise.
    """
    spec = service["spec"]
    address = spec.get("clusterIP")
    if spec.get("type") == "ExternalName" or address in {None, "", "None"}:
        return
    keeps_client = spec.get("externalTrafficPolicy") == "Local" and not translated
    for port in spec.get("ports") or []:
        protocol = port.get("protocol", "TCP").lower()
        if protocol not in {"tcp", "udp"}:
            continue
        reached = _Reached.of(service, port, node, backends)
        found = ServicePort(
            name=f"{service['metadata']['namespace']}/{service['metadata']['name']}:"
            f"{port.get('name') or port['port']}",
            protocol=protocol,
            cluster_ip=address,
            port=port["port"],
            node_port=port.get("nodePort") or None,
            backends=reached.inside,
            unready=reached.unready,
            elsewhere=reached.left_out(reached.inside),
            node_port_keeps_client=keeps_client,
            external_ips=(*(spec.get("externalIPs") or ()), *addresses_of(service)),
            sticky=_sticky(spec, node),
        )
        if reached.inside == reached.outside or not (found.node_port or found.external_ips):
            yield found
            continue
        yield replace(found, node_port=None, external_ips=())
        yield replace(
            found,
            name=f"{found.name} (external)",
            cluster_ip=None,
            backends=reached.outside,
            elsewhere=reached.left_out(reached.outside),
        )


@dataclass(frozen=True)
class _Reached:
    """The backends that clients of a Service's port reach from one node."""

    inside: tuple[Backend, ...]
    """The backends for traffic to the cluster's address."""
    outside: tuple[Backend, ...]
    """The backends for traffic to a NodePort or an external address."""
    unready: tuple[Backend, ...]
    everywhere: tuple[Backend, ...]
    """The backends that clients would reach without a traffic policy."""

    def left_out(self, reached: tuple[Backend, ...]) -> tuple[Backend, ...]:
        """Return the backends that a traffic policy leaves out."""
        return tuple(backend for backend in self.everywhere if backend not in reached)

    @classmethod
    def of(cls, service: Obj, port: Obj, node: Machine, backends: Mapping[str, Behind]) -> Self:
        """Return the backends by the traffic policies of the Service."""
        spec = service["spec"]
        meta = service["metadata"]
        key = (meta["namespace"], meta["name"], port.get("name") or "")
        ready, unready, ending = (
            backends[state].get(key, []) for state in ("ready", "unready", "ending")
        )
        here = _on(node.name, ready) or _on(node.name, ending)
        everywhere = tuple(backend for backend, _ in ready or ending)
        return cls(
            here if spec.get("internalTrafficPolicy") == "Local" else everywhere,
            here if spec.get("externalTrafficPolicy") == "Local" else everywhere,
            tuple(backend for backend, _ in unready),
            everywhere,
        )


def _on(node: str, behind: list[tuple[Backend, str]]) -> tuple[Backend, ...]:
    return tuple(backend for backend, where in behind if where == node)
