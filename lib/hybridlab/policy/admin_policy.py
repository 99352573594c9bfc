# SPDX-License-Identifier: Apache-2.0
"""Cluster-wide policies of the network-policy-api as Calico's GlobalNetworkPolicies.

Up to v3.31 these are AdminNetworkPolicy and BaselineAdminNetworkPolicy
(policy.networking.k8s.io/v1alpha1); from v3.32 on ClusterNetworkPolicy (v1alpha2) replaces them.
Each kind has a tier of its own, which passes on traffic that no rule matches
(libcalico-go/lib/backend/k8s/conversion). A rule that cannot be converted denies everything if its
action is to deny or to pass, and is left out if its action is to allow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hybridlab.policy import Obj
from hybridlab.policy.kubernetes_policy import PortsByProtocol, simplified
from hybridlab.policy.label_selectors import namespaces_selected, pods_selected
from hybridlab.policy.policy import (
    Direction,
    Policy,
    PolicyError,
    PolicyKey,
    directions,
    from_spec,
    networks,
)

ADMIN_TIER = "adminnetworkpolicy"
BASELINE_TIER = "baselineadminnetworkpolicy"
KUBE_ADMIN_TIER = "kube-admin"
KUBE_BASELINE_TIER = "kube-baseline"
RULE_NAME = "name"
"""The annotation under which a rule keeps its name."""
_BASELINE_ORDER = 1000.0
_TIERS = {"Admin": KUBE_ADMIN_TIER, "Baseline": KUBE_BASELINE_TIER}
_ACTIONS = {
    "AdminNetworkPolicy": {"Allow": "Allow", "Deny": "Deny", "Pass": "Pass"},
    "BaselineAdminNetworkPolicy": {"Allow": "Allow", "Deny": "Deny"},
    "ClusterNetworkPolicy": {"Accept": "Allow", "Deny": "Deny", "Pass": "Pass"},
}

Written = Mapping[str, Any]
PortOf = Callable[[Written], tuple[str, int | str | None]]
"""Maps an entry of a rule's ports to its protocol (empty: any) and port (None: all)."""


def from_admin(obj: Obj) -> Policy:
    """Convert an AdminNetworkPolicy or BaselineAdminNetworkPolicy. Raise PolicyError,
    SelectorError."""
    spec = obj["spec"]
    baseline = obj["kind"] == "BaselineAdminNetworkPolicy"
    tier, order = (
        (BASELINE_TIER, _BASELINE_ORDER) if baseline else (ADMIN_TIER, float(spec["priority"]))
    )
    return _policy(obj, PolicyKey(obj["metadata"]["name"], "", obj["kind"]), tier, order)


def from_cluster(obj: Obj) -> Policy:
    """Convert a ClusterNetworkPolicy. Raise PolicyError, SelectorError."""
    spec = obj["spec"]
    tier = _TIERS.get(spec.get("tier", ""))
    if tier is None:
        raise PolicyError(f"spec.tier is {spec.get('tier')!r}, expected Admin or Baseline")
    key = PolicyKey(obj["metadata"]["name"], "", "KubernetesClusterNetworkPolicy")
    return _policy(obj, key, tier, float(spec["priority"]))


def _policy(obj: Obj, key: PolicyKey, tier: str, order: float) -> Policy:
    spec = obj["spec"]
    subject = obj["spec"].get("subject") or {}
    if subject.get("namespaces") is not None:
        namespaces = namespaces_selected(subject["namespaces"])
        pods = pods_selected(None)
    elif subject.get("pods") is not None:
        namespaces, pods = _pods(subject["pods"])
    else:
        raise PolicyError("spec.subject has neither namespaces nor pods")
    calico: dict[str, Any] = {
        "tier": tier,
        "order": order,
        "namespaceSelector": namespaces,
        "selector": pods,
    }
    for direction in ("ingress", "egress"):
        calico[direction] = [
            found for rule in spec.get(direction) or () for found in _rules(obj["kind"], rule)
        ]
    types = [direction.capitalize() for direction in ("ingress", "egress") if calico[direction]]
    both: frozenset[Direction] = frozenset({"ingress", "egress"})
    # A policy without rules has no types here, and applies to both directions.
    return from_spec(key, calico, directions(types) or both)


