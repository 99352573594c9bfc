# SPDX-License-Identifier: Apache-2.0
"""Services over the suite's pods, created when first requested and kept as long as the worker's
namespace."""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from conformance.kube import manifest
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.refused import ApiRefused
from conformance.model.endpoint import Addressing, Pair, Target, Workload
from conformance.pods.groups import Group, PodPairs
from conformance.pods.roles import ECHO_PORT, MANIFESTS
from conformance.pods.tailor import SEAT

PORT = 80
"""The port of every Service. Its target port is the echo server's 8080, so that tests notice if the
port is not translated."""
OTHER_PORT = 81
NAMED_PORT = 8087
"""The second port of Services with a ClusterIP, and the number of its target port, to which the
Services refer by name."""
USUAL_DOMAIN = "cluster.local"
COREDNS = ("coredns", "rke2-coredns-rke2-coredns")
"""ConfigMaps of CoreDNS; the second is RKE2's (its chart's name twice)."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A Service as the API server filled it in."""

    name: str
    namespace: str
    domain: str
    cluster_ip: str
    node_port: int | None
    node_port_udp: int | None = None
    backends: tuple[Workload, ...]

    @property
    def name_and_namespace(self) -> str:
        """Return the Service's name as pods of any namespace may use it: ``web.ns``."""
        return f"{self.name}.{self.namespace}"

    @property
    def name_in_the_cluster(self) -> str:
        """Return the Service's name without the cluster's domain: ``web.ns.svc``."""
        return f"{self.name_and_namespace}.svc"

    @property
    def addresses(self) -> list[str]:
        """Return the addresses of the backends, to which a headless Service's name resolves."""
        return [backend.address for backend in self.backends]

    @property
    def full_name(self) -> str:
        """Return the Service's full DNS name: ``web.ns.svc.cluster.local``."""
        return f"{self.name}.{self.namespace}.svc.{self.domain}"

    @property
    def by_address(self) -> Target:
        return self._target(self.cluster_ip, PORT, Addressing.CLUSTER_IP)

    @property
    def by_address_udp(self) -> Target:
        return dataclasses.replace(self.by_address, protocol="udp")

    @property
    def by_both(self) -> tuple[Target, Target]:
        """Return the ClusterIP as two targets: for TCP connections and for UDP datagrams."""
        return self.by_address, self.by_address_udp

    @property
    def by_other_port(self) -> Target:
        return dataclasses.replace(self.by_address, port=OTHER_PORT, backend_port=NAMED_PORT)

    @property
    def by_name(self) -> Target:
        """Return the Service's DNS name as a target; the client resolves it."""
        return self._target(self.full_name, PORT, Addressing.NAME)

    def on(self, there: Workload) -> Target:
        """Return the Service's NodePort at the node that a pod runs on."""
        return self._at_node(there, self.node_port)

    def on_udp(self, there: Workload) -> Target:
        return dataclasses.replace(self._at_node(there, self.node_port_udp), protocol="udp")

    def at_own_node(self, backend: Workload) -> Target:
        """Return the Service's NodePort at a backend's node, which leads to that backend alone
        (``externalTrafficPolicy: Local``)."""
        return dataclasses.replace(self.on(backend), backends=(backend,))

    def _at_node(self, there: Workload, port: int | None) -> Target:
        if port is None:
            raise ValueError(f"Service {self.name} has no NodePort")
        return Target(
            host=there.node_address,
            port=port,
            protocol="tcp",
            path=Addressing.NODE_PORT,
            backends=self.backends,
            name=f"NodePort of {self.name} at node {there.node}",
            backend_port=ECHO_PORT,
            at=there,
        )

    def _target(self, host: str, port: int, path: Addressing) -> Target:
        return Target(
            host=host,
            port=port,
            protocol="tcp",
            path=path,
            backends=self.backends,
            name=f"Service {self.name}",
            backend_port=ECHO_PORT,
        )


class Seats(Protocol):
    """A register of pods by the name of their Deployment."""

    def seat_of(self, workload: Workload) -> str:
        """Return a pod's label ``conformance/seat``."""


