# SPDX-License-Identifier: Apache-2.0
"""Administrators' policies of Kubernetes as Calico reads them: in tiers whose end passes the
remaining traffic on.

Sources: network-policy-api, AdminNetworkPolicy and BaselineAdminNetworkPolicy (v1alpha1),
ClusterNetworkPolicy (v1alpha2), in which a rule with an unknown peer fails closed; Calico's
reference, Tier. Calico reads a named port of the older kinds as every port.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import Obj, Range
from conformance.policy.oracle.rules import ANYBODY, Chooser, Peer, Rule
from conformance.policy.oracle.world import Member, Pod
from conformance.policy.selectors import kubernetes
from conformance.policy.truth import Truth, all_of

_ALLOW_DENY = {"Allow": "Allow", "Deny": "Deny"}
ACTIONS: Mapping[str, Mapping[str, str]] = {
    "AdminNetworkPolicy": {**_ALLOW_DENY, "Pass": "Pass"},
    "BaselineAdminNetworkPolicy": _ALLOW_DENY,
    "ClusterNetworkPolicy": {"Accept": "Allow", "Deny": "Deny", "Pass": "Pass"},
}
ADMIN = tuple(ACTIONS)
SPEC = frozenset({"priority", "subject", "ingress", "egress", "tier"})
_TIERS = {"Admin": "kube-admin", "Baseline": "kube-baseline"}
_BASELINE_ORDER = 1000.0
_TRANSPORTS = ("tcp", "udp", "sctp")


class _Unsupported(Exception):
    """A part of a rule that Calico does not read."""


def place(kind: str, spec: Obj, where: str) -> tuple[str, float]:
    """Return the tier of a policy and the policy's order in it."""
    if kind == "BaselineAdminNetworkPolicy":
        return "baselineadminnetworkpolicy", _BASELINE_ORDER
    order = fields.number(spec.get("priority"), f"{where} priority")
    if kind == "AdminNetworkPolicy":
        return "adminnetworkpolicy", order
    return _TIERS[fields.one_of(spec.get("tier"), f"{where} tier", _TIERS)], order


def subject(given: Any, where: str) -> Chooser:
    """Return the predicate for the pods that a policy applies to."""
    chosen = _pods(fields.mapping(given, where, {"namespaces", "pods"}), where)
    if chosen is None:
        raise UsageProblem(f"{where}: namespaces or pods are expected")
    return chosen


def rules(given: Any, kind: str, direction: str, where: str, owner: str) -> Iterator[Rule]:
    """Yield a rule in Calico's terms for each peer and protocol of a rule. Raise UsageProblem."""
    at = f"{owner} {where}"
    side = "from" if direction == "ingress" else "to"
    listed = "protocols" if kind == "ClusterNetworkPolicy" else "ports"
    rule = fields.mapping(given, at, {"name", "action", side, listed})
    actions = ACTIONS[kind]
    action = actions[fields.one_of(rule.get("action"), f"{at} action", actions)]
    read = _cluster_port if listed == "protocols" else _admin_port
    try:
        peers = [_peer(peer, direction, at) for peer in fields.sequence(rule.get(side), at)]
        ports = _ports(rule.get(listed), read, at)
    except _Unsupported:
        if action == "Deny" or (action == "Pass" and not kind.startswith("Baseline")):
            yield Rule("Deny", where)
        return
    for peer in peers:
        for protocol, (ranges, names) in ports.items():
            if direction == "ingress":
                yield Rule(action, where, peer, Peer(ports=ranges, named=names), protocol)
            else:
                end = partial(Peer, peer.choose, None, peer.nets)
                yield Rule(action, where, ANYBODY, end(ports=ranges, named=names), protocol)


def _peer(given: Any, direction: str, where: str) -> Peer:
    peer = fields.mapping(given, where)
    chosen = _pods(peer, where)
    if chosen is not None:
        return Peer(choose=chosen)
    if direction == "egress" and peer.get("networks"):
        return Peer(nets=fields.nets(peer["networks"], where))
    raise _Unsupported


def _pods(given: Obj, where: str) -> Chooser | None:
    """Return the predicate for pods, by namespaces alone or also by labels; None if the rule has no
    pods."""
    pods = fields.mapping(given.get("pods"), where, {"namespaceSelector", "podSelector"})
    is_of_spaces = given.get("pods") is None
    if is_of_spaces and given.get("namespaces") is None:
        return None
    spaces = given["namespaces"] if is_of_spaces else pods.get("namespaceSelector")
    of_space = fields.readable(kubernetes(spaces or {}), where)
    wanted = fields.readable(kubernetes(pods.get("podSelector") or {}), where)

    def chosen(member: Member) -> Truth:
        if not isinstance(member, Pod):
            # With namespaces alone, Calico's selector is not limited to pods. So it matches network
            # sets in these namespaces; with a negation, it also matches global network sets.
            in_space = bool(spaces) or member.namespace is not None
            return is_of_spaces and in_space and of_space.selects(member.namespace_labels)
        return all_of((of_space.selects(member.namespace_labels), wanted.selects(member.own)))

    return chosen


Ports = tuple[tuple[Range, ...], tuple[str, ...]]
Written = tuple[int | None, Any]
"""The protocol of an entry (None: any protocol), and its port (None: all ports)."""


def _ports(given: Any, read: Callable[[Obj, str], Written], where: str) -> dict[int | None, Ports]:
    """Return ranges and names of ports by protocol. An entry without protocol and port opens all
    ports."""
    found: dict[int | None, list[Any] | None] = {}
    for entry in fields.sequence(given, where):
        protocol, port = read(fields.mapping(entry, where), where)
        if protocol is None and port is None:
            return {None: ((), ())}
        listed = found.setdefault(protocol, [])
        if port is None:
            found[protocol] = None
        elif listed is not None:
            listed.append(port)
    return {one: fields.ports(ports, where) for one, ports in found.items()} or {None: ((), ())}


def _admin_port(entry: Obj, where: str) -> Written:
    known = fields.mapping(entry, where, {"portNumber", "portRange", "namedPort"})
    number = fields.mapping(known.get("portNumber"), where, {"protocol", "port"})
    span = fields.mapping(known.get("portRange"), where, {"protocol", "start", "end"})
    if not number and not span:
        return None, None
    protocol = fields.protocol((number or span).get("protocol") or "TCP", where)
    return protocol, number["port"] if number else _range(span)


def _cluster_port(entry: Obj, where: str) -> Written:
    known = fields.mapping(entry, where, {*_TRANSPORTS, "destinationNamedPort"})
    for name in _TRANSPORTS:
        if known.get(name) is not None:
            match = fields.mapping(known[name], where, {"destinationPort"})
            port = fields.mapping(match.get("destinationPort"), where, {"number", "range"})
            if port.get("number") or port.get("range") is None:
                return fields.PROTOCOLS[name], port.get("number")
            return fields.PROTOCOLS[name], _range(fields.mapping(port["range"], where))
    return None, known.get("destinationNamedPort") or None


def _range(span: Obj) -> str:
    return f"{fields.shown(span.get('start'))}:{fields.shown(span.get('end'))}"
