"""Faults of what carries VXLAN: the underlay drops its packets, or some of them."""

from __future__ import annotations

from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault, FaultType, Parameter
from hybridlab.faults.rules import FABRIC, RuleFault
from hybridlab.networks.vxlan.settings import DEFAULT_PORT


def udp4789_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """VXLAN does not pass the underlay: between all nodes, to and from one, or between two."""
    scope, drop = parameters["scope"], f"udp dport {DEFAULT_PORT} drop"
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
    return RuleFault(
        lab.dataplane, identity, {FABRIC: [("f_fwd", f"udp dport {DEFAULT_PORT} ip length > {int(size)} drop")]}
    )


INNER_FRAGMENT = "@th,288,16 & 0x3fff != 0"
"""Matches VXLAN that carries a piece of a datagram: after 8 bytes of UDP, 8 of VXLAN and 14 of Ethernet come the flag
More Fragments and the offset, 6 bytes into the inner IPv4 header."""


def fragments_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Pieces of datagrams that a node's pods send to other nodes, or get from there, are lost on the way."""
    address, way = lab.address(lab.node(parameters["node"])), parameters["way"]
    ends = {"out": ("saddr",), "in": ("daddr",), "both": ("saddr", "daddr")}[way]
    rules = [("f_fwd", f"ip {end} {address} udp dport {DEFAULT_PORT} {INNER_FRAGMENT} drop") for end in ends]
    return RuleFault(lab.dataplane, identity, {FABRIC: rules})


def _refuse_unused(parameters: Mapping[str, str], scope: str, *names: str) -> None:
    for name in names:
        if parameters[name]:
            raise BadFault(f"scope {scope} takes no {name}; {name} is {parameters[name]!r}")


_NODE = Parameter(name="node", meaning="name of a node")
TYPES = (
    FaultType(
        name="udp4789-dropped",
        layer="underlay",
        scope="all, node, pair",
        description="The underlay drops VXLAN (UDP 4789), both ways",
        parameters=(
            Parameter(name="scope", meaning="all, node or pair", default="all", choices=("all", "node", "pair")),
            Parameter(name="node", meaning="for scope node and pair: name of a node", default=""),
            Parameter(name="peer", meaning="for scope pair: name of the other node", default=""),
        ),
        make=udp4789_dropped,
    ),
    FaultType(
        name="mtu-black-hole",
        layer="underlay",
        scope="all",
        description="The underlay loses large VXLAN packets without a word, and lets small ones pass",
        parameters=(Parameter(name="bytes", meaning="largest outer packet that passes", default="1400"),),
        make=mtu_black_hole,
    ),
    FaultType(
        name="fragments-dropped",
        layer="underlay",
        scope="node",
        description="Datagrams that are cut up lose their pieces between a node and the others",
        parameters=(
            _NODE,
            Parameter(
                name="way", meaning="in, out or both, seen from the node", default="both", choices=("in", "out", "both")
            ),
        ),
        make=fragments_dropped,
    ),
)
"""The faults of this module."""
