# SPDX-License-Identifier: Apache-2.0
"""Policies in the form that Felix receives: parsed once, and every selector refers to an endpoint's
full labels.

An endpoint's labels are its pod's own, ``projectcalico.org/namespace`` and ``/serviceaccount``, its
namespace's with the prefix ``pcns.`` and its service account's with ``pcsa.``. So namespaceSelector
and serviceAccountSelector become parts of a single selector
(libcalico-go/lib/backend/syncersv1/updateprocessors). Selectors are composed as the same text as in
Calico, because the names of rules and sets are derived from this text. The policies of Kubernetes
are first converted to Calico's, by ``kubernetes_policy`` and ``admin_policy``.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hybridlab.policy import Obj
from hybridlab.policy.selectors import NAMESPACE_LABEL, Selector, parse

SERVICE_ACCOUNT_LABEL = "projectcalico.org/serviceaccount"
NAMESPACE_PREFIX = "pcns."
SERVICE_ACCOUNT_PREFIX = "pcsa."
DEFAULT_TIER = "default"
IPV4 = 4
IPV6 = 6

Action = Literal["allow", "deny", "pass", "log"]
Direction = Literal["ingress", "egress"]
PortRange = tuple[int, int]
Spec = Mapping[str, Any]
"""The ``spec`` of a Calico policy."""


class PolicyError(ValueError):
    """A policy that cannot be used; the message names the field and the reason."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The port numbers and port names at one side of a rule, which are alternatives."""

    ranges: tuple[PortRange, ...] = ()
    names: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ranges or self.names)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A side of a rule; all given criteria must hold. Networks may be of either IP version."""

    nets: tuple[str, ...] = ()
    not_nets: tuple[str, ...] = ()
    selector: Selector | None = None
    """The conjunction of everything that selects endpoints, including the notSelector."""
    not_selector: Selector | None = None
    """The notSelector, set only if nothing else selects endpoints: it then also matches peers that
    are no endpoints."""
    ports: Ports = Ports()
    not_ports: Ports = Ports()
    service: tuple[str, str] | None = None
    """(namespace, name): the addresses of a Service; for a destination, also its ports."""


@dataclass(frozen=True, kw_only=True)
class PolicyRule:
    """A rule."""

    action: Action
    ip_version: int | None = None
    """4 or 6, as written or as the protocol's name implies; None: both."""
    protocol: str | None = None
    """The name in lower case, or the number as text."""
    not_protocol: str | None = None
    icmp: tuple[int, int | None] | None = None
    """The ICMP type and code; None as code: any."""
    not_icmp: tuple[int, int | None] | None = None
    source: Peer = Peer()
    destination: Peer = Peer()
    written: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The rule in Calico's form."""


@dataclass(frozen=True, order=True)
class PolicyKey:
    """The key of a policy: the object's own name, namespace and kind."""

    name: str
    namespace: str
    kind: str

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.kind} {self.name}"
        )


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy of any kind."""

    key: PolicyKey
    tier: str = DEFAULT_TIER
    order: float = math.inf
    selector: Selector
    types: frozenset[Direction]
    ingress: tuple[PolicyRule, ...] = ()
    egress: tuple[PolicyRule, ...] = ()
    at_workloads: bool = True
    """False for an untracked policy (doNotTrack) or a policy before DNAT (preDNAT), which apply to
    host endpoints only."""
    spec: Spec = field(default_factory=dict, compare=False, repr=False)
    """The policy in Calico's form."""

    def rules(self, direction: Direction) -> tuple[PolicyRule, ...]:
        return self.ingress if direction == "ingress" else self.egress

    @property
    def staged(self) -> bool:
        """Return whether the policy is staged: it has no effect according to the documents."""
        return self.key.kind.startswith("Staged")

    def same_place(self, other: Policy) -> bool:
        """Return whether both policies apply to the same endpoints, in the same directions, and
        with the same tier and order."""
        places = (
            (policy.tier, policy.order, policy.types, policy.selector, policy.at_workloads)
            for policy in (self, other)
        )
        return next(places) == next(places)


