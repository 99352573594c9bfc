"""A node of whose flows a share is lost entirely, as behind a bundle of links of which one is dead."""

from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, Fault, Parameter, Types
from hybridlab.faults.rules import NOWHERE, RuleFault

TYPES = Types()

FLOW = "ct original ip saddr . ct original ip daddr . ct original proto-src . ct original proto-dst"
"""What tells one flow from another, as its first packet had it: the same for all of its packets, answers and
repetitions among them, whatever Services and NAT make of the addresses."""
SEED = "0xf10"
"""One for all nodes: between two nodes that both lose flows no more are lost than by one of them."""
MOST = 1000


@TYPES.fault("flows-dropped", "underlay", NODE, Parameter("every", "which share is lost: one flow in so many", "5"))
def flows_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Of the TCP and UDP flows that leave or enter a node one in so many is lost, with all its packets."""
    node, every = lab.node(parameters["node"]), parameters["every"]
    if not every.isdecimal() or not 2 <= int(every) <= MOST:
        raise BadFault(f"every is {every!r}, expected a whole number from 2 to {MOST}")
    devices = f"{{ {', '.join(sorted({chr(34) + name + chr(34) for name in ('eth0', lab.calico.plane.device)}))} }}"
    # A tunnel's own packets, which come and go by eth0, are not tracked and so are of no flow.
    chosen = f"meta l4proto {{ tcp, udp }} jhash {FLOW} mod {int(every)} seed {SEED} == 0"
    rules = [
        ("f_fwd", f"iifname {devices} {chosen} drop"),
        ("f_fwd", f"oifname {devices} {chosen} drop"),
        ("f_in", f"iifname {devices} {chosen} drop"),
        # What is left is the node's own.  Of a drop its sender would be told (EPERM), which no wire does.
        ("f_post", f"oifname {devices} {chosen} ip daddr set {NOWHERE}"),
    ]
    return RuleFault(lab.dataplane, identity, {node: rules})
