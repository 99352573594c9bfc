"""HNS of one Windows node: its networks, and the endpoints on them.

A network keeps the VSID that it was made with.  Calico makes its network "Calico" when there is none, and otherwise
compares type, subnet and gateway only (``ensureVxlanNetworkExists``): a VNI that is delivered later changes nothing
until the network is removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from hybridlab.windows.hns import pod_mac, vtep_mac
from hybridlab.windows.hns_faults import HnsFaults
from hybridlab.windows.reserved import gateway, source_vip

POD_NETWORK, HOST_ENDPOINT = "Calico", "Calico_ep"
EXTERNAL_NETWORK = "External"
"""Made by node-service.ps1 to get a virtual switch; no pod is ever on it."""
EXTERNAL_SUBNET, EXTERNAL_GATEWAY, EXTERNAL_VSID = "192.168.255.0/30", "192.168.255.1", 9999
SMALLEST_VNI = 4096


@dataclass(kw_only=True)
class HnsNetwork:
    """One overlay network."""

    id: str
    name: str
    subnet: str
    gateway: str
    vsid: int


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

    def __init__(self, node: str) -> None:
        self.node = node
        self.faults = HnsFaults()
        self._networks: dict[str, HnsNetwork] = {}
        self._endpoints: dict[str, HnsEndpoint] = {}
        self._listeners: list[Callable[[], None]] = []
        self._add(EXTERNAL_NETWORK, EXTERNAL_SUBNET, EXTERNAL_GATEWAY, EXTERNAL_VSID)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever a network came, went or got another VSID."""
        self._listeners.append(listener)

    # -- networks

    @property
    def networks(self) -> tuple[HnsNetwork, ...]:
        """All networks, the oldest first."""
        return tuple(self._networks.values())

    @property
    def pod_network(self) -> HnsNetwork | None:
        """The network "Calico"; None while there is none."""
        return next((network for network in self._networks.values() if network.name == POD_NETWORK), None)

    @property
    def vsid(self) -> int | None:
        """VSID of the network "Calico"; None while there is none."""
        network = self.pod_network
        return None if network is None else network.vsid

    def ensure_pod_network(self, block: str, vni: int) -> tuple[str, ...]:
        """Make the network "Calico" for the node's IPAM block with this VNI, when it is not there.

        Returns the pods that were on a network of another block, which is removed for it: they have none any more.
        Raises ValueError for a VNI that Windows does not support.
        """
        if vni < SMALLEST_VNI:
            raise ValueError(f"Windows does not support VXLANVNI < {SMALLEST_VNI}")
        gone: tuple[str, ...] = ()
        network = self.pod_network
        if network is not None and (network.subnet, network.gateway) != (block, gateway(block)):
            gone = self.remove_network(network.id)
            network = None
        if network is None:
            network = self._add(POD_NETWORK, block, gateway(block), self.faults.vsid_of_new(vni))
            self._attach(network, HOST_ENDPOINT, source_vip(block), pod_mac(source_vip(block)))
        elif network.vsid != (vsid := self.faults.vsid_of_kept(network.vsid, vni)):
            self.set_vsid(vsid)
        return gone

    def set_vsid(self, vsid: int) -> None:
        """Fault: give the network "Calico" another VSID.  Raises ValueError when there is none."""
        network = self.pod_network
        if network is None:
            raise ValueError(f"{self.node} has no HNS network {POD_NETWORK}")
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

    def _add(self, name: str, subnet: str, gateway_address: str, vsid: int) -> HnsNetwork:
        network = HnsNetwork(id=_identity(), name=name, subnet=subnet, gateway=gateway_address, vsid=vsid)
        self._networks[network.id] = network
        self._changed()
        return network

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    # -- endpoints

    @property
    def endpoints(self) -> tuple[HnsEndpoint, ...]:
        """All endpoints, the oldest first."""
        return tuple(self._endpoints.values())

    @property
    def router_mac(self) -> str:
        """MAC of the node's distributed router, which is its VXLAN tunnel endpoint."""
        return vtep_mac(self.node)

    def attach(self, pod: str, sandbox: str, address: str, mac: str) -> None:
        """An endpoint on "Calico" for a pod, named as Calico's CNI plugin does.  Raises ValueError without network."""
        network = self.pod_network
        if network is None:
            raise ValueError(f"{self.node} has no HNS network {POD_NETWORK}")
        self._attach(network, f"{sandbox}_{POD_NETWORK}", address, mac, pod)

    def attached(self, pod: str) -> bool:
        """Whether a pod has an endpoint."""
        return any(endpoint.pod == pod for endpoint in self._endpoints.values())

    def detach(self, pod: str) -> None:
        """Remove a pod's endpoint; nothing when it has none."""
        for endpoint in self.endpoints:
            if endpoint.pod == pod:
                del self._endpoints[endpoint.id]

    def _attach(self, network: HnsNetwork, name: str, address: str, mac: str, pod: str = "") -> None:
        made = HnsEndpoint(id=_identity(), name=name, network=network.id, address=address, mac=mac, pod=pod)
        self._endpoints[made.id] = made


def _identity() -> str:
    return str(uuid.uuid4()).upper()
