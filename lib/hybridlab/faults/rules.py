# SPDX-License-Identifier: Apache-2.0
"""Faults that are rules in the data plane's fault chains; evidence is the rules that the kernel
lists under the fault's name."""

import asyncio
import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network

from hybridlab.dataplane.contract import Dataplane
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, NODE_OR_ALL, Fault, Parameter, Types

TYPES = Types()

FABRIC = "fabric"
NOWHERE = "192.0.2.1"
"""An address that no host has (RFC 5737): packets to it vanish."""
NodeRules = Mapping[str, list[tuple[str, str]]]
"""The rules, as (chain, rule), of each scope (a node's name or ``fabric``)."""


class RuleFault(Fault):
    """Rules at one or more scopes."""

    def __init__(self, dataplane: Dataplane, identity: str, rules: NodeRules) -> None:
        self._dataplane = dataplane
        self._identity = identity
        self._rules = rules

    async def inject(self) -> None:
        await asyncio.gather(
            *(
                self._dataplane.set_fault_rules(scope, self._identity, rules)
                for scope, rules in self._rules.items()
            )
        )

    async def heal(self) -> None:
        await asyncio.gather(
            *(self._dataplane.clear_fault_rules(scope, self._identity) for scope in self._rules)
        )

    async def evidence(self) -> list[str]:
        scopes = list(self._rules)
        found = await asyncio.gather(*(self._dataplane.fault_rules(scope) for scope in scopes))
        return [
            f"{scope} {rule}"
            for scope, by_name in zip(scopes, found, strict=True)
            for rule in by_name.get(self._identity, ())
        ]

    async def verified(self) -> bool:
        """Return whether there are rules, and each scope has all of its rules."""
        found = await asyncio.gather(*(self._dataplane.fault_rules(scope) for scope in self._rules))
        return bool(found) and all(
            len(by_name.get(self._identity, ())) == len(rules)
            for by_name, rules in zip(found, self._rules.values(), strict=True)
        )


def expression(name: str, words: str) -> str:
    """Return the nft expression that a parameter gives with _ for each space. Raise BadFault."""
    if not re.fullmatch(r"[A-Za-z0-9_.:/<>=!{},&*-]*", words):
        raise BadFault(
            f"{name} is {words!r}, expected an nft expression with _ for blanks, such as "
            "tcp_dport_443"
        )
    return words.replace("_", " ")


