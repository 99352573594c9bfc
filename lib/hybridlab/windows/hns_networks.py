# SPDX-License-Identifier: Apache-2.0
"""HNS of a Windows node: its networks, and the endpoints on them.

A network keeps the VSID that it was created with. Calico creates its network "Calico" if there is
none, and otherwise compares type, subnet and gateway only (``ensureVxlanNetworkExists``): a VSID
that is delivered later changes nothing until the network is removed.
"""

import hashlib
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hybridlab.windows.hns_faults import HnsFaults

POD_NETWORK = "Calico"
HOST_ENDPOINT = "Calico_ep"
EXTERNAL_NETWORK = "External"
"""A network that node-service.ps1 creates to get a virtual switch; no pod is ever on it."""
EXTERNAL_SUBNET = "192.168.255.0/30"
EXTERNAL_GATEWAY = "192.168.255.1"
HYPERV_OUI = "00:15:5d"
"""The first half of the MAC addresses that Hyper-V and HNS assign."""


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """The request to HNS for a network."""

    name: str
    type: str
    """The network's type, as HNS names it."""
    subnet: str
    gateway: str
    vsid: int | None = None
    """The virtual subnet id; None if networks of this type have none."""
    pods_gateway: str = ""
    """The next hop of endpoints for addresses outside their subnet; empty: the gateway."""
    host_endpoint: tuple[str, str] | None = None
    """Address and MAC of the endpoint that the host itself gets with the network."""
    host_endpoint_name: str = HOST_ENDPOINT
    endpoint_name: str = "{sandbox}_{network}"
    """The name that the CNI plugin gives a pod's endpoint."""
    policies: tuple[Mapping[str, Any], ...] = ()
    """Policies of the network in addition to the policies that Felix adds."""
    endpoint_policies: tuple[Mapping[str, Any], ...] = ()
    """Policies of every endpoint on the network."""


@dataclass(kw_only=True)
class HnsNetwork:
    """An existing HNS network."""

    id: str
    spec: NetworkSpec
    vsid: int | None
    """The network's present VSID."""
    changed_at: float = field(default_factory=time.time)
    """The time at which HNS last changed the network, in seconds since 1970."""

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, kw_only=True)
class HnsEndpoint:
    """An endpoint on a network."""

    id: str
    name: str
    network: str
    """The network's id."""
    address: str
    mac: str
    pod: str = ""
    """The pod's uid; empty for the host's own endpoint."""


class Hns:
    """The Host Networking Service of a node."""

    def __init__(self, node: str, external: NetworkSpec, pods: str = POD_NETWORK) -> None:
        """Set up the service. The network ``external`` exists from the beginning; ``pods`` is the
        name of the pods' network."""
        self.node = node
        self.pods = pods
        self.faults = HnsFaults()
        self._networks: dict[str, HnsNetwork] = {}
        self._endpoints: dict[str, HnsEndpoint] = {}
        self._listeners: list[Callable[[], None]] = []
        self._add(external, external.vsid)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever a network is added or removed, or gets another VSID."""
        self._listeners.append(listener)

    @property
    def networks(self) -> tuple[HnsNetwork, ...]:
        return tuple(self._networks.values())

    @property
    def pod_network(self) -> HnsNetwork | None:
        """Return the network of pods; None if there is none."""
        return next(
            (network for network in self._networks.values() if network.name == self.pods), None
        )

    @property
    def vsid(self) -> int | None:
        """Return the VSID of the network of pods; None if there is no such network."""
        network = self.pod_network
        return None if network is None else network.vsid

    def ensure_pod_network(self, spec: NetworkSpec) -> tuple[str, ...]:
        """Create the network of pods, unless it exists for the same subnet.

        A network of another subnet is removed first. Return the pods that were on it; they have no
        network any longer.
        """
        gone: tuple[str, ...] = ()
        network = self.pod_network
        if network is not None and (network.spec.subnet, network.spec.gateway) != (
            spec.subnet,
            spec.gateway,
        ):
            gone = self.remove_network(network.id)
            network = None
        if network is None:
            self._add(spec, self.faults.vsid_of_new(spec.vsid))
        elif network.vsid != (vsid := self.faults.vsid_of_kept(network.vsid, spec.vsid)):
            self._set_vsid(network, vsid)
        return gone

    def set_vsid(self, vsid: int) -> None:
        """Give the network of pods another VSID, for a fault. Raise ValueError if there is no
        network.
        """
        network = self.pod_network
        if network is None:
            raise ValueError(f"{self.node} has no HNS network {self.pods}")
        self._set_vsid(network, vsid)

    def _set_vsid(self, network: HnsNetwork, vsid: int | None) -> None:
        network.vsid = vsid
        network.changed_at = time.time()
        self._changed()

    def remove_network(self, identity: str) -> tuple[str, ...]:
        """Remove a network with its endpoints; return the pods that were on it. Raise KeyError for
        an unknown network."""
        network = self._networks.pop(identity)
        if network.name == self.pods:
            self.faults.removed_vsid = network.vsid
        gone = [endpoint for endpoint in self._endpoints.values() if endpoint.network == identity]
        for endpoint in gone:
            del self._endpoints[endpoint.id]
        self._changed()
        return tuple(endpoint.pod for endpoint in gone if endpoint.pod)

    def _add(self, spec: NetworkSpec, vsid: int | None) -> None:
        network = HnsNetwork(id=_identity(), spec=spec, vsid=vsid)
        self._networks[network.id] = network
        if spec.host_endpoint is not None:
            self._attach(network, spec.host_endpoint_name, *spec.host_endpoint)
        self._changed()

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    @property
    def endpoints(self) -> tuple[HnsEndpoint, ...]:
        return tuple(
            endpoint
            for endpoint in self._endpoints.values()
            if endpoint.pod or not self.faults.bare
        )

    @property
    def host_endpoint(self) -> str | None:
        """Return the address of the host's own endpoint in the network of pods; None if there is
        none."""
        return next(
            (endpoint.address for endpoint in self.endpoints if not endpoint.pod),
            None,
        )

    def attach(self, pod: str, sandbox: str, address: str, mac: str) -> None:
        """Create an endpoint on the network of pods, with the name that the CNI plugin gives. Raise
        ValueError if there is no network."""
        network = self.pod_network
        if network is None:
            raise ValueError(f"{self.node} has no HNS network {self.pods}")
        name = network.spec.endpoint_name.format(sandbox=sandbox, network=self.pods)
        self._attach(network, name, address, mac, pod)

    def attached(self, pod: str) -> bool:
        return any(endpoint.pod == pod for endpoint in self._endpoints.values())

    def detach(self, pod: str) -> None:
        for endpoint in self.endpoints:
            if endpoint.pod == pod:
                del self._endpoints[endpoint.id]

    def _attach(
        self, network: HnsNetwork, name: str, address: str, mac: str, pod: str = ""
    ) -> None:
        made = HnsEndpoint(
            id=_identity(), name=name, network=network.id, address=address, mac=mac, pod=pod
        )
        self._endpoints[made.id] = made


def endpoint_mac(node: str, address: str) -> str:
    """Return the MAC of an endpoint from HNS' own range; it depends on node and address only."""
    tail = hashlib.sha256(f"{node}/{address}".encode()).digest()[:3]
    return f"{HYPERV_OUI}:" + ":".join(f"{byte:02x}" for byte in tail)


def _identity() -> str:
    return str(uuid.uuid4()).upper()
