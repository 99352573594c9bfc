# SPDX-License-Identifier: Apache-2.0
"""Kubernetes NetworkPolicy objects as Calico policies.

The semantics are those of Kubernetes. An empty or missing ``from``/``to`` matches any peer, and a
peer without namespaceSelector is in the policy's own namespace. An ipBlock does not match the
addresses in its ``except``. A rule without ports is for all ports. policyTypes default to Ingress,
and to Egress if there are egress rules. The form is Calico's
(libcalico-go/lib/backend/k8s/conversion): a rule for each protocol and peer, protocols by name,
neighbouring ports merged, and pod selectors that match only pods, never a network set.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hybridlab.policy import Obj
from hybridlab.policy.label_selectors import namespaces_selected, pods_selected
from hybridlab.policy.policy import (
    Policy,
    PolicyKey,
    PortRange,
    directions,
    from_spec,
    merged,
    networks,
)

ORDER = 1000.0
"""The order of Kubernetes' policies in the default tier."""

_ANY_PEER: tuple[Mapping[str, Any], ...] = ({},)

PortsByProtocol = dict[str, list[int | str]]
"""The ports of each protocol (empty: any) in Calico's form (empty: all)."""


def from_kubernetes(obj: Obj) -> Policy | None:
    """Convert a networking.k8s.io/v1 NetworkPolicy, or a StagedKubernetesNetworkPolicy. Return None
    for a staged deletion. Raise PolicyError, SelectorError."""
    meta = obj["metadata"]
    spec = obj.get("spec") or {}
    if spec.get("stagedAction") == "Delete":
        return None
    staged = obj["kind"].startswith("Staged")
    kind = "StagedKubernetesNetworkPolicy" if staged else "KubernetesNetworkPolicy"
    # Calico sets no default types for the staged kind, which then applies to ingress alone
    default = ["Ingress", "Egress"] if spec.get("egress") and not staged else ["Ingress"]
    types = spec.get("policyTypes") or default
    calico = {
        "order": ORDER,
        "selector": pods_selected(spec.get("podSelector")),
        "ingress": [
            rule for given in spec.get("ingress") or () for rule in _rules(given, "from", "source")
        ],
        "egress": [
            rule
            for given in spec.get("egress") or ()
            for rule in _rules(given, "to", "destination")
        ],
    }
    return from_spec(PolicyKey(meta["name"], meta["namespace"], kind), calico, directions(types))


def _rules(rule: Mapping[str, Any], peers: str, side: str) -> list[dict[str, Any]]:
    """Return a rule of Kubernetes in Calico's form; ``side``: the end (source or destination) at
    which the rule's peers are."""
    found = []
    for protocol, ports in _ports(rule.get("ports") or ()).items():
        for peer in rule.get(peers) or _ANY_PEER:
            ends: dict[str, dict[str, Any]] = {
                "source": {},
                "destination": {"ports": simplified(ports)},
            }
            ends[side] |= _peer(peer)
            found.append(
                {"action": "Allow", **({"protocol": protocol} if protocol else {}), **ends}
            )
    return found


def _peer(peer: Mapping[str, Any]) -> dict[str, Any]:
    if not peer:
        return {}
    block = peer.get("ipBlock")
    if block:
        return {
            "nets": list(networks([block["cidr"]])),
            "notNets": list(networks(block.get("except"))),
        }
    return {
        "selector": pods_selected(peer.get("podSelector")),
        "namespaceSelector": namespaces_selected(peer.get("namespaceSelector")),
    }


def _ports(given: Sequence[Mapping[str, Any]]) -> PortsByProtocol:
    """Return the ports of each protocol; a port without a number opens all ports of its
    protocol."""
    if not given:
        return {"": []}
    found: PortsByProtocol = {}
    whole = set()
    for port in given:
        protocol = str(port.get("protocol") or "TCP")
        number = port.get("port")
        end = port.get("endPort")
        if number is None:
            whole.add(protocol)
        found.setdefault(protocol, []).append(f"{number}:{end}" if end is not None else number or 0)
    return {name: [] if name in whole else found[name] for name in sorted(found)}


def simplified(ports: Sequence[int | str]) -> list[int | str]:
    """Return named ports first, then numbers in order. Neighbours and overlaps are merged into
    ``first:last``."""
    named: list[int | str] = []
    numbers: list[PortRange] = []
    for port in ports:
        low, _, high = str(port).partition(":")
        if low.isdigit():
            numbers.append((int(low), int(high or low)))
        else:
            named.append(port)
    if sum(last - first + 1 for first, last in numbers) <= 1:
        return list(ports)
    return [
        *named,
        *(first if first == last else f"{first}:{last}" for first, last in merged(numbers)),
    ]
