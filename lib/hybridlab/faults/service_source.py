"""Faults of what a Windows node does with the source of its pods on their way through a Service.

They bind the translation before kube-proxy's rules have their turn: the first that translates decides.  Policy of a pod
on the same node comes before the translation, and sees what the source will be.
"""

from collections.abc import Callable, Mapping

from hybridlab.dataplane.services import TRANSLATED
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Fault, Types
from hybridlab.faults.rules import RuleFault
from hybridlab.windows.reserved import source_vip

TYPES = Types()

_OWN = "ip saddr"
"""The source that a packet comes with."""


@TYPES.fault("snat-despite-dsr", "services", WINDOWS_OR_ALL)
def snat_despite_dsr(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows nodes rewrite their pods' source by ClusterIP as without direct server return."""
    return _fault(lab, identity, parameters, lambda node, block: source_vip(block))


@TYPES.fault("wrong-snat-address", "services", WINDOWS_OR_ALL)
def wrong_snat_address(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows nodes rewrite their pods' source by ClusterIP to the node's address."""
    return _fault(lab, identity, parameters, lambda node, block: lab.address(node))


@TYPES.fault("dsr-despite-build", "services", WINDOWS_OR_ALL)
def dsr_despite_build(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows nodes keep their pods' source by ClusterIP, whatever their build and kube-proxy can do."""
    return _fault(lab, identity, parameters, lambda node, block: _OWN)


def _fault(lab: LabParts, identity: str, parameters: Mapping[str, str], source: Callable[[str, str], str]) -> Fault:
    rules: dict[str, list[tuple[str, str]]] = {}
    for node in lab.nodes_of("windows", parameters["node"]):
        blocks = lab.blocks(node)
        if not blocks:
            raise BadFault(f"node {node} has no IPAM block, so no pod of its own to rewrite")
        own, becomes = f"{{ {', '.join(blocks)} }}", source(node, blocks[0])
        seen = "ct original ip saddr" if becomes == _OWN else becomes
        rules[node] = [
            ("f_snat", f"ip saddr {own} ct status dnat snat to {becomes}"),
            (
                "f_policy",
                f'oifname "{lab.calico.plane.pod_prefix}*" ct original ip saddr {own} ct state new ct status dnat '
                f"meta mark set meta mark or {TRANSLATED} ip saddr set {seen}",
            ),
        ]
    return RuleFault(lab.dataplane, identity, rules)
