# SPDX-License-Identifier: Apache-2.0
"""Faults of packets between pods and nodes: lost flows, lost, late or changed packets, and wrong
ping."""

from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, NODE_OR_ALL, WINDOWS_OR_ALL, Fault, Parameter, Types, count
from hybridlab.faults.rules import NOWHERE, RuleFault, expression

TYPES = Types()

FLOW = "ct original ip saddr . ct original ip daddr . ct original proto-src . ct original proto-dst"
"""The key of a flow, made from its first packet. It is the same for all packets of the flow,
including answers and repetitions, even if Services and NAT change the addresses."""
SEED = "0xf10"
"""The same seed for all nodes. Two nodes that both lose flows then lose the same flows, so that no
more flows are lost between them than with one such node."""
MOST = 1000
LONGEST_MS = 10_000


@TYPES.fault(
    "flows-dropped",
    "underlay",
    NODE,
    Parameter("every", "one flow in this number of flows is lost", "5"),
    Parameter("port", "only flows to this port", ""),
)
def flows_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A share of the TCP and UDP flows that leave or enter a node is lost, each with all its
    packets.
    """
    node = lab.node(parameters["node"])
    every = parameters["every"]
    if not every.isdecimal() or not 2 <= int(every) <= MOST:
        raise BadFault(f"every is {every!r}, expected a whole number from 2 to {MOST}")
    devices = _devices(lab)
    # A tunnel's own packets on eth0 are not tracked, so they belong to no flow.
    chosen = f"meta l4proto {{ tcp, udp }} jhash {FLOW} mod {int(every)} seed {SEED} == 0"
    if port := parameters["port"]:
        chosen += f" ct original proto-dst {count('port', port)}"
    rules = [
        ("f_fwd", f"iifname {devices} {chosen} drop"),
        ("f_fwd", f"oifname {devices} {chosen} drop"),
        ("f_in", f"iifname {devices} {chosen} drop"),
        # The rest is the node's own traffic. With drop its sender would get EPERM, which a sender
        # never gets for a packet that is lost on the path.
        ("f_post", f"oifname {devices} {chosen} ip daddr set {NOWHERE}"),
    ]
    return RuleFault(lab.dataplane, identity, {node: rules})


def _devices(lab: LabParts) -> str:
    """Return the devices through which packets from and to other nodes pass."""
    return f"{{ {', '.join(sorted({chr(34) + name + chr(34) for name in ('eth0', lab.calico.plane.device)}))} }}"


WAYS = ("in", "out", "both", "within", "own")


@TYPES.fault(
    "packets-dropped",
    "underlay",
    NODE,
    Parameter(
        "match", "packets that match this nft expression, with _ for blanks, such as tcp_dport_443"
    ),
    Parameter(
        "way",
        "in, out or both: directions seen from the node; within: between the node's pods; "
        "own: packets of the node itself",
        "both",
        WAYS,
    ),
)
def packets_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Matching packets to or from a node's pods, or to or from the node itself, are lost."""
    match = expression("match", parameters["match"])
    way = parameters["way"]
    devices = _devices(lab)
    pods = f'"{lab.calico.plane.pod_prefix}*"'
    rules = {
        "in": [("f_fwd", f"iifname {devices} {match} drop")],
        "out": [("f_fwd", f"oifname {devices} {match} drop")],
        "within": [("f_fwd", f"iifname {pods} oifname {pods} {match} drop")],
        "own": [("f_out", f"{match} ip daddr set {NOWHERE}")],
    }
    chosen = rules["in"] + rules["out"] if way == "both" else rules[way]
    return RuleFault(lab.dataplane, identity, {lab.node(parameters["node"]): chosen})


