"""Faults of pods' ping: it works where it cannot, and does not where it must."""

from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Fault, Parameter, Types
from hybridlab.faults.rules import RuleFault

TYPES = Types()


@TYPES.fault("ping-natted", "underlay", WINDOWS_OR_ALL)
def ping_natted(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows nodes source-NAT their pods' ping beyond the cluster, so that it is answered."""
    pools = ", ".join(str(pool.cidr) for pool in lab.calico.ipam.pools)
    rules = {}
    for node in lab.nodes_of("windows", parameters["node"]):
        blocks = lab.blocks(node)
        if not blocks:
            raise BadFault(f"node {node} has no IPAM block, so no pod of its own that could ping")
        own = f"ip saddr {{ {', '.join(blocks)} }} ip daddr != {{ {pools} }} meta l4proto icmp"
        rules[node] = [("f_snat", f"{own} snat to {lab.address(node)}")]
    return RuleFault(lab.dataplane, identity, rules)


@TYPES.fault(
    "ping-dropped", "underlay", Parameter("node", "name of a node, or all Windows nodes", "all", scope="all, node")
)
def ping_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node, or all Windows nodes, drop their pods' ping, inside the cluster too."""
    rules = [("f_fwd", f'iifname "{lab.calico.plane.pod_prefix}*" meta l4proto icmp drop')]
    named = parameters["node"]
    nodes = lab.nodes_of("windows", named) if named == "all" else [lab.node(named)]
    return RuleFault(lab.dataplane, identity, dict.fromkeys(nodes, rules))
