# SPDX-License-Identifier: Apache-2.0
"""Faults of the underlay: it drops all VXLAN packets, or only large ones, or only fragments."""

from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, Fault, Parameter, Types
from hybridlab.faults.rules import FABRIC, RuleFault
from hybridlab.networks.vxlan.settings import DEFAULT_PORT

TYPES = Types()


@TYPES.fault(
    "udp4789-dropped",
    "underlay",
    Parameter("scope", "all, node or pair", "all", ("all", "node", "pair")),
    Parameter("node", "for scope node and pair: name of a node", ""),
    Parameter("peer", "for scope pair: name of the other node", ""),
    scope="all, node, pair",
)
def udp4789_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The underlay drops VXLAN (UDP 4789) in both directions."""
    scope = parameters["scope"]
    drop = f"udp dport {DEFAULT_PORT} drop"
    if scope == "all":
        _refuse_unused(parameters, scope, "node", "peer")
        rules = [drop]
    else:
        address = lab.address(lab.node(parameters["node"]))
        if scope == "node":
            _refuse_unused(parameters, scope, "peer")
            rules = [f"ip saddr {address} {drop}", f"ip daddr {address} {drop}"]
        else:
            other = lab.address(lab.node(parameters["peer"]))
            rules = [
                f"ip saddr {address} ip daddr {other} {drop}",
                f"ip saddr {other} ip daddr {address} {drop}",
            ]
    return RuleFault(lab.dataplane, identity, {FABRIC: [("f_fwd", rule) for rule in rules]})


@TYPES.fault(
    "mtu-black-hole",
    "underlay",
    Parameter("bytes", "size of the largest outer packet that passes", "1400"),
)
def mtu_black_hole(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The underlay loses large VXLAN packets silently, and lets small packets pass."""
    size = parameters["bytes"]
    if not size.isdigit() or not 100 <= int(size) < 65536:
        raise BadFault(f"bytes is {size!r}, expected a number from 100 to 65535")
    return RuleFault(
        lab.dataplane,
        identity,
        {FABRIC: [("f_fwd", f"udp dport {DEFAULT_PORT} ip length > {int(size)} drop")]},
    )


INNER_FRAGMENT = "@th,288,16 & 0x3fff != 0"
"""Matches VXLAN that carries a fragment of a datagram. The flag More Fragments and the offset are 6
bytes into the inner IPv4 header, after 8 bytes of UDP, 8 of VXLAN and 14 of Ethernet."""


@TYPES.fault(
    "fragments-dropped",
    "underlay",
    NODE,
    Parameter(
        "way", "in, out or both: directions seen from the node", "both", ("in", "out", "both")
    ),
)
def fragments_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Fragments of datagrams are lost between a node and all other nodes."""
    address = lab.address(lab.node(parameters["node"]))
    ends = {"out": ("saddr",), "in": ("daddr",), "both": ("saddr", "daddr")}[parameters["way"]]
    rules = [
        ("f_fwd", f"ip {end} {address} udp dport {DEFAULT_PORT} {INNER_FRAGMENT} drop")
        for end in ends
    ]
    return RuleFault(lab.dataplane, identity, {FABRIC: rules})


def _refuse_unused(parameters: Mapping[str, str], scope: str, *names: str) -> None:
    for name in names:
        if parameters[name]:
            raise BadFault(
                f"{name} is {parameters[name]!r}, expected none: scope {scope} takes no {name}"
            )
