# SPDX-License-Identifier: Apache-2.0
"""HNS of one Windows node: its networks, and the endpoints on them.

A network keeps the VSID that it was made with.  Calico makes its network "Calico" when there is none, and otherwise
compares type, subnet and gateway only (``ensureVxlanNetworkExists``): a VSID that is delivered later changes nothing
until the network is removed.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hybridlab.windows.hns_faults import HnsFaults

POD_NETWORK = "Calico"
HOST_ENDPOINT = "Calico_ep"
EXTERNAL_NETWORK = "External"
"""Made by node-service.ps1 to get a virtual switch; no pod is ever on it."""
EXTERNAL_SUBNET = "192.168.255.0/30"
EXTERNAL_GATEWAY = "192.168.255.1"
HYPERV_OUI = "00:15:5d"
"""First half of the MAC addresses that Hyper-V and HNS give."""


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """How HNS is asked to make a network."""

    name: str
    type: str
    """As HNS calls it."""
    subnet: str
    gateway: str
    vsid: int | None = None
    """Virtual subnet id; None where networks of this type have none."""
    pods_gateway: str = ""
    """Where endpoints send what is not on their subnet; empty: to the gateway."""
    host_endpoint: tuple[str, str] | None = None
    """Address and MAC of the endpoint that the host itself gets with the network."""
    policies: tuple[Mapping[str, Any], ...] = ()
    """What the network shows besides what Felix puts on it."""
    endpoint_policies: tuple[Mapping[str, Any], ...] = ()
    """What every endpoint on it has."""


@dataclass(kw_only=True)
class HnsNetwork:
    """One network."""

    id: str
    spec: NetworkSpec
    vsid: int | None
    """As it is now."""

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, kw_only=True)
class HnsEndpoint:
    """One endpoint on a network."""

    id: str
    name: str
    network: str
    """The network's id."""
    address: str
    mac: str
    pod: str = ""
    """Uid of the pod; empty for the host's own endpoint."""


class Hns:
    """The Host Networking Service of one node."""

    def __init__(self, node: str, external: NetworkSpec) -> None:
        """``external`` is there from the beginning."""
        self.node = node
        self.faults = HnsFaults()
        self._networks: dict[str, HnsNetwork] = {}
        self._endpoints: dict[str, HnsEndpoint] = {}
        self._listeners: list[Callable[[], None]] = []
        self._add(external, external.vsid)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever a network came, went or got another VSID."""
        self._listeners.append(listener)

    @property
    def networks(self) -> tuple[HnsNetwork, ...]:
        return tuple(self._networks.values())

    @property
    def pod_network(self) -> HnsNetwork | None:
        """The network "Calico"; None while there is none."""
        return next(
            (network for network in self._networks.values() if network.name == POD_NETWORK), None
        )

    @property
    def vsid(self) -> int | None:
        """VSID of the network "Calico"; None while there is none."""
        network = self.pod_network
        return None if network is None else network.vsid

    def ensure_pod_network(self, spec: NetworkSpec) -> tuple[str, ...]:
        """Make the network "Calico" as asked, when it is not there for the same subnet.

        Returns the pods that were on a network of another subnet, which is removed for it: they have none any more.
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
        """Fault: give the network "Calico" another VSID.  Raises ValueError when there is none."""
        network = self.pod_network
        if network is None:
            raise ValueError(f"{self.node} has no HNS network {POD_NETWORK}")
        self._set_vsid(network, vsid)

    def _set_vsid(self, network: HnsNetwork, vsid: int | None) -> None:
        network.vsid = vsid
        self._changed()

    def remove_network(self, identity: str) -> tuple[str, ...]:
        """Remove a network with its endpoints; the pods that were on it.  Raises KeyError for an unknown one."""
        network = self._networks.pop(identity)
        if network.name == POD_NETWORK:
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
            self._attach(network, HOST_ENDPOINT, *spec.host_endpoint)
        self._changed()

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    @property
    def endpoints(self) -> tuple[HnsEndpoint, ...]:
        return tuple(
            one
            for one in self._endpoints.values()
            if one.name != HOST_ENDPOINT or not self.faults.bare
        )

    @property
    def host_endpoint(self) -> str | None:
        """Address of the host's own endpoint among the pods; None while there is none."""
        return next(
            (endpoint.address for endpoint in self.endpoints if endpoint.name == HOST_ENDPOINT),
            None,
        )

    def attach(self, pod: str, sandbox: str, address: str, mac: str) -> None:
        """An endpoint on "Calico" for a pod, named as Calico's CNI plugin does.  Raises ValueError without network."""
        network = self.pod_network
        if network is None:
            raise ValueError(f"{self.node} has no HNS network {POD_NETWORK}")
        self._attach(network, f"{sandbox}_{POD_NETWORK}", address, mac, pod)

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


def _identity() -> str:
    return str(uuid.uuid4()).upper()
