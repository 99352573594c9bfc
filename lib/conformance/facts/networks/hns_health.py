# SPDX-License-Identifier: Apache-2.0
"""Compares HNS of a Windows node with the API: endpoints with pods, load balancers with Services. A
deviation counts only if further reads (``hns_looks`` apart) also show it, since pods and Services
come and go. If a read shows no deviation, it is the last read. The module judges nothing."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from conformance.facts.node_readings import Hosts
from conformance.kube.changes import Changes
from conformance.kube.client import Obj
from conformance.kube.fields import list_at, mapping_at, value_at
from conformance.model.facts import Fact, NodeFacts
from conformance.model.host import HnsEndpoint, LoadBalancer
from conformance.settings import Timings
from conformance.timing import SYSTEM_CLOCK, Clock

DISCOVERY = "discovery.k8s.io/v1"
OF_SERVICE = "kubernetes.io/service-name"
OTHER_PROXY = "service.kubernetes.io/service-proxy-name"
SANDBOX = "cni.projectcalico.org/containerID"
"""Annotation by Calico's CNI plugin with the id of a pod's sandbox. The name of the pod's endpoint
begins with this id (containernetworking/plugins pkg/hns, ConstructEndpointName)."""
OF_HOST = "_ep"
"""The end of the name of the endpoint that Calico and flannel give to the host itself
(cni-plugin/pkg/dataplane/windows). With win-bridge an administrator makes this endpoint by hand,
and its name is the network's name (microsoft/SDN Kubernetes/windows/start-kubelet.ps1)."""
PROTOCOLS = {"TCP": 6, "UDP": 17}
LOCAL = "Local"

Deviations = Mapping[object, str]
"""The faults found by a read. A fault has the same key in each read."""


class Look(NamedTuple):
    """A node's HNS and the API's objects at one moment. Fields that a check does not need are
    empty."""

    endpoints: Sequence[HnsEndpoint]
    """Endpoints on pods' networks except the host's own; remote endpoints are included."""
    pods: Sequence[Obj] = ()
    """Pods of the node with an address of their own."""
    balancers: Sequence[LoadBalancer] = ()
    services: Sequence[Obj] = ()
    slices: Sequence[Obj] = ()
    hosts: Collection[str] = ()
    """Addresses of the node."""

    @property
    def of_pods(self) -> list[HnsEndpoint]:
        """Return the local endpoints, which belong to pods."""
        return [endpoint for endpoint in self.endpoints if not endpoint.is_remote]


@dataclass
class HnsHealth:
    """The facts about HNS that a test reads."""

    changes: Changes
    hosts: Hosts
    windows: Sequence[NodeFacts]
    """The nodes that may be read by HostProcess pods."""
    timings: Timings
    clock: Clock = field(default=SYSTEM_CLOCK)

    def shared_addresses(self, node: str) -> dict[str, Fact[tuple[str, ...]]]:
        """Return the addresses that more than one local endpoint of a pod has."""
        name = f"addresses shared by endpoints of several pods on node {node}"
        return {name: self._lasting(node, self._of_endpoints, shared_addresses)}

    def endpoints_of_nobody(self, node: str) -> dict[str, Fact[tuple[str, ...]]]:
        """Return the local endpoints that belong to no pod, and the pods of the run without an
        endpoint."""
        without = f"pods of the run without an HNS endpoint on node {node}"
        orphans = f"pod endpoints in HNS on node {node} that belong to no pod"
        return {
            orphans: self._lasting(node, self._of_endpoints, endpoints_of_nobody),
            without: self._lasting(
                node,
                self._of_endpoints,
                lambda look: pods_without_endpoint(look, self.changes.run.owns),
            ),
        }

    def left_behind(self, node: str) -> Fact[bool]:
        """Return whether a local endpoint belongs to no pod, or a pod of the run has no
        endpoint."""
        wrong = [
            f"{name}: {', '.join(fact.value)}"
            for name, fact in self.endpoints_of_nobody(node).items()
            if fact.value
        ]
        return Fact(bool(wrong), "; ".join(wrong) or f"HNS on node {node} has no leftovers")

    def services_without_balancer(self, node: str) -> dict[str, Fact[tuple[str, ...]]]:
        """Return the ports of ClusterIP Services whose load balancer is missing or has other
        members. Services that changed between the reads do not count. The fact's source names load
        balancers that are left over from Services without endpoints."""
        name = f"load balancers of Services that are missing or wrong on node {node}"
        return {name: self._lasting(node, self._of_services, wrong_balancers, looks=3)}

    def _lasting(
        self,
        node: str,
        read: Callable[[str], Look],
        find: Callable[[Look], Deviations],
        looks: int = 2,
    ) -> Fact[tuple[str, ...]]:
        """Return the deviations that every read shows. No further read follows a read without
        deviations."""
        look = read(node)
        found = dict(find(look))
        taken = 1
        while found and taken < looks:
            self.clock.sleep(self.timings.run.hns_looks)
            look = read(node)
            now = find(look)
            found = {key: now[key] for key in found if key in now}
            taken += 1
        seconds = self.timings.run.hns_looks * (taken - 1)
        text = f"endpoints: {len(look.endpoints)}, load balancers: {len(look.balancers)}"
        left = f"; left over: {', '.join(leftovers(look))}" if leftovers(look) else ""
        source = f"HNS on node {node} ({text}), reads: {taken} within {seconds:g} s{left}"
        return Fact(tuple(found.values()), source)

    def _of_endpoints(self, node: str) -> Look:
        endpoints = self._endpoints(node)
        pods = self.changes.kube.objects("v1", "Pod", fields=f"spec.nodeName={node}")
        return Look(endpoints, [pod for pod in pods if not value_at(pod, "spec", "hostNetwork")])

    def _of_services(self, node: str) -> Look:
        kube = self.changes.kube
        found = kube.get("v1", "Node", node)
        return Look(
            endpoints=self.hosts.hns_endpoints(node, remote=True),
            balancers=self.hosts.load_balancers(node),
            services=kube.objects("v1", "Service"),
            slices=kube.objects(DISCOVERY, "EndpointSlice"),
            hosts={str(one.get("address")) for one in list_at(found, "status", "addresses")},
        )

    def _endpoints(self, node: str) -> list[HnsEndpoint]:
        names = {one.id: one.name for one in self.hosts.hns_networks(node) if one.pods}
        return [
            one
            for one in self.hosts.hns_endpoints(node, remote=True)
            if one.network in names
            and not one.name.endswith(OF_HOST)
            and one.name != names[one.network]
        ]


