"""Kubernetes NetworkPolicy objects as Calico policies.

The semantics are Kubernetes': an empty or missing ``from``/``to`` is any peer, a peer without namespaceSelector is
in the policy's own namespace, an ipBlock's ``except`` is not matched, a rule without ports is for all of them,
policyTypes default to Ingress, and Egress when there are egress rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.calico.label_selectors import from_label_selector
from hybridlab.calico.policy import (
    NAMESPACE_PREFIX,
    Direction,
    Peer,
    Policy,
    PolicyKey,
    PolicyRule,
    Ports,
    networks,
    prefixed,
    protocol,
)
from hybridlab.calico.selectors import NAMESPACE_LABEL, Compare, Has, Selector, both

ORDER = 1000.0
"""Where Calico puts Kubernetes' policies in the default tier."""


def from_kubernetes(obj: Obj) -> Policy:
    """A networking.k8s.io/v1 NetworkPolicy.  Raises SelectorError."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    namespace = meta["namespace"]
    given = spec.get("policyTypes") or (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    types: frozenset[Direction] = frozenset(
        direction for direction in ("ingress", "egress") if direction.capitalize() in given
    )
    return Policy(
        key=PolicyKey(f"knp.default.{meta['name']}", namespace, obj["kind"]),
        order=ORDER,
        selector=both(_in_namespace(namespace), from_label_selector(spec.get("podSelector") or {})),
        types=types,
        ingress=_rules(spec.get("ingress"), "from", namespace) if "ingress" in types else (),
        egress=_rules(spec.get("egress"), "to", namespace) if "egress" in types else (),
    )


def _rules(given: list[dict[str, Any]] | None, side: str, namespace: str) -> tuple[PolicyRule, ...]:
    rules = []
    for rule in given or ():
        peers = [_peer(peer, namespace) for peer in rule.get(side) or ()] or [Peer()]
        for name, ports in _ports_by_protocol(rule.get("ports") or []):
            for peer in peers:
                if side == "from":
                    source, destination = peer, Peer(ports=ports)
                else:
                    source, destination = Peer(), _with_ports(peer, ports)
                rules.append(PolicyRule(action="allow", protocol=name, source=source, destination=destination))
    return tuple(rules)


def _with_ports(peer: Peer, ports: Ports) -> Peer:
    return Peer(nets=peer.nets, not_nets=peer.not_nets, selector=peer.selector, ports=ports)


def _peer(peer: Mapping[str, Any], namespace: str) -> Peer:
    block = peer.get("ipBlock")
    if block:
        return Peer(nets=networks([block["cidr"]]), not_nets=networks(block.get("except")) or ())
    if peer.get("namespaceSelector") is None:
        scope = _in_namespace(namespace)
    else:
        own = from_label_selector(peer["namespaceSelector"])
        scope = both(Has(NAMESPACE_LABEL), prefixed(own, NAMESPACE_PREFIX))
    return Peer(selector=both(scope, from_label_selector(peer.get("podSelector") or {})))


def _in_namespace(namespace: str) -> Selector:
    return Compare(NAMESPACE_LABEL, "==", namespace)


def _ports_by_protocol(given: list[dict[str, Any]]) -> list[tuple[str | None, Ports]]:
    """One entry per protocol; a port without a number opens all of its protocol, and no ports at all everything."""
    if not given:
        return [(None, Ports())]
    ranges: dict[str, list[tuple[int, int]]] = {}
    names: dict[str, list[str]] = {}
    whole: set[str] = set()
    for port in given:
        name = protocol(port.get("protocol", "TCP")) or "tcp"
        ranges.setdefault(name, [])
        number = port.get("port")
        if number is None:
            whole.add(name)
        elif isinstance(number, int):
            ranges[name].append((number, port.get("endPort") or number))
        else:
            names.setdefault(name, []).append(number)
    return [
        (name, Ports() if name in whole else Ports(ranges=tuple(found), names=tuple(names.get(name, ()))))
        for name, found in ranges.items()
    ]