@TYPES.fault(
    "policy-not-enforced",
    "policy",
    NODE,
    Parameter("protocol", "all, tcp or udp", "all", ("all", "tcp", "udp")),
    Parameter(
        "only",
        "only packets that match this nft expression, with _ for blanks, such as tcp_dport_443",
        "",
    ),
)
def policy_not_enforced(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node enforces no policy, either on all traffic or on traffic of one protocol or kind."""
    node = lab.node(parameters["node"])
    protocol = parameters["protocol"]
    what = "" if protocol == "all" else f"meta l4proto {protocol} "
    what += f"{expression('only', parameters.get('only', ''))} "
    pods = f'"{lab.calico.plane.pod_prefix}*"'
    rules = [("f_policy", f"{way} {pods} {what}accept") for way in ("iifname", "oifname")]
    return RuleFault(lab.dataplane, identity, {node: rules})


@TYPES.fault(
    "answers-under-policy",
    "policy",
    NODE_OR_ALL,
    Parameter("protocol", "tcp or udp", choices=("tcp", "udp")),
)
def answers_under_policy(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Replies to a pod and from a pod need a policy that allows them, like any other packet."""
    pods = f'"{lab.calico.plane.pod_prefix}*"'
    only = f"meta l4proto {parameters['protocol']} ct direction reply jump"
    rules = [
        ("f_policy", f"oifname {pods} {only} to-wl"),
        ("f_policy", f"iifname {pods} {only} from-wl"),
    ]
    return RuleFault(lab.dataplane, identity, dict.fromkeys(lab.nodes(parameters["node"]), rules))


REFUSALS = {
    "rst": "meta l4proto tcp reject with tcp reset",
    "icmp": "reject with icmp type admin-prohibited",
}


@TYPES.fault(
    "policy-refuses",
    "policy",
    NODE_OR_ALL,
    Parameter("with", "rst (TCP only) or icmp", "rst", tuple(REFUSALS)),
)
def policy_refuses(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Traffic that policy denies is refused (TCP reset or ICMP) instead of being dropped."""
    rules = [("f_deny", REFUSALS[parameters["with"]])]
    return RuleFault(lab.dataplane, identity, dict.fromkeys(lab.nodes(parameters["node"]), rules))


@TYPES.fault(
    "dns-silent",
    "dns",
    NODE_OR_ALL,
    Parameter("over", "all, udp or tcp", "all", ("all", "udp", "tcp")),
)
def dns_silent(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Queries to the cluster's DNS get no answer."""
    over = "{ tcp, udp }" if parameters["over"] == "all" else parameters["over"]
    rule = f"ip daddr {lab.calico.dns_address} meta l4proto {over} th dport 53 drop"
    rules = [("f_raw", rule), ("f_out", rule)]
    return RuleFault(lab.dataplane, identity, dict.fromkeys(lab.nodes(parameters["node"]), rules))


@TYPES.fault(
    "snat-pod-to-pod",
    "services",
    NODE,
    Parameter("protocol", "all, tcp or udp", "all", ("all", "tcp", "udp")),
    Parameter(
        "only",
        "only packets that match this nft expression, with _ for blanks, such as th_dport_443",
        "",
    ),
)
def snat_pod_to_pod(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node rewrites the source of its pods' packets to other pods: of all packets or of one
    protocol."""
    node = lab.node(parameters["node"])
    protocol = parameters["protocol"]
    blocks = lab.blocks(node)
    if not blocks:
        raise BadFault(f"node {node} has no IPAM block, so it has no pod whose source could change")
    only = "" if protocol == "all" else f" meta l4proto {protocol}"
    only += f" {match}" if (match := expression("only", parameters.get("only", ""))) else ""
    own = f"ip saddr {{ {', '.join(blocks)} }}{only}"
    # All pools, since any node may get another block, and the network of other plugins' pods.
    pools = [str(pool.cidr) for pool in lab.calico.ipam.pools]
    anywhere = ", ".join(dict.fromkeys([*pools, lab.calico.plane.profile.network.pod_cidr]))
    rules = [
        (
            "f_snat",
            f'oifname "{lab.calico.plane.device}" ip saddr {{ {anywhere} }}{only} masquerade',
        ),
        ("f_snat", f'oifname "{lab.calico.plane.pod_prefix}*" {own} snat to {lab.address(node)}'),
    ]
    return RuleFault(lab.dataplane, identity, {node: rules})


@TYPES.fault("pods-swapped", "underlay", NODE, Parameter("port", "TCP and UDP port", "8080"))
def pods_swapped(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """On one port, the pod with the neighbouring address answers in the place of a node's pod."""
    node = lab.node(parameters["node"])
    port = parameters["port"]
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise BadFault(f"port is {port!r}, expected a number from 1 to 65535")
    addresses = [address for block in lab.blocks(node) for address in IPv4Network(block)]
    if not addresses:
        raise BadFault(f"node {node} has no IPAM block, so it has no pods to swap")
    pairs = ", ".join(f"{address} : {IPv4Address(int(address) ^ 1)}" for address in addresses)
    rule = f"meta l4proto {{ tcp, udp }} th dport {int(port)} dnat ip to ip daddr map {{ {pairs} }}"
    return RuleFault(lab.dataplane, identity, {node: [("f_dnat", rule)]})


@TYPES.fault("service-backend-missing", "services", Parameter("service", "NAMESPACE/NAME"), NODE)
class ServiceBackendMissing(RuleFault):
    """A node has no backend of a Service: the Service's ClusterIP and node ports do not answer on
    this node."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._service = parameters["service"]
        self._node = lab.node(parameters["node"])
        super().__init__(lab.dataplane, identity, {})

    async def inject(self) -> None:
        """Drop traffic to the Service's ClusterIP and node ports."""
        spec = (await self._lab.service(self._service))["spec"]
        drops = []
        for port in spec.get("ports") or ():
            protocol = port.get("protocol", "TCP").lower()
            drops.append(f"ip daddr {spec['clusterIP']} {protocol} dport {port['port']} drop")
            if port.get("nodePort"):
                drops.append(f"fib daddr type local {protocol} dport {port['nodePort']} drop")
        self._rules = {
            self._node: [(chain, drop) for chain in ("f_raw", "f_out") for drop in drops]
        }
        await super().inject()