def shared_addresses(look: Look) -> Deviations:
    """Return the addresses that more than one local endpoint has, each with the endpoints'
    names."""
    found: dict[str, list[HnsEndpoint]] = {}
    for endpoint in look.of_pods:
        found.setdefault(endpoint.address, []).append(endpoint)
    return {
        (address, *sorted(one.id for one in there)): f"{address} of {_names(there)}"
        for address, there in found.items()
        if address and len(there) > 1
    }


def endpoints_of_nobody(look: Look) -> Deviations:
    """Return the local endpoints that belong to no pod."""
    return {
        endpoint.id: f"{endpoint.name} with {endpoint.address or 'no address'}"
        for endpoint in look.of_pods
        if not any(_is_of(endpoint, pod) for pod in look.pods)
    }


def pods_without_endpoint(look: Look, is_own: Callable[[Obj], bool]) -> Deviations:
    """Return the run's own ready pods that have no endpoint."""
    return {
        str(pod["metadata"]["uid"]): f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in look.pods
        if is_own(pod)
        and _is_ready(pod)
        and not any(_is_of(endpoint, pod) for endpoint in look.of_pods)
    }


def _is_of(endpoint: HnsEndpoint, pod: Obj) -> bool:
    """Return whether an endpoint belongs to a pod: by the sandbox if Calico annotates the pod with
    it, and by the address if the pod has one."""
    sandbox = mapping_at(pod, "metadata", "annotations").get(SANDBOX)
    addresses = {str(one.get("ip")) for one in list_at(pod, "status", "podIPs")}
    if not sandbox:
        return endpoint.address in addresses
    return endpoint.name.startswith(str(sandbox)) and (
        not addresses or endpoint.address in addresses
    )


def _is_ready(pod: Obj) -> bool:
    conditions = {
        one.get("type"): one.get("status") for one in list_at(pod, "status", "conditions")
    }
    return conditions.get("Ready") == "True" and not pod["metadata"].get("deletionTimestamp")


def _names(endpoints: Sequence[HnsEndpoint]) -> str:
    return " and ".join(one.name or one.id for one in endpoints)


# --- load balancers ------------------------------------------------------------------------------


class Port(NamedTuple):
    """A port of a Service, with its members according to EndpointSlices."""

    service: str
    address: str
    protocol: int
    port: int
    members: frozenset[str]
    """Addresses of ready backends."""
    version: str
    """The versions of the Service and of its slices, which show any change of these objects."""

    @property
    def label(self) -> str:
        """Return the port in words: ``Service shop/web, 10.96.0.7:80/TCP``."""
        name = next(name for name, number in PROTOCOLS.items() if number == self.protocol)
        return f"Service {self.service}, {self.address}:{self.port}/{name}"


