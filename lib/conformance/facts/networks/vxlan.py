# SPDX-License-Identifier: Apache-2.0
"""Facts about the VXLAN overlay from nodes and objects, by name: tunnels, routes, ports, network
identifiers.

The module judges nothing. Facts about nodes are read on their hosts, because the data plane is
there.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from conformance.catalog import Conditions
from conformance.errors import EnvironmentBroken
from conformance.facts.calico_api import ADDRESS, TUNNEL
from conformance.facts.felix_settings import DEFAULTS, FelixSettings
from conformance.facts.networks import vxlan_entries
from conformance.facts.networks.vxlan_entries import ANNOUNCED, DEVICE, Peer, forwarding, listed
from conformance.facts.node_readings import Hosts
from conformance.facts.objects import CalicoObjects
from conformance.model.facts import Fact, NodeFacts
from conformance.model.host import HnsNetwork, LinuxFacts

MAC = "projectcalico.org/VXLANTunnelMACAddr"
CONFIGURED = "the configured VNI"
AS_IT_SHOULD_BE = (None, ANNOUNCED, CONFIGURED)
SECOND = "second address of its block"


class VxlanFacts:
    """The facts about the overlay that a single test reads."""

    ABOUT = Conditions(modes=("vxlan",))
    """The only mode in which facts about the overlay are read; in other clusters these facts would
    be meaningless."""

    def __init__(
        self,
        calico: CalicoObjects,
        hosts: Hosts,
        *,
        looked_into: Collection[str] = (),
        vni_changed: Callable[[], str] = str,
        overriding: Mapping[str, Mapping[str, Fact[str]]] | None = None,
    ) -> None:
        """Set up the facts.

        ``looked_into``: Linux nodes that the run covers, so that the test may read facts which they
        do not announce. ``vni_changed``: a function that returns a text about another run that has
        just changed the VNI of nodes, or an empty string if there is none. ``overriding``: the
        settings that override FelixConfiguration default (:mod:`conformance.facts.felix_settings`).
        """
        self._felix = FelixSettings(lambda: calico.default("FelixConfiguration"), overriding or {})
        self._hosts = hosts
        self._calico = calico
        self._looked_into = looked_into
        self._vni_changed = vni_changed
        self._macs: dict[str, str] = {}

    def tunnels(self) -> dict[str, Fact[str]]:
        """Return the position of every Windows node's tunnel address in the node's block."""
        blocks = self._calico.blocks()
        now = self._calico.annotations()
        found = {}
        for node in (node.name for node in self._calico.facts.by_os("windows")):
            own = _ipv4(blocks[f"blocks of node {node}"])
            address = now.get(node, {}).get(TUNNEL, "")
            is_second = address in {str(block[1]) for block in own}
            where = (
                SECOND if is_second else f"{address or 'none'}, but its blocks are {listed(own)}"
            )
            found[f"tunnel address of node {node}"] = Fact(
                where,
                f"annotation {TUNNEL} {address or '(none)'}; BlockAffinities: {listed(own)}",
            )
        return found

    def routes(self, linux: str) -> dict[str, Fact[str]]:
        """Return the facts about a Linux node's routes to the blocks of other nodes, and about the
        node's own address: ``as announced``, or the deviation."""
        observed = self._hosts.linux(linux)
        peers = self._peers(linux, macs=False)
        return self._own_address(linux, observed.addresses) | _merged(
            vxlan_entries.routes(observed, peer) for peer in peers
        )

    def forwarding(self, linux: str) -> dict[str, Fact[str]]:
        """Return where a Linux node sends frames for every other node's tunnel: ``as announced``,
        or the deviation."""
        observed = self._hosts.linux(linux)
        return _merged(forwarding(observed, peer) for peer in self._peers(linux))

    def remote_subnets(self, windows: str) -> dict[str, Fact[str]]:
        """Return the facts about a Windows node's entries for the blocks of other nodes, and about
        the node's own address: ``as announced``, or the deviation."""
        networks = self._networks(windows)
        peers = self._peers(windows)
        return self._own_address(windows, _management(networks)) | _merged(
            self._remote_subnets(windows, networks, peer) for peer in peers
        )

    def deviations(self, node: str, toward: str) -> dict[str, Fact[str]]:
        """Return the entries of a node for the pods of node ``toward`` that are not as announced or
        configured."""
        peers = self._peers(node, [toward])
        if any(linux.name == node for linux in self._calico.facts.by_os("linux")):
            observed = self._hosts.linux(node)
            found = (
                self._own_address(node, observed.addresses)
                | self._device_vni(observed)
                | self._configured_port(observed)
            )
            found |= _merged(
                read(observed, peer)
                for peer in peers
                for read in (vxlan_entries.routes, forwarding)
            )
        else:
            networks = self._networks(node)
            found = self._own_address(node, _management(networks)) | self._vsid(node, networks)
            found |= _merged(self._remote_subnets(node, networks, peer) for peer in peers)
        return {name: fact for name, fact in found.items() if fact.value not in AS_IT_SHOULD_BE}

    def configured(self, field: str) -> dict[str, Fact[int]]:
        """Return each configured value of ``vxlanVNI`` or ``vxlanPort`` with its source, or
        Calico's default.
        """
        return {
            name: _number(field, fact)
            for name, fact in self._felix.everywhere(field, self._calico.facts.nodes).items()
        }

    def device_port(self, linux: str) -> dict[str, Fact[int]]:
        """Return the UDP port of a Linux node's VXLAN device."""
        return self._device_port(self._hosts.linux(linux))

    def device_vni(self, linux: str) -> dict[str, Fact[str]]:
        """Return ``the configured VNI`` if a Linux node's VXLAN device has it, else the VNI of the
        device."""
        return self._device_vni(self._hosts.linux(linux))

    def vsid(self, windows: str) -> dict[str, Fact[str]]:
        """Return ``the configured VNI`` if the pod network of a Windows node has it as its VSID,
        else the VSID.

        A node that never had a pod has no network to read.
        """
        return self._vsid(windows, self._networks(windows))

    def _own_address(self, node: str, own: Collection[str]) -> dict[str, Fact[str]]:
        """Return a fact about whether the node has the address that it announces. Return no fact if
        the node's own addresses are unknown, or no node announces an address by annotation."""
        announced = self._calico.annotations()
        noted = announced.get(node, {}).get(ADDRESS, "").partition("/")[0]
        if not own or not _announcing(announced):
            return {}
        if not noted:
            missing = f"annotation {ADDRESS} is missing, so no node has a route to its pods"
            return {f"address of node {node}": Fact("none is announced", missing)}
        value = (
            ANNOUNCED if noted in own else f"{noted} is announced, but the node does not have it"
        )
        return {
            f"address of node {node}": Fact(
                value, f"annotation {ADDRESS} {noted}; the node has {listed(own)}"
            )
        }

    def _device_vni(self, host: LinuxFacts) -> dict[str, Fact[str]]:
        link = host.link(DEVICE)
        text = "no device"
        if link and link.vxlan:
            text = (
                str(link.vxlan.vni)
                if link.up
                else f"a device that is down, with VNI {link.vxlan.vni}"
            )
        return {
            f"VNI of {DEVICE} on node {host.node}": self._against_the_vni(
                text, f"the device on node {host.node}", host.node
            )
        }

    @staticmethod
    def _device_port(host: LinuxFacts) -> dict[str, Fact[int]]:
        link = host.link(DEVICE)
        port = link.vxlan.port if link and link.vxlan else None
        return {
            f"UDP port of {DEVICE} on node {host.node}": Fact(
                port, f"the device on node {host.node}: {link or 'none'}"
            )
        }

    def _configured_port(self, host: LinuxFacts) -> dict[str, Fact[str]]:
        """Return the port of a Linux node's VXLAN device if it differs from the configured port; an
        empty mapping if the ports are equal, or if the node has no such device."""
        wanted = self._setting("vxlanPort", host.node)
        return {
            name: Fact(
                f"{port.value}, but the configured port is {wanted.value}",
                f"{port.source}; {wanted.source}",
            )
            for name, port in self._device_port(host).items()
            if port.value not in (None, wanted.value)
        }

    def _vsid(self, node: str, networks: Sequence[HnsNetwork]) -> dict[str, Fact[str]]:
        text = (
            listed({subnet.vsid for network in networks for subnet in network.subnets})
            if networks
            else "no network"
        )
        name = f"VSID of HNS network {vxlan_entries.named(networks)} on node {node}"
        return {name: self._against_the_vni(text, f"Get-HnsNetwork on node {node}", node)}

    def _remote_subnets(
        self, node: str, networks: Sequence[HnsNetwork], peer: Peer
    ) -> dict[str, Fact[str]]:
        """Return a Windows node's entries for a peer; an empty mapping for a peer without a tunnel,
        whose blocks are in no pool of the overlay."""
        return (
            vxlan_entries.remote_subnets(
                node, networks, peer, self._setting("vxlanVNI", node).value or 0
            )
            if peer.tunnel
            else {}
        )

    def _against_the_vni(self, told: str, where: str, node: str) -> Fact[str]:
        """Compare a VNI with the configured VNI. Raise EnvironmentBroken if they differ while
        another run is changing the VNI."""
        wanted = self._setting("vxlanVNI", node)
        value = (
            CONFIGURED
            if told == str(wanted.value)
            else f"{told}, but the configured VNI is {wanted.value}"
        )
        if value != CONFIGURED and (by := self._vni_changed()):
            raise EnvironmentBroken(f"{where}: {value}, while {by}")
        return Fact(
            value,
            f"{where}: {told}; the configured VNI is {wanted.value}: {wanted.source}",
        )

    def _setting(self, field: str, node: str) -> Fact[int]:
        return _number(
            field,
            self._felix.on(
                field, next(one for one in self._calico.facts.nodes if one.name == node)
            ),
        )

    def _networks(self, windows: str) -> list[HnsNetwork]:
        return [network for network in self._hosts.hns_networks(windows) if network.pods]

    def _peers(self, node: str, only: Collection[str] = (), *, macs: bool = True) -> list[Peer]:
        """Return the other nodes (or only those in ``only``), as they announce themselves now.

        ``macs``: also read MAC addresses that nodes do not announce. A block that two nodes claim
        is left out: no route to such a block is correct, and another claim covers the fault.
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
                is_announced=ADDRESS in now[other.name] or not _announcing(now),
            )
            for other in self._calico.facts.nodes
            if other.name != node and other.name in now and (not only or other.name in only)
        ]

    def _mac(self, node: NodeFacts) -> str:
        """Return the MAC address of a Linux node's device, which never changes; an empty string if
        the run does not read the node."""
        if node.name not in self._looked_into:
            return ""
        if node.name not in self._macs:
            link = self._hosts.linux(node.name).link(DEVICE)
            self._macs[node.name] = link.mac.lower() if link else ""
        return self._macs[node.name]


def _announcing(annotations: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether nodes of this cluster announce their addresses by annotation."""
    return any(ADDRESS in of_node for of_node in annotations.values())


def _number(field: str, told: Fact[str]) -> Fact[int]:
    """Return a setting of VXLAN as a number, or Calico's default if the setting is absent."""
    if told.value is None:
        return Fact(DEFAULTS[field], f"{told.source}, so the default applies")
    return Fact(int(told.value) if told.value.isdecimal() else None, told.source)


def _ipv4(blocks: Fact[list[str]]) -> list[ipaddress.IPv4Network]:
    return [ipaddress.IPv4Network(cidr) for cidr in blocks.value or [] if ":" not in cidr]


def _merged(several: Iterable[Mapping[str, Fact[str]]]) -> dict[str, Fact[str]]:
    return {name: fact for facts in several for name, fact in facts.items()}


def _management(networks: Sequence[HnsNetwork]) -> list[str]:
    """Return the node's own addresses on which its HNS networks are based."""
    return [network.management_address for network in networks if network.management_address]