def from_calico(obj: Obj) -> Policy | None:
    """Convert a NetworkPolicy or GlobalNetworkPolicy of Calico, or its staged form. Return None for
    a staged deletion, which has no effect. Raise PolicyError, SelectorError."""
    meta = obj["metadata"]
    spec = obj.get("spec") or {}
    if spec.get("stagedAction") == "Delete":
        return None
    return from_spec(
        PolicyKey(meta["name"], meta.get("namespace", ""), obj["kind"]), spec, default_types(spec)
    )


def from_spec(key: PolicyKey, spec: Spec, types: frozenset[Direction]) -> Policy:
    """Return a policy from a Calico policy's spec.  Raise PolicyError, SelectorError."""
    namespace = key.namespace
    order = spec.get("order")
    ingress, egress = (
        tuple(
            rule_from(rule, namespace, f"spec.{direction}[{at}]")
            for at, rule in enumerate(spec.get(direction) or ())
        )
        for direction in ("ingress", "egress")
    )
    return Policy(
        key=key,
        tier=spec.get("tier") or DEFAULT_TIER,
        order=math.inf if order is None else float(order),
        selector=parse(_policy_selector(spec, namespace)),
        types=types,
        ingress=ingress,
        egress=egress,
        at_workloads=not (spec.get("doNotTrack") or spec.get("preDNAT")),
        spec=spec,
    )


def default_types(spec: Spec) -> frozenset[Direction]:
    """Return a policy's directions: the given types; if there are none, the directions of its
    rules; if it has no rules, ingress."""
    egress = bool(spec.get("egress"))
    implied = ["Ingress"] * bool(spec.get("ingress") or not egress) + ["Egress"] * egress
    return directions(spec.get("types") or implied)


def directions(types: Iterable[str]) -> frozenset[Direction]:
    """Return directions from ``Ingress`` and ``Egress``."""
    found: list[Direction] = ["ingress", "egress"]
    return frozenset(name for name in found if name.capitalize() in types)


def networks(given: Iterable[str] | None) -> tuple[str, ...]:
    """Return networks of both IP versions in their canonical form."""
    return tuple(_canonical(ipaddress.ip_network(net, strict=False)) for net in given or ())