def wrong_balancers(look: Look) -> Deviations:
    """Return the ports of Services that have no load balancer, or a load balancer with other
    members than expected."""
    addresses = {endpoint.id.upper(): endpoint.address for endpoint in look.endpoints}
    found: dict[object, str] = {}
    for port in _ports(look):
        there = [one for one in look.balancers if _is_for(one, port)]
        members = {addresses.get(one, f"id {one}") for each in there for one in each.endpoints}
        if not there:
            found[port] = f"{port.label}: no load balancer"
        elif members != port.members:
            expected, observed = (", ".join(sorted(one)) for one in (port.members, members))
            found[port] = f"{port.label}: members {observed or 'none'} instead of {expected}"
    return found


def leftovers(look: Look) -> list[str]:
    """Return the load balancers of cluster addresses behind which no Service has endpoints."""
    there = {
        (address, PROTOCOLS.get(str(port.get("protocol") or "TCP")), port.get("port"))
        for service in look.services
        if _members_by_port(service, look.slices)
        for address in list_at(service, "spec", "clusterIPs")
        for port in list_at(service, "spec", "ports")
    }
    owned = {
        str(address)
        for service in look.services
        for address in list_at(service, "spec", "clusterIPs")
    }
    return sorted(
        f"{address}:{one.port}"
        for one in look.balancers
        for address in one.addresses
        if address in owned and (address, one.protocol, one.port) not in there
    )


def _is_for(balancer: LoadBalancer, port: Port) -> bool:
    asked = (port.protocol, port.port)
    return port.address in balancer.addresses and (balancer.protocol, balancer.port) == asked


def _ports(look: Look) -> Iterator[Port]:
    """Yield the ports of Services that kube-proxy must serve on the node with all their ready
    backends."""
    for service in look.services:
        address = _address(service)
        if not address:
            continue
        slices = _slices_of(service, look.slices)
        if any("forZones" in str(one.get("hints")) for each in slices for one in _ends(each)):
            continue  # this Service has a backend for some zones only
        members = _members_by_port(service, look.slices)
        versions = [value_at(one, "metadata", "resourceVersion") for one in (service, *slices)]
        for port in list_at(service, "spec", "ports"):
            protocol = PROTOCOLS.get(str(port.get("protocol") or "TCP"))
            chosen = frozenset(members.get(str(port.get("name") or ""), ()))
            # HNS has no endpoint for an address of the node itself
            if protocol and chosen and not chosen & set(look.hosts):
                meta = service["metadata"]
                name = f"{meta['namespace']}/{meta['name']}"
                version = "/".join(map(str, versions))
                yield Port(name, address, protocol, int(port["port"]), chosen, version)


def _address(service: Obj) -> str:
    """Return the IPv4 cluster address of a Service if kube-proxy serves it with all its backends;
    otherwise an empty string."""
    spec = mapping_at(service, "spec")
    policies = (spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy"))
    is_other = (
        spec.get("type") == "ExternalName"
        or LOCAL in policies
        or spec.get("publishNotReadyAddresses")
        or OTHER_PROXY in mapping_at(service, "metadata", "labels")
    )
    given = [*list_at(service, "spec", "clusterIPs"), spec.get("clusterIP")]
    return "" if is_other else next((str(one) for one in given if one and "." in str(one)), "")


def _slices_of(service: Obj, slices: Sequence[Obj]) -> list[Obj]:
    meta = service["metadata"]
    return [
        one
        for one in slices
        if one.get("addressType") == "IPv4"
        and value_at(one, "metadata", "namespace") == meta["namespace"]
        and mapping_at(one, "metadata", "labels").get(OF_SERVICE) == meta["name"]
    ]


def _ends(slice_: Obj) -> list[Obj]:
    return list_at(slice_, "endpoints")


def _members_by_port(service: Obj, slices: Sequence[Obj]) -> dict[str, set[str]]:
    """Return the addresses of a Service's ready backends, by the name of the Service's port."""
    found: dict[str, set[str]] = {}
    for one in _slices_of(service, slices):
        ready = {
            str(address)
            for end in _ends(one)
            if mapping_at(end, "conditions").get("ready") is not False
            for address in list_at(end, "addresses")
        }
        for port in list_at(one, "ports"):
            if ready:
                found.setdefault(str(port.get("name") or ""), set()).update(ready)
    return found
