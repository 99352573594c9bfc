"""Every fault that a lab offers, by name."""

from __future__ import annotations

from hybridlab.faults.api import Api429, exec_empty_output, exec_loses_status
from hybridlab.faults.felix import PolicyLate, ReservedNotReserved
from hybridlab.faults.model import FaultType, Parameter
from hybridlab.faults.rules import (
    ServiceBackendMissing,
    dns_silent,
    policy_not_enforced,
    snat_pod_to_pod,
    udp4789_dropped,
)
from hybridlab.faults.zone import DnsWrong

_NODE = Parameter(name="node", meaning="name of a node")
_NODE_OR_ALL = Parameter(name="node", meaning="name of a node, or all", default="all")

_TYPES = (
    FaultType(
        name="udp4789-dropped",
        layer="underlay",
        scope="all, node, pair",
        description="the underlay drops VXLAN (UDP 4789), both ways",
        parameters=(
            Parameter(name="scope", meaning="all, node or pair", default="all", choices=("all", "node", "pair")),
            Parameter(name="node", meaning="for scope node and pair: name of a node", default=""),
            Parameter(name="peer", meaning="for scope pair: name of the other node", default=""),
        ),
        make=udp4789_dropped,
    ),
    FaultType(
        name="policy-not-enforced",
        layer="policy",
        scope="node",
        description="a node lets everything past policy",
        parameters=(_NODE,),
        make=policy_not_enforced,
    ),
    FaultType(
        name="policy-late",
        layer="policy",
        scope="all, node",
        description="policy changes take effect later",
        parameters=(_NODE_OR_ALL, Parameter(name="seconds", meaning="how much later")),
        make=PolicyLate,
    ),
    FaultType(
        name="dns-wrong",
        layer="dns",
        scope="all",
        description="names resolve to 203.0.113.9, where nothing is",
        parameters=(Parameter(name="name", meaning="only this full name (default: every name)", default=""),),
        make=lambda bench, identity, parameters: DnsWrong(bench.zone_gate, identity, parameters),
    ),
    FaultType(
        name="dns-silent",
        layer="dns",
        scope="all, node",
        description="questions to the cluster's DNS get no answer",
        parameters=(_NODE_OR_ALL,),
        make=dns_silent,
    ),
    FaultType(
        name="service-backend-missing",
        layer="services",
        scope="node",
        description="a node knows no backend of a Service: its ClusterIP and node ports do not answer there",
        parameters=(Parameter(name="service", meaning="NAMESPACE/NAME"), _NODE),
        make=ServiceBackendMissing,
    ),
    FaultType(
        name="snat-pod-to-pod",
        layer="services",
        scope="node",
        description="a node rewrites the source of its pods on their way to other pods",
        parameters=(_NODE,),
        make=snat_pod_to_pod,
    ),
    FaultType(
        name="reserved-not-reserved",
        layer="ipam",
        scope="Windows node",
        description="a Windows node's block does not reserve its four addresses: the next pod gets .2",
        parameters=(Parameter(name="node", meaning="name of a Windows node"),),
        make=ReservedNotReserved,
    ),
    FaultType(
        name="exec-empty-output",
        layer="exec",
        scope="all",
        description="exec answers with the exit status and without any output",
        make=exec_empty_output,
    ),
    FaultType(
        name="exec-loses-status",
        layer="exec",
        scope="all",
        description="exec ends without saying how the command ended",
        make=exec_loses_status,
    ),
    FaultType(
        name="api-429",
        layer="api",
        scope="all",
        description="the API server answers 429 Too Many Requests for a while",
        parameters=(Parameter(name="seconds", meaning="for how long"),),
        make=Api429,
    ),
)

FAULTS: dict[str, FaultType] = {kind.name: kind for kind in _TYPES}
"""What can be injected."""
