# SPDX-License-Identifier: Apache-2.0
"""Faults of Services: translated sources, missing backends, backends that do not reach
themselves.

The rules of these faults translate before kube-proxy's rules, and the first translation counts. For
a pod on the same node, policy is applied before the translation, but matches the translated source.
"""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Network

from hybridlab.dataplane.services import TRANSLATED
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import (
    NODE_OR_ALL,
    WINDOWS_OR_ALL,
    Fault,
    Parameter,
    Types,
)
from hybridlab.faults.rules import RuleFault
from hybridlab.windows.reserved import source_vip

TYPES = Types()

_OWN = "ip saddr"
"""The source address with which a packet arrives."""


@TYPES.fault(
    "snat-despite-dsr",
    "services",
    WINDOWS_OR_ALL,
    Parameter("protocol", "all, tcp or udp", "all", ("all", "tcp", "udp")),
)
def snat_despite_dsr(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows nodes rewrite the source of their pods' traffic to ClusterIPs, as without direct
    server return: of all traffic or of one protocol."""
    return _fault(lab, identity, parameters, lambda node, block: source_vip(block))


@TYPES.fault("wrong-snat-address", "services", WINDOWS_OR_ALL)
def wrong_snat_address(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows nodes rewrite the source of their pods' traffic to ClusterIPs to the node's
    address."""
    return _fault(lab, identity, parameters, lambda node, block: lab.address(node))


@TYPES.fault("dsr-despite-build", "services", WINDOWS_OR_ALL)
def dsr_despite_build(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows nodes keep the source of their pods' traffic to ClusterIPs, even if their build or
    kube-proxy does not support this."""
    return _fault(lab, identity, parameters, lambda node, block: _OWN)


def _fault(
    lab: LabParts, identity: str, parameters: Mapping[str, str], source: Callable[[str, str], str]
) -> Fault:
    rules: dict[str, list[tuple[str, str]]] = {}
    for node in lab.nodes_of("windows", parameters["node"]):
        blocks = lab.blocks(node)
        if not blocks:
            raise BadFault(
                f"node {node} has no IPAM block, so it has no pod whose source could change"
            )
        own = f"{{ {', '.join(blocks)} }}"
        becomes = source(node, blocks[0])
        own += (
            ""
            if parameters.get("protocol", "all") == "all"
            else f" meta l4proto {parameters['protocol']}"
        )
        match_words = "ct original ip saddr" if becomes == _OWN else becomes
        rules[node] = [
            ("f_snat", f"ip saddr {own} ct status dnat snat to {becomes}"),
            (
                "f_policy",
                f'oifname "{lab.calico.plane.pod_prefix}*" ct original ip saddr {own} ct state new ct status dnat '
                f"meta mark set meta mark or {TRANSLATED} ip saddr set {match_words}",
            ),
        ]
    return RuleFault(lab.dataplane, identity, rules)


@TYPES.fault("hairpin-dropped", "services", NODE_OR_ALL)
def hairpin_dropped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Traffic of a pod to itself through a Service is lost."""
    rules: dict[str, list[tuple[str, str]]] = {}
    for node in lab.nodes(parameters["node"]):
        own = [str(address) for block in lab.blocks(node) for address in IPv4Network(block)]
        if own:
            pairs = ", ".join(f"{address} . {address}" for address in own)
            rules[node] = [("f_fwd", f"ct status dnat ip saddr . ip daddr {{ {pairs} }} drop")]
    if not rules:
        raise BadFault(
            f"there is no IPAM block (node={parameters['node']}), "
            "so there is no pod that could reach itself through a Service"
        )
    return RuleFault(lab.dataplane, identity, rules)
