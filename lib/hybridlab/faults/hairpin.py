"""Pods that do not reach themselves through their own Service."""

from collections.abc import Mapping
from ipaddress import IPv4Network

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, Types
from hybridlab.faults.rules import RuleFault

TYPES = Types()


@TYPES.fault("hairpin-dropped", "services", NODE_OR_ALL)
def hairpin_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """What a pod sends to itself by way of a Service is lost."""
    rules: dict[str, list[tuple[str, str]]] = {}
    for node in lab.nodes(parameters["node"]):
        own = [str(address) for block in lab.blocks(node) for address in IPv4Network(block)]
        if own:
            pairs = ", ".join(f"{address} . {address}" for address in own)
            rules[node] = [("f_fwd", f"ct status dnat ip saddr . ip daddr {{ {pairs} }} drop")]
    if not rules:
        raise BadFault(f"no IPAM block on {parameters['node'] or 'any node'}, so no pod that could have a Service")
    return RuleFault(lab.dataplane, identity, rules)