def _rules(kind: str, rule: Written) -> list[dict[str, Any]]:
    """Return a rule in the form of Calico's rules; ``from`` or ``to`` determines its direction."""
    ports, port_of = (
        ("protocols", _cluster_port) if kind == "ClusterNetworkPolicy" else ("ports", _admin_port)
    )
    action = _ACTIONS[kind].get(rule.get("action", ""))
    try:
        if action is None:
            raise PolicyError(f"unsupported action {rule.get('action')!r}")
        return list(_converted(rule, action, _ports(rule.get(ports) or (), port_of)))
    except ValueError:
        fails_closed = {"Deny"} if kind == "BaselineAdminNetworkPolicy" else {"Deny", "Pass"}
        return [{"action": "Deny"}] if rule.get("action") in fails_closed else []


def _converted(rule: Written, action: str, ports: PortsByProtocol) -> Iterator[dict[str, Any]]:
    named = {"metadata": {"annotations": {RULE_NAME: rule["name"]}}} if rule.get("name") else {}
    peers, side = (
        (rule["to"], "destination") if "to" in rule else (rule.get("from") or (), "source")
    )
    for protocol, numbers in ports.items():
        for peer in peers:
            ends: dict[str, dict[str, Any]] = {
                "source": {},
                "destination": {"ports": simplified(numbers)},
            }
            ends[side] |= _peer(peer, with_networks=side == "destination")
            yield {
                **named,
                "action": action,
                **({"protocol": protocol} if protocol else {}),
                **ends,
            }


def _peer(peer: Written, *, with_networks: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if peer.get("namespaces") is not None:
        found |= {"namespaceSelector": namespaces_selected(peer["namespaces"])}
    if peer.get("pods") is not None:
        namespaces, pods = _pods(peer["pods"])
        found |= {"namespaceSelector": namespaces, "selector": pods}
    if with_networks and peer.get("networks"):
        found |= {"nets": list(networks(peer["networks"]))}
    if not found:
        raise PolicyError(f"a peer has no supported field: {', '.join(peer) or 'it is empty'}")
    return found


def _pods(selected: Written) -> tuple[str, str]:
    return namespaces_selected(selected.get("namespaceSelector") or {}), pods_selected(
        selected.get("podSelector")
    )


def _ports(given: Sequence[Written], port_of: PortOf) -> PortsByProtocol:
    """Return the ports of each protocol, by the protocol's name; an entry without protocol and port
    opens all ports."""
    if not given:
        return {"": []}
    found: PortsByProtocol = {}
    whole = set()
    for entry in given:
        protocol, port = port_of(entry)
        if not protocol and port is None:
            return {"": []}
        if port is None:
            whole.add(protocol)
        found.setdefault(protocol, []).extend(() if port is None else (port,))
    return {name: [] if name in whole else found[name] for name in sorted(found)}


def _admin_port(entry: Written) -> tuple[str, int | str | None]:
    number = entry.get("portNumber")
    span = entry.get("portRange")
    if number is not None:
        return number.get("protocol") or "TCP", number["port"]
    if span is not None:
        return span.get("protocol") or "TCP", _range(span)
    return "", None  # a named port, which Calico does not read: the rule opens all ports


def _cluster_port(entry: Written) -> tuple[str, int | str | None]:
    for key, protocol in (("tcp", "TCP"), ("udp", "UDP"), ("sctp", "SCTP")):
        if entry.get(key) is not None:
            port = entry[key].get("destinationPort") or {}
            if port.get("number"):
                return protocol, port["number"]
            return protocol, _range(port["range"]) if port.get("range") is not None else None
    return "", entry.get("destinationNamedPort") or None


def _range(span: Written) -> str:
    if span["start"] > span["end"]:
        raise PolicyError(f"ports {span['start']} to {span['end']} are not a range")
    return f"{span['start']}:{span['end']}"