def _canonical(net: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    """Return a network as text; an IPv4 network that is written as mapped to IPv6 becomes IPv4
    again."""
    mapped = getattr(net.network_address, "ipv4_mapped", None)
    return str(net) if mapped is None else f"{mapped}/{net.prefixlen - 96}"


def merged(ports: Iterable[PortRange]) -> tuple[PortRange, ...]:
    """Return ranges in order; overlapping and adjacent ranges are merged."""
    found: list[PortRange] = []
    for first, last in sorted(ports):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def of_ipv4(nets: Iterable[str]) -> tuple[str, ...]:
    """Return the IPv4 networks."""
    return tuple(net for net in nets if ":" not in net)


def _policy_selector(spec: Spec, namespace: str) -> str:
    selector = _given(spec, "selector")
    accounts = spec.get("serviceAccountSelector") or ""
    if namespace:
        own = f"{NAMESPACE_LABEL} == '{namespace}'"
        return _appended(
            f"({selector}) && {own}" if selector else own, accounts, SERVICE_ACCOUNT_PREFIX
        )
    if spec.get("namespaceSelector"):
        selector = _appended(selector, spec["namespaceSelector"], NAMESPACE_PREFIX)
        selector = selector.replace("all()", f"has({NAMESPACE_LABEL})")
    if accounts:
        selector = _appended(selector, accounts, SERVICE_ACCOUNT_PREFIX)
        selector = selector.replace("all()", f"has({SERVICE_ACCOUNT_LABEL})")
    return selector


def _given(written: Mapping[str, Any], name: str) -> str:
    """Return a selector as it was written. Raise SelectorError about this text, not about its
    converted form.
    """
    text: str = written.get(name) or ""
    parse(text)
    return text


def _appended(selector: str, other: str, prefix: str) -> str:
    if not other:
        return selector
    return f"({selector}) && {_prefixed(other, prefix)}" if selector else _prefixed(other, prefix)


def _prefixed(text: str, prefix: str) -> str:
    """Return a selector for a namespace's or service account's labels, with the prefix that these
    labels have on endpoints."""
    return str(parse(text).renamed(lambda label: prefix + label))


def rule_from(rule: Mapping[str, Any], namespace: str, where: str) -> PolicyRule:
    """Return one rule of a Calico policy; ``where``: the rule's place, for error messages. Raise
    PolicyError, SelectorError."""
    action = str(rule["action"]).lower()
    if action not in {"allow", "deny", "pass", "log"}:
        raise PolicyError(
            f"{where}.action is {rule['action']!r}, expected Allow, Deny, Log or Pass"
        )
    name = protocol(rule.get("protocol"))
    return PolicyRule(
        action=action,  # type: ignore[arg-type]
        ip_version=rule.get("ipVersion") or {"icmp": IPV4, "icmpv6": IPV6}.get(name or ""),
        protocol=name,
        not_protocol=protocol(rule.get("notProtocol")),
        icmp=_icmp(rule.get("icmp")),
        not_icmp=_icmp(rule.get("notICMP")),
        source=_peer(rule.get("source") or {}, namespace, f"{where}.source"),
        destination=_peer(rule.get("destination") or {}, namespace, f"{where}.destination"),
        written=rule,
    )


def protocol(value: str | int | None) -> str | None:
    """Return a protocol's name in lower case, or its number as text."""
    return None if value is None else str(value).lower()


def _icmp(value: Mapping[str, Any] | None) -> tuple[int, int | None] | None:
    return None if not value or value.get("type") is None else (value["type"], value.get("code"))


def _peer(peer: Mapping[str, Any], namespace: str, where: str) -> Peer:
    selector, negated = selectors_of(peer, namespace)
    services = peer.get("services")
    return Peer(
        nets=networks(peer.get("nets")),
        not_nets=networks(peer.get("notNets")),
        selector=parse(selector) if selector else None,
        not_selector=parse(negated) if negated else None,
        ports=_ports(peer.get("ports"), f"{where}.ports"),
        not_ports=_ports(peer.get("notPorts"), f"{where}.notPorts"),
        service=(services.get("namespace") or namespace, services["name"]) if services else None,
    )


def selectors_of(peer: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Return the selector and notSelector of a rule's side as texts that refer to endpoint labels;
    empty: none.

    If anything else selects endpoints, a notSelector becomes part of that selector
    (felix/calc/rule_scanner.go combineMatchesIfPossible). In a NetworkPolicy this is always the
    case, since the policy's namespace selects endpoints.
    """
    accounts = _accounts(peer.get("serviceAccounts") or {})
    given = _given(peer, "selector")
    negated = _given(peer, "notSelector")
    parts = [part for part in (accounts, given) if part]
    selector = parts[0] if len(parts) == 1 else "(" + ") && (".join(parts) + ")" if parts else ""
    scope = ""
    if peer.get("namespaceSelector"):
        scope = _prefixed(peer["namespaceSelector"], NAMESPACE_PREFIX)
        scope = scope.replace("all()", f"has({NAMESPACE_LABEL})").replace(
            "global()", f"!has({NAMESPACE_LABEL})"
        )
    elif namespace:
        scope = f"{NAMESPACE_LABEL} == '{namespace}'"
    if scope and (selector or negated or peer.get("namespaceSelector")):
        selector = f"({scope}) && ({selector})" if selector else scope
    if selector and negated:
        return f"({selector}) && (!({negated}))", ""
    return selector, negated


def _accounts(accounts: Mapping[str, Any]) -> str:
    own = (
        _prefixed(accounts["selector"], SERVICE_ACCOUNT_PREFIX) if accounts.get("selector") else ""
    )
    if not accounts.get("names"):
        return own
    listed = "', '".join(accounts["names"])
    names = str(parse(f"{SERVICE_ACCOUNT_LABEL} in {{ '{listed}' }}"))
    return f"({own}) && ({names})" if own else names


def _ports(given: Iterable[int | str] | None, where: str) -> Ports:
    ports = Ports()
    for port in given or ():
        first, colon, last = str(port).partition(":")
        if first.isdigit() and (last.isdigit() if colon else True):
            span = (int(first), int(last or first))
            if not 0 <= span[0] <= span[1] <= 65535:
                raise PolicyError(f"{where}: {port!r} is not a range of ports")
            ports = replace(ports, ranges=(*ports.ranges, span))
        elif colon:
            raise PolicyError(f"{where}: {port!r} is not a range of ports")
        else:
            ports = replace(ports, names=(*ports.names, first))
    return ports