class Services:
    """Services in one worker's namespace."""

    def __init__(self, changes: Changes, worker_pods: Seats, domain: str) -> None:
        self._changes = changes
        self._worker_pods = worker_pods
        self._domain = domain
        self._there: dict[tuple[str, str], Service] = {}
        """The Services that exist, keyed by namespace and name."""

    def cluster_ip(self, backend: Workload) -> Service:
        """Return a ClusterIP Service whose only backend is the given pod."""
        return self._over(backend, "cluster-ip")

    def node_port(self, backend: Workload) -> Service:
        """Return a NodePort Service whose only backend is the given pod."""
        return self._over(backend, "node-port")

    def by_address(self, backend: Workload) -> Target:
        """Return the ClusterIP of a Service whose only backend is the given pod."""
        return self.cluster_ip(backend).by_address

    def by_address_udp(self, backend: Workload) -> Target:
        return self.cluster_ip(backend).by_address_udp

    def by_other_port(self, backend: Workload) -> Target:
        """Return the ClusterIP of the same Service with its second port, which leads to a named
        port of the pod."""
        return self.cluster_ip(backend).by_other_port

    def by_name(self, backend: Workload) -> Target:
        """Return the DNS name of a Service whose only backend is the given pod."""
        return self.cluster_ip(backend).by_name

    def by_node_port(self, backend: Workload) -> Target:
        """Return the NodePort, at the pod's own node, of a Service whose only backend is the given
        pod."""
        return self.node_port(backend).on(backend)

    def spread(self, backends: Group) -> Service:
        """Return a ClusterIP Service over these pods of a role. A further call gives the Service
        other backends."""
        return self.over(backends, "cluster-ip")

    def headless(self, backends: Group) -> Service:
        """Return a headless Service over these pods, as :meth:`spread` does. Its name resolves to
        the pods' own addresses."""
        return self.over(backends, "headless")

    def another_name(self, service: Service) -> Service:
        """Return a Service of type ExternalName, as another name of this Service."""
        first = service.backends[0]
        made = manifest.load(MANIFESTS / "services" / "external-name.yaml")[0]
        made["spec"]["externalName"] = service.full_name
        self._changes.apply(
            made, f"is another name of Service {service.name}", namespace=first.namespace
        )
        return replace(service, name=made["metadata"]["name"])

    def to_themselves(self, backends: Group) -> list[Pair]:
        """Return each pod with the ClusterIP of a Service whose only backend is the pod itself."""
        return [(backend, self.by_address(backend)) for backend in backends]

    def node_ports_elsewhere(self, pairs: PodPairs) -> list[tuple[Target, Target]]:
        """Return two targets for each pair of backends: the first pod's NodePort at the second
        pod's node, and the same NodePort at the first pod's own node."""
        return [
            (self.node_port(here).on(elsewhere), self.node_port(here).on(here))
            for here, elsewhere in pairs
        ]

    def node_ports_at(self, elsewhere: Sequence[Workload], *backends: Workload) -> list[Target]:
        """Return the NodePorts of each backend at the nodes of the other pods, except at its own
        node."""
        return [
            target
            for backend in backends
            for there in elsewhere
            if there.node != backend.node
            for target in (self.node_port(backend).on(there), self.node_port(backend).on_udp(there))
        ]

    def node_ports(self, backends: Sequence[Workload]) -> list[Target]:
        """Return for each of these pods a NodePort Service of its own, at the pod's node."""
        return [self.by_node_port(backend) for backend in backends]

    def node_ports_udp(self, backends: Sequence[Workload]) -> list[Target]:
        return [self.node_port(backend).on_udp(backend) for backend in backends]

    def _over(self, backend: Workload, kind: str) -> Service:
        seat = self._worker_pods.seat_of(backend)
        name = f"{kind}-{seat}"
        if (here := (backend.namespace, name)) not in self._there:
            made = manifest.load(MANIFESTS / "services" / f"{kind}.yaml")[0]
            made["metadata"]["name"] = name
            made["spec"]["selector"] = {SEAT: seat}
            done = self._changes.apply(
                made, f"makes {seat} reachable by {kind}", namespace=backend.namespace
            )
            self._there[here] = self.read(done or made, Group([backend]))
        # the pod may have been replaced since the Service was created
        return replace(self._there[here], backends=(backend,))

    def over(self, backends: Group, kind: str) -> Service:
        """Return a Service over all pods of a role, or over a single pod. A second call gives the
        Service other backends.

        ``kind``: the name of the Service's file under ``manifests/services``.
        """
        first = backends.first
        selector = (
            {"app": first.role} if len(backends) > 1 else {SEAT: self._worker_pods.seat_of(first)}
        )
        made = manifest.load(MANIFESTS / "services" / f"{kind}.yaml")[0]
        made["metadata"]["name"] = f"{kind}-{first.role}s"
        made["spec"]["selector"] = selector
        done = self._changes.apply(
            made,
            f"has {len(backends)} of the pods {first.role} behind it",
            namespace=first.namespace,
        )
        return self.read(done or made, backends)

    def read(self, obj: Obj, backends: Group) -> Service:
        """Return a Service over these pods, as the API server filled it in."""
        spec = obj["spec"]
        return Service(
            name=obj["metadata"]["name"],
            namespace=backends.first.namespace,
            domain=self._domain,
            cluster_ip=str(spec.get("clusterIP") or ""),
            node_port=_node_port(spec, "TCP"),
            node_port_udp=_node_port(spec, "UDP"),
            backends=tuple(backends),
        )


def _node_port(spec: Obj, protocol: str) -> int | None:
    return next(
        (port.get("nodePort") for port in spec["ports"] if port.get("protocol", "TCP") == protocol),
        None,
    )


def cluster_domain(kube: Kube) -> str:
    """Return the cluster's DNS domain from CoreDNS' configuration, or the usual domain without
    it."""
    for name in COREDNS:
        try:
            config = kube.find("v1", "ConfigMap", name, "kube-system")
        except ApiRefused:  # the user may not read the ConfigMap
            continue
        text = str(((config or {}).get("data") or {}).get("Corefile") or "")
        found = re.search(r"^\s*kubernetes\s+([\w.-]+)", text, re.MULTILINE)
        if found:
            return found[1].rstrip(".")
    return USUAL_DOMAIN
