# SPDX-License-Identifier: Apache-2.0
"""What nodes and objects say about the VXLAN overlay, as facts by name: tunnels, routes, ports,
network identifiers.

It judges nothing.  Facts of nodes come from their hosts, which is where the data plane is.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from conformance.catalog import Conditions
from conformance.errors import EnvironmentBroken
from conformance.facts import vxlan_entries
from conformance.facts.calico_api import ADDRESS, TUNNEL
from conformance.facts.node_readings import Hosts
from conformance.facts.objects import CalicoObjects
from conformance.facts.vxlan_entries import ANNOUNCED, DEVICE, Peer, forwarding, listed
from conformance.kube.fields import value_at
from conformance.model.facts import Fact, NodeFacts
from conformance.model.host import HnsNetwork, LinuxFacts

MAC = "projectcalico.org/VXLANTunnelMACAddr"
DEFAULTS = {"vxlanVNI": 4096, "vxlanPort": 4789}
"""What Calico uses where FelixConfiguration does not say (felix/config/config_params.go)."""
CONFIGURED = "the configured VNI"
AS_IT_SHOULD_BE = (None, ANNOUNCED, CONFIGURED)
SECOND = "second address of its block"


class VxlanFacts:
    """Reads of one test."""

    ABOUT = Conditions(modes=("vxlan",))
    """On other clusters there is no such overlay, and nothing that was read of one would say
    anything."""

    def __init__(
        self,
        calico: CalicoObjects,
        hosts: Hosts,
        *,
        looked_into: Collection[str] = (),
        vni_changed: Callable[[], str] = str,
    ) -> None:
        """``looked_into``: Linux nodes that may be looked into for what they do not announce, since
        the run covers them.  ``vni_changed``: which other run has given nodes another VNI just now;
        empty: none."""
        self._hosts = hosts
        self._calico = calico
        self._looked_into = looked_into
        self._vni_changed = vni_changed
        self._macs: dict[str, str] = {}

    def tunnels(self) -> dict[str, Fact[str]]:
        """Where in its node's block the tunnel address of every Windows node lies."""
        blocks = self._calico.blocks()
        now = self._calico.annotations()
        found = {}
        for node in (node.name for node in self._calico.facts.by_os("windows")):
            own = _ipv4(blocks[f"blocks of node {node}"])
            address = now.get(node, {}).get(TUNNEL, "")
            is_second = address in {str(block[1]) for block in own}
            where = SECOND if is_second else f"{address or 'none'}, its blocks are {listed(own)}"
            found[f"tunnel address of node {node}"] = Fact(
                where,
                f"annotation {TUNNEL} {address or '(none)'}; BlockAffinities: {listed(own)}",
            )
        return found

    def routes(self, linux: str) -> dict[str, Fact[str]]:
        """How a Linux node reaches others' blocks, and its own address: ``as announced``, or what
        is otherwise."""
        seen = self._hosts.linux(linux)
        peers = self._peers(linux, macs=False)
        return self._own_address(linux, seen.addresses) | _merged(
            vxlan_entries.routes(seen, peer) for peer in peers
        )

    def forwarding(self, linux: str) -> dict[str, Fact[str]]:
        """Where a Linux node sends frames for every other node's tunnel: ``as announced``, or what
        is otherwise."""
        seen = self._hosts.linux(linux)
        return _merged(forwarding(seen, peer) for peer in self._peers(linux))

    def remote_subnets(self, windows: str) -> dict[str, Fact[str]]:
        """How a Windows node reaches others' blocks, and its own address: ``as announced``, or what
        is otherwise."""
        networks = self._networks(windows)
        peers = self._peers(windows)
        return self._own_address(windows, _management(networks)) | _merged(
            self._remote_subnets(windows, networks, peer) for peer in peers
        )

    def deviations(self, node: str, toward: str) -> dict[str, Fact[str]]:
        """What the overlay needs on a node for another one's pods, and is not as announced or
        configured."""
        peers = self._peers(node, [toward])
        if any(linux.name == node for linux in self._calico.facts.by_os("linux")):
            seen = self._hosts.linux(node)
            found = (
                self._device_vni(seen)
                | self._configured_port(seen)
                | self._own_address(node, seen.addresses)
            )
            found |= _merged(
                read(seen, peer) for peer in peers for read in (vxlan_entries.routes, forwarding)
            )
        else:
            networks = self._networks(node)
            found = self._vsid(node, networks) | self._own_address(node, _management(networks))
            found |= _merged(self._remote_subnets(node, networks, peer) for peer in peers)
        return {name: fact for name, fact in found.items() if fact.value not in AS_IT_SHOULD_BE}

    def configured(self, field: str) -> dict[str, Fact[int]]:
        """``vxlanVNI`` or ``vxlanPort`` of FelixConfiguration default, or Calico's default for
        it."""
        name = f"FelixConfiguration default .spec.{field}"
        found, api = self._calico.default("FelixConfiguration")
        value = value_at(found, "spec", field)
        if value is not None:
            return {name: Fact(int(value), f"{name} ({api})")}
        told = f"{name} ({api}) is not set" if found else "there is no FelixConfiguration default"
        return {name: Fact(DEFAULTS[field], f"{told}, which means the default")}

    def device_port(self, linux: str) -> dict[str, Fact[int]]:
        """UDP port of a Linux node's VXLAN device."""
        return self._device_port(self._hosts.linux(linux))

    def device_vni(self, linux: str) -> dict[str, Fact[str]]:
        """VNI of a Linux node's VXLAN device against the configured one: ``the configured VNI``, or
        which it is."""
        return self._device_vni(self._hosts.linux(linux))

    def vsid(self, windows: str) -> dict[str, Fact[str]]:
        """VSID of a Windows node's pod network against the configured VNI: ``the configured VNI``,
        or which it is.

        A node whose first pod is still to come has no network to read.
        """
        return self._vsid(windows, self._networks(windows))

    def _own_address(self, node: str, own: Collection[str]) -> dict[str, Fact[str]]:
        """Whether the node has the address that it announces; nothing where it announces none, or
        none is known."""
        noted = self._calico.annotations().get(node, {}).get(ADDRESS, "").partition("/")[0]
        if not noted or not own:
            return {}
        value = ANNOUNCED if noted in own else f"{noted} is announced, which the node does not have"
        return {
            f"address of node {node}": Fact(
                value, f"annotation {ADDRESS} {noted}; it has {listed(own)}"
            )
        }

    def _device_vni(self, seen: LinuxFacts) -> dict[str, Fact[str]]:
        link = seen.link(DEVICE)
        told = "no device"
        if link and link.vxlan:
            told = (
                str(link.vxlan.vni) if link.up else f"a device that is down, with {link.vxlan.vni}"
            )
        return {
            f"VNI of {DEVICE} on node {seen.node}": self._against_the_vni(
                told, f"the device on node {seen.node}"
            )
        }

    @staticmethod
    def _device_port(seen: LinuxFacts) -> dict[str, Fact[int]]:
        link = seen.link(DEVICE)
        port = link.vxlan.port if link and link.vxlan else None
        return {
            f"UDP port of {DEVICE} on node {seen.node}": Fact(
                port, f"the device on node {seen.node}: {link or 'none'}"
            )
        }

    def _configured_port(self, seen: LinuxFacts) -> dict[str, Fact[str]]:
        """The port of a Linux node's device where it is not the configured one; nothing where it
        is, or has none."""
        wanted = self._setting("vxlanPort")
        return {
            name: Fact(
                f"{port.value}, the configured port is {wanted.value}",
                f"{port.source}; {wanted.source}",
            )
            for name, port in self._device_port(seen).items()
            if port.value not in (None, wanted.value)
        }

    def _vsid(self, node: str, networks: Sequence[HnsNetwork]) -> dict[str, Fact[str]]:
        vsids = {subnet.vsid for network in networks for subnet in network.subnets}
        told = listed(vsids) if networks else "no network"
        name = f"VSID of HNS network {vxlan_entries.named(networks)} on node {node}"
        return {name: self._against_the_vni(told, f"Get-HnsNetwork on node {node}")}

    def _remote_subnets(
        self, node: str, networks: Sequence[HnsNetwork], peer: Peer
    ) -> dict[str, Fact[str]]:
        """Nothing for a peer without a tunnel, whose blocks are in no pool of the overlay."""
        return (
            vxlan_entries.remote_subnets(node, networks, peer, self._setting("vxlanVNI").value or 0)
            if peer.tunnel
            else {}
        )

    def _against_the_vni(self, told: str, where: str) -> Fact[str]:
        """Raises EnvironmentBroken where it is another, and another run is changing the VNI."""
        wanted = self._setting("vxlanVNI")
        value = CONFIGURED if told == str(wanted.value) else f"{told}, the VNI is {wanted.value}"
        if value != CONFIGURED and (by := self._vni_changed()):
            raise EnvironmentBroken(f"{where}: {value}, while {by}")
        return Fact(
            value,
            f"{where}: {told}; FelixConfiguration default .spec.vxlanVNI = {wanted.value}: {wanted.source}",
        )

    def _setting(self, field: str) -> Fact[int]:
        (wanted,) = self.configured(field).values()
        return wanted

    def _networks(self, windows: str) -> list[HnsNetwork]:
        return [network for network in self._hosts.hns_networks(windows) if network.pods]

    def _peers(self, node: str, only: Collection[str] = (), *, macs: bool = True) -> list[Peer]:
        """The other nodes, or ``only`` those, as they announce themselves now; ``macs``: with those
        not announced.

        To a block that two nodes have no route is right: that is IPAM's matter.
        """
        now = self._calico.annotations()
        blocks = self._calico.blocks(of_all=True)
        owners = Counter(cidr for fact in blocks.values() for cidr in fact.value or [])
        return [
            Peer(
                name=other.name,
                os=other.os,
                address=now[other.name].get(ADDRESS, other.address).partition("/")[0],
                tunnel=now[other.name].get(TUNNEL, ""),
                mac=now[other.name].get(MAC, "").lower() or (self._mac(other) if macs else ""),
                blocks=tuple(
                    block
                    for block in _ipv4(blocks[f"blocks of node {other.name}"])
                    if owners[str(block)] == 1
                ),
            )
            for other in self._calico.facts.nodes
            if other.name != node and other.name in now and (not only or other.name in only)
        ]

    def _mac(self, node: NodeFacts) -> str:
        """MAC address of a Linux node's device, where the node is one that the run looks into; it
        never changes."""
        if node.name not in self._looked_into:
            return ""
        if node.name not in self._macs:
            link = self._hosts.linux(node.name).link(DEVICE)
            self._macs[node.name] = link.mac.lower() if link else ""
        return self._macs[node.name]


def _ipv4(blocks: Fact[list[str]]) -> list[ipaddress.IPv4Network]:
    return [ipaddress.IPv4Network(cidr) for cidr in blocks.value or [] if ":" not in cidr]


def _merged(several: Iterable[Mapping[str, Fact[str]]]) -> dict[str, Fact[str]]:
    return {name: fact for facts in several for name, fact in facts.items()}


def _management(networks: Sequence[HnsNetwork]) -> list[str]:
    """Addresses of the node's own that its networks stand on."""
    return [network.management_address for network in networks if network.management_address]
