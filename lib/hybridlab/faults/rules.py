"""Faults that are rules in the data plane's fault chains; evidence is what the kernel lists under the fault's name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network

from hybridlab.dataplane.contract import Dataplane
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault

FABRIC = "fabric"
NodeRules = Mapping[str, list[tuple[str, str]]]
"""Scope (a node's name or ``fabric``) to (chain, rule)."""


class RuleFault(Fault):
    """Rules at one or more scopes."""

    def __init__(self, dataplane: Dataplane, identity: str, rules: NodeRules) -> None:
        self._dataplane, self._identity, self._rules = dataplane, identity, rules

    async def inject(self) -> None:
        """Add the rules."""
        await asyncio.gather(
            *(self._dataplane.set_fault_rules(scope, self._identity, rules) for scope, rules in self._rules.items())
        )

    async def heal(self) -> None:
        """Take them away."""
        await asyncio.gather(*(self._dataplane.clear_fault_rules(scope, self._identity) for scope in self._rules))

    async def evidence(self) -> list[str]:
        """The rules as the kernel has them."""
        scopes = list(self._rules)
        found = await asyncio.gather(*(self._dataplane.fault_rules(scope) for scope in scopes))
        return [
            f"{scope} {rule}"
            for scope, by_name in zip(scopes, found, strict=True)
            for rule in by_name.get(self._identity, ())
        ]

    async def verified(self) -> bool:
        """Every scope has all of its rules."""
        found = await asyncio.gather(*(self._dataplane.fault_rules(scope) for scope in self._rules))
        return all(
            len(by_name.get(self._identity, ())) == len(rules)
            for by_name, rules in zip(found, self._rules.values(), strict=True)
        )


def udp4789_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """VXLAN does not pass the underlay: between all nodes, to and from one, or between two."""
    scope, drop = parameters["scope"], "udp dport 4789 drop"
    if scope == "all":
        _refuse_unused(parameters, scope, "node", "peer")
        rules = [drop]
    else:
        one = lab.address(lab.node(parameters["node"]))
        if scope == "node":
            _refuse_unused(parameters, scope, "peer")
            rules = [f"ip saddr {one} {drop}", f"ip daddr {one} {drop}"]
        else:
            other = lab.address(lab.node(parameters["peer"]))
            rules = [f"ip saddr {one} ip daddr {other} {drop}", f"ip saddr {other} ip daddr {one} {drop}"]
    return RuleFault(lab.dataplane, identity, {FABRIC: [("f_fwd", rule) for rule in rules]})


def mtu_black_hole(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The underlay loses VXLAN packets over a size without a word; small ones pass."""
    size = parameters["bytes"]
    if not size.isdigit() or not 100 <= int(size) < 65536:
        raise BadFault(f"bytes is {size!r}, expected a number from 100 to 65535")
    return RuleFault(lab.dataplane, identity, {FABRIC: [("f_fwd", f"udp dport 4789 ip length > {int(size)} drop")]})


INNER_FRAGMENT = "@th,288,16 & 0x3fff != 0"
"""Matches VXLAN that carries a piece of a datagram: after 8 bytes of UDP, 8 of VXLAN and 14 of Ethernet come the flag
More Fragments and the offset, 6 bytes into the inner IPv4 header."""


def fragments_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Pieces of datagrams that a node's pods send to other nodes, or get from there, are lost on the way."""
    address, way = lab.address(lab.node(parameters["node"])), parameters["way"]
    ends = {"out": ("saddr",), "in": ("daddr",), "both": ("saddr", "daddr")}[way]
    rules = [("f_fwd", f"ip {end} {address} udp dport 4789 {INNER_FRAGMENT} drop") for end in ends]
    return RuleFault(lab.dataplane, identity, {FABRIC: rules})


def policy_not_enforced(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node lets everything, or everything of one protocol, past policy."""
    node, protocol = lab.node(parameters["node"]), parameters["protocol"]
    what = "" if protocol == "all" else f"meta l4proto {protocol} "
    rules = [("f_policy", f'{way} "cali*" {what}accept') for way in ("iifname", "oifname")]
    return RuleFault(lab.dataplane, identity, {node: rules})


REFUSALS = {
    "rst": "meta l4proto tcp reject with tcp reset",
    "icmp": "reject with icmp type admin-prohibited",
}


def policy_refuses(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """What policy denies on a node is answered, with a TCP reset or an ICMP error, instead of vanishing."""
    rules = [("f_deny", REFUSALS[parameters["with"]])]
    return RuleFault(lab.dataplane, identity, dict.fromkeys(lab.nodes(parameters["node"]), rules))


def dns_silent(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """What a node's pods ask the cluster's DNS gets no answer."""
    over = "{ tcp, udp }" if parameters["over"] == "all" else parameters["over"]
    rule = f"ip daddr {lab.calico.dns_address} meta l4proto {over} th dport 53 drop"
    rules = [("f_raw", rule), ("f_out", rule)]
    return RuleFault(lab.dataplane, identity, dict.fromkeys(lab.nodes(parameters["node"]), rules))


def snat_pod_to_pod(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node rewrites the source of its pods on their way to other pods, of all they send or of one protocol."""
    node, protocol = lab.node(parameters["node"]), parameters["protocol"]
    blocks = lab.blocks(node)
    if not blocks:
        raise BadFault(f"node {node} has no IPAM block, so no pod of its own to rewrite")
    own = f"ip saddr {{ {', '.join(blocks)} }}" + ("" if protocol == "all" else f" meta l4proto {protocol}")
    rules = [
        ("f_snat", f'oifname "vxlan.calico" {own} masquerade'),
        ("f_snat", f'oifname "cali*" {own} snat to {lab.address(node)}'),
    ]
    return RuleFault(lab.dataplane, identity, {node: rules})


def pods_swapped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """On one port pods of a node with neighbouring addresses are asked in each other's place."""
    node, port = lab.node(parameters["node"]), parameters["port"]
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise BadFault(f"port is {port!r}, expected a number from 1 to 65535")
    addresses = [address for block in lab.blocks(node) for address in IPv4Network(block)]
    if not addresses:
        raise BadFault(f"node {node} has no IPAM block, so no pods to swap")
    pairs = ", ".join(f"{address} : {IPv4Address(int(address) ^ 1)}" for address in addresses)
    rule = f"meta l4proto {{ tcp, udp }} th dport {int(port)} dnat ip to ip daddr map {{ {pairs} }}"
    return RuleFault(lab.dataplane, identity, {node: [("f_dnat", rule)]})


class ServiceBackendMissing(Fault):
    """A node knows no backend of a Service: what is sent to it there goes nowhere."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab, self._identity, self._service = lab, identity, parameters["service"]
        self._node = lab.node(parameters["node"])
        self._fault = RuleFault(lab.dataplane, identity, {})

    async def inject(self) -> None:
        """Drop what goes to the Service's ClusterIP and node ports."""
        spec = (await self._lab.service(self._service))["spec"]
        drops = []
        for port in spec.get("ports") or ():
            protocol = port.get("protocol", "TCP").lower()
            drops.append(f"ip daddr {spec['clusterIP']} {protocol} dport {port['port']} drop")
            if port.get("nodePort"):
                drops.append(f"fib daddr type local {protocol} dport {port['nodePort']} drop")
        rules = [(chain, drop) for chain in ("f_raw", "f_out") for drop in drops]
        self._fault = RuleFault(self._lab.dataplane, self._identity, {self._node: rules})
        await self._fault.inject()

    async def heal(self) -> None:
        """Let it through again."""
        await self._fault.heal()

    async def evidence(self) -> list[str]:
        """The rules as the kernel has them."""
        return await self._fault.evidence()

    async def verified(self) -> bool:
        """All rules are there, and there is one."""
        return bool(await self.evidence()) and await self._fault.verified()


def _refuse_unused(parameters: Mapping[str, str], scope: str, *names: str) -> None:
    for name in names:
        if parameters[name]:
            raise BadFault(f"scope {scope} takes no {name}; {name} is {parameters[name]!r}")
