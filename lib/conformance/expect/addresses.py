# SPDX-License-Identifier: Apache-2.0
"""The source addresses that a server may receive in a sound cluster: the client's own address, or
the address of its node. They are computed from facts and workloads alone. The test decides which of
these addresses a claim allows."""

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from conformance.errors import MissingCapability
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact, Facts

OWN = "projectcalico.org/IPv4Address"
"""The annotation that names the address which Calico chose among the node's addresses."""
TUNNEL = "projectcalico.org/IPv4VXLANTunnelAddr"
"""The annotation that names the address of the node's end of the overlay."""

BACKEND = "flannel.alpha.coreos.com/backend-type"
"""The annotation that names flannel's backend, which carries the packets of the node's pods."""


@dataclass(frozen=True)
class Addresses:
    """The addresses of a cluster's nodes and pods."""

    facts: Facts
    source_vip: Callable[[str], Fact[str]] = lambda node: Fact(
        None, f"source VIP of node {node} was not read"
    )
    """The ``--source-vip`` that kube-proxy on a Windows node was given, for overlays that are not
    Calico's."""

    @staticmethod
    def of_pod(client: Workload) -> list[str]:
        """Return a pod's own address alone."""
        return [client.address]

    def of_node(self, there: Workload) -> list[str]:
        """Return a node's addresses that servers may receive: its own address, and its overlay
        device's address when the node sends to pods. Without an overlay, a Windows host also has an
        address in its pods' network: the second after the network's own."""
        return [*self._own(there), *self._devices(there.node), *self._host_endpoints(there)]

    def behind(self, client: Workload) -> list[str]:
        """Return a pod's own address, and the addresses that its node may put in its place on the
        path through a Service. On Windows these include kube-proxy's ``--source-vip``. In Calico's
        overlay this is the address after the overlay's own. In flannel's overlay it may be any
        address of the node's podCIDR, since host-local assigns it."""
        tunnel = self._tunnel(client.node)
        found = [client.address, *self.of_node(client)]
        if client.os == "windows" and tunnel:
            found.append(str(ipaddress.IPv4Address(tunnel) + 1))
        elif self.plane(client.node).value == "overlay":
            found += self._networks(client.node)
        return found

    def through_service(self, client: Workload, backend: Workload) -> tuple[str, ...]:
        """Return the address with which a Windows node without direct server return replaces a
        local pod's address.

        In an overlay, this is kube-proxy's ``--source-vip`` for backends that are pods, and the
        node's address for all other targets. Without an overlay, it is always the node's address.

        In Calico's overlay, the source VIP is the address after the tunnel's. Flannel's source VIP
        may be any address of the podCIDR, since host-local assigns it; so kube-proxy's own setting
        is read.

        RKE2 gives kube-proxy a source VIP without an overlay, too
        (pkg/executor/pebinary/pebinary.go). Nobody has observed which address it uses there, so the
        source VIP and the node's address are both right.

        Raise MissingCapability if the plane, the tunnel's address or the source VIP is not known.
        """
        plane = self.plane(client.node)
        if plane.value == "l2bridge" or (plane.value == "overlay" and backend.host_network):
            vips = self._host_endpoints(client) if self.facts.platform.value == "rke2" else []
            return *self._own(client), *vips
        tunnel = self._tunnel(client.node)
        if plane.value == "overlay" and not tunnel and (vip := self.source_vip(client.node)).value:
            return (vip.value,)
        if plane.value != "overlay" or not tunnel:
            raise MissingCapability(
                f"the source address of pods on node {client.node} depends on an unknown value: "
                "the pod network "
                f"({plane.value or 'unknown'}: {plane.source}), the annotation {TUNNEL} "
                f"({tunnel or 'none'}), or "
                f"kube-proxy's --source-vip ({self.source_vip(client.node).source})",
                "let the run's user read nodes and Calico's objects, and allow HostProcess pods",
            )
        return (str(ipaddress.IPv4Address(tunnel) + 1),)

    def plane(self, node: str) -> Fact[str]:
        """Return the network of a Windows node's pods: ``overlay`` or ``l2bridge``."""
        return next(
            (item.plane for item in self.facts.nodes if item.name == node),
            Fact(None, f"the cluster has no node {node}"),
        )

    def named(self, address: str, client: Workload) -> str:
        """Return a client's address with its owner: ``10.0.0.11 (address of node windows-1)``."""
        tunnel = self._tunnel(client.node)
        owners = {
            client.address: f"{client.namespace}/{client.pod}",
        }
        owners |= dict.fromkeys(self._own(client), f"address of node {client.node}")
        owners |= dict.fromkeys(self._host_endpoints(client), f"host endpoint of {client.node}")
        owners |= dict.fromkeys(self._devices(client.node), f"tunnel address of {client.node}")
        if tunnel:
            owners[str(ipaddress.IPv4Address(tunnel) + 1)] = f"source VIP of {client.node}"
        return f"{address} ({owners[address]})" if address in owners else address

    def _tunnel(self, name: str) -> str:
        return self._annotation(name, TUNNEL)

    def _devices(self, name: str) -> list[str]:
        """Return the addresses of a node's overlay devices. Flannel's device has the podCIDR's
        first address (flannel-io/flannel pkg/backend/vxlan/vxlan.go)."""
        if tunnel := self._tunnel(name):
            return [tunnel]
        if self._annotation(name, BACKEND) != "vxlan":
            return []
        return [network.partition("/")[0] for network in self._networks(name)]

    def _own(self, there: Workload) -> list[str]:
        """Return a node's address, and the address that Calico chose if it differs."""
        chosen = self._annotation(there.node, OWN).partition("/")[0]
        return list(dict.fromkeys(filter(None, (there.node_address, chosen))))

    def _annotation(self, name: str, key: str) -> str:
        return next(
            (node.annotations.get(key, "") for node in self.facts.nodes if node.name == name), ""
        )

    def _networks(self, name: str) -> list[str]:
        """Return the IPv4 networks from which a Windows node's pods have addresses."""
        networks = [
            network
            for node in self.facts.nodes
            if node.name == name
            for network in node.pod_networks
        ]
        return [network for network in networks if ":" not in network]

    def _host_endpoints(self, there: Workload) -> list[str]:
        """Return the addresses of a Windows host in its pods' networks (``Calico_ep``), which exist
        only without an overlay."""
        if there.os != "windows" or self.plane(there.node).value != "l2bridge":
            return []
        networks = map(ipaddress.IPv4Network, self._networks(there.node))
        return [str(network[2]) for network in networks if network.num_addresses > 2]


def among(address: str, allowed: Iterable[str]) -> bool:
    """Return whether an address is among these addresses and networks (``10.244.2.0/24``)."""
    parsed = ipaddress.ip_address(address)
    return any(parsed in ipaddress.ip_network(network) for network in allowed if ":" not in network)