@TYPES.fault(
    "bytes-changed", "underlay", NODE, Parameter("protocol", "tcp or udp", "tcp", ("tcp", "udp"))
)
def bytes_changed(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """One byte changes on the way in large packets of one protocol that a node's pods send."""
    # Packets between namespaces have no checksum yet, so the receiver's system accepts the changed
    # byte.
    large = f"meta l4proto {parameters['protocol']} ip length > 1200"
    rule = f'iifname "{lab.calico.plane.pod_prefix}*" {large} @th,8000,8 set 0x58'
    return RuleFault(lab.dataplane, identity, {lab.node(parameters["node"]): [("f_fwd", rule)]})


@TYPES.fault("node-datagrams-dropped", "underlay", NODE)
def node_datagrams_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Datagrams from a node itself to pods are lost, except queries to DNS; TCP passes."""
    pools = ", ".join(str(pool.cidr) for pool in lab.calico.ipam.pools)
    # With drop the sender would get EPERM, which it never gets for a packet lost on the path.
    rule = f"ct direction original ip daddr {{ {pools} }} udp dport != 53 ip daddr set {NOWHERE}"
    return RuleFault(lab.dataplane, identity, {lab.node(parameters["node"]): [("f_out", rule)]})


@TYPES.fault(
    "path-slow", "underlay", NODE, Parameter("ms", "milliseconds added to each round trip", "300")
)
class PathSlow(Fault):
    """Packets between a node and other nodes arrive late, but none is lost."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        given = parameters["ms"]
        if not given.isdecimal() or not 1 <= int(given) <= LONGEST_MS:
            raise BadFault(f"ms is {given!r}, expected a whole number from 1 to {LONGEST_MS}")
        self._lab = lab
        self._node = lab.node(parameters["node"])
        self._seconds = int(given) / 2000

    async def inject(self) -> None:
        """Delay each direction by half of the added round-trip time."""
        await self._lab.dataplane.set_latency(self._node, self._seconds)

    async def heal(self) -> None:
        await self._lab.dataplane.set_latency(self._node, 0)

    async def evidence(self) -> list[str]:
        seconds = await self._lab.dataplane.latency(self._node)
        return (
            [f"packets of {self._node} are delayed by {seconds * 1000:g} ms in each direction"]
            if seconds
            else []
        )


@TYPES.fault("ping-natted", "underlay", WINDOWS_OR_ALL)
def ping_natted(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows nodes source-NAT their pods' ping to targets outside the cluster, so that it is
    answered."""
    pools = ", ".join(str(pool.cidr) for pool in lab.calico.ipam.pools)
    rules = {}
    for node in lab.nodes_of("windows", parameters["node"]):
        blocks = lab.blocks(node)
        if not blocks:
            raise BadFault(f"node {node} has no IPAM block, so it has no pod that could ping")
        own = f"ip saddr {{ {', '.join(blocks)} }} ip daddr != {{ {pools} }} meta l4proto icmp"
        rules[node] = [("f_snat", f"{own} snat to {lab.address(node)}")]
    return RuleFault(lab.dataplane, identity, rules)


@TYPES.fault(
    "outgoing-not-translated",
    "underlay",
    NODE_OR_ALL,
    Parameter("protocol", "all, tcp or udp", "all", ("all", "tcp", "udp")),
    Parameter("to", "all (every address outside the pools) or nodes", "all", ("all", "nodes")),
    Parameter("pods", "all, or pods with odd or even addresses", "all", ("all", "odd", "even")),
)
def outgoing_not_translated(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Packets of a node's pods to addresses outside the pools keep the pods' addresses. The
    parameters limit this to one protocol, to some pods, or to packets to nodes."""
    pools = ", ".join(str(pool.cidr) for pool in lab.calico.ipam.pools)
    protocol = parameters["protocol"]
    only = "" if protocol == "all" else f"meta l4proto {protocol} "
    if parameters["to"] == "nodes":
        only += f"ip daddr {{ {', '.join(map(lab.address, lab.nodes('all')))} }} "
    if parameters["pods"] != "all":
        only += f"ip saddr & 0.0.0.1 == 0.0.0.{int(parameters['pods'] == 'odd')} "
    # A source that is translated to itself is not translated again.
    rule = f"ip saddr {{ {pools} }} ip daddr != {{ {pools} }} {only}snat to ip saddr"
    return RuleFault(
        lab.dataplane,
        identity,
        {node: [("f_snat", rule)] for node in lab.nodes(parameters["node"])},
    )


@TYPES.fault(
    "ping-dropped",
    "underlay",
    Parameter("node", "name of a node, or all for all Windows nodes", "all", scope="all, node"),
)
def ping_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node, or every Windows node, drops its pods' ping, also inside the cluster."""
    rules = [("f_fwd", f'iifname "{lab.calico.plane.pod_prefix}*" meta l4proto icmp drop')]
    named = parameters["node"]
    nodes = lab.nodes_of("windows", named) if named == "all" else [lab.node(named)]
    return RuleFault(lab.dataplane, identity, dict.fromkeys(nodes, rules))
