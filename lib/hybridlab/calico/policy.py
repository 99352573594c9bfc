"""Policies as Felix gets them: parsed once, with every selector on an endpoint's full labels.

An endpoint's labels are its pod's own, ``projectcalico.org/namespace`` and ``/serviceaccount``, its namespace's with
the prefix ``pcns.`` and its service account's with ``pcsa.``; that turns namespaceSelector and serviceAccountSelector
into parts of one selector.  Kubernetes' own policies are converted in ``kubernetes_policy``.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from hybridlab.api.contract import Obj
from hybridlab.calico.selectors import NAMESPACE_LABEL, All, Compare, Global, Has, In, Selector, both, parse

SERVICE_ACCOUNT_LABEL = "projectcalico.org/serviceaccount"
NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX = "pcns.", "pcsa."
DEFAULT_TIER = "default"

Action = Literal["allow", "deny", "pass", "log"]
Direction = Literal["ingress", "egress"]
PortRange = tuple[int, int]


class PolicyError(ValueError):
    """A policy that cannot be used; the message says which field and why."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Numbers and names of one side of a rule, any of them."""

    ranges: tuple[PortRange, ...] = ()
    names: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ranges or self.names)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One side of a rule; every given criterion must hold."""

    nets: tuple[str, ...] | None = None
    """IPv4 networks; None: any, empty: none (all that were given are IPv6)."""
    not_nets: tuple[str, ...] = ()
    selector: Selector | None = None
    not_selector: Selector | None = None
    ports: Ports = Ports()
    not_ports: Ports = Ports()
    service: tuple[str, str] | None = None
    """(namespace, name): the addresses behind a Service; as a destination also its ports."""


@dataclass(frozen=True, kw_only=True)
class PolicyRule:
    """One rule, as written."""

    action: Action
    protocol: str | None = None
    not_protocol: str | None = None
    icmp: tuple[int, int | None] | None = None
    """(type, code or any)."""
    not_icmp: tuple[int, int | None] | None = None
    source: Peer = Peer()
    destination: Peer = Peer()


@dataclass(frozen=True, order=True)
class PolicyKey:
    """Which policy; the order among policies of one tier with the same ``order`` field is by these."""

    name: str
    namespace: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


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

    def rules(self, direction: Direction) -> tuple[PolicyRule, ...]:
        """The rules of one direction."""
        return self.ingress if direction == "ingress" else self.egress


def from_calico(obj: Obj) -> Policy:
    """A NetworkPolicy or GlobalNetworkPolicy of Calico.  Raises PolicyError, SelectorError."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    namespace = meta.get("namespace", "")
    scope: list[Selector | None] = [Compare(NAMESPACE_LABEL, "==", namespace) if namespace else None]
    if not namespace and spec.get("namespaceSelector"):
        scope.append(namespace_selector(spec["namespaceSelector"]))
    if spec.get("serviceAccountSelector"):
        scope.append(_prefixed(spec["serviceAccountSelector"], SERVICE_ACCOUNT_PREFIX))
    ingress = tuple(_rule(rule, namespace, f"spec.ingress[{at}]") for at, rule in enumerate(spec.get("ingress") or ()))
    egress = tuple(_rule(rule, namespace, f"spec.egress[{at}]") for at, rule in enumerate(spec.get("egress") or ()))
    order = spec.get("order")
    return Policy(
        key=PolicyKey(meta["name"], namespace, obj["kind"]),
        tier=spec.get("tier") or DEFAULT_TIER,
        order=math.inf if order is None else float(order),
        selector=both(*scope, parse(spec.get("selector") or "")),
        types=_types(spec.get("types"), bool(ingress), bool(egress)),
        ingress=_without_none(ingress),
        egress=_without_none(egress),
    )


def namespace_selector(text: str) -> Selector:
    """A namespaceSelector on endpoint labels: ``all()`` is every namespace, ``global()`` none."""
    selector = parse(text)
    if isinstance(selector, All):
        return Has(NAMESPACE_LABEL)
    if isinstance(selector, Global):
        return selector
    return both(Has(NAMESPACE_LABEL), prefixed(selector, NAMESPACE_PREFIX))


def prefixed(selector: Selector, prefix: str) -> Selector:
    """A selector on a namespace's or service account's own labels, as their endpoints carry them."""
    return selector.renamed(lambda label: prefix + label)


def networks(given: Iterable[str] | None) -> tuple[str, ...] | None:
    """The IPv4 ones of some networks, in their canonical form; None when none were given at all."""
    if not given:
        return None
    parsed = [ipaddress.ip_network(net, strict=False) for net in given]
    return tuple(str(net) for net in parsed if net.version == 4)


def _prefixed(text: str, prefix: str) -> Selector:
    return prefixed(parse(text), prefix)


def _types(given: Iterable[str] | None, ingress: bool, egress: bool) -> frozenset[Direction]:
    if given:
        return frozenset(name for name in ("ingress", "egress") if name.capitalize() in given)
    if egress and not ingress:
        return frozenset({"egress"})
    return frozenset({"ingress", "egress"}) if egress else frozenset({"ingress"})


def _without_none(rules: Iterable[PolicyRule | None]) -> tuple[PolicyRule, ...]:
    return tuple(rule for rule in rules if rule is not None)


def _rule(rule: Mapping[str, Any], namespace: str, where: str) -> PolicyRule | None:
    """One rule; None for a rule that is about IPv6."""
    if rule.get("ipVersion") == 6:
        return None
    if rule.get("http"):
        raise PolicyError(f"{where}.http: not emulated: application layer policy")
    action = str(rule["action"]).lower()
    if action not in {"allow", "deny", "pass", "log"}:
        raise PolicyError(f"{where}.action is {rule['action']!r}, expected Allow, Deny, Log or Pass")
    return PolicyRule(
        action=action,  # type: ignore[arg-type]
        protocol=protocol(rule.get("protocol")),
        not_protocol=protocol(rule.get("notProtocol")),
        icmp=_icmp(rule.get("icmp")),
        not_icmp=_icmp(rule.get("notICMP")),
        source=_peer(rule.get("source") or {}, namespace, f"{where}.source"),
        destination=_peer(rule.get("destination") or {}, namespace, f"{where}.destination"),
    )


def protocol(value: str | int | None) -> str | None:
    """A protocol as the data plane names it: lower-case, or its number."""
    if value is None:
        return None
    name = str(value).lower()
    return "58" if name == "icmpv6" else name


def _icmp(value: Mapping[str, Any] | None) -> tuple[int, int | None] | None:
    return None if not value or value.get("type") is None else (value["type"], value.get("code"))


def _peer(peer: Mapping[str, Any], namespace: str, where: str) -> Peer:
    selector = parse(peer["selector"]) if peer.get("selector") else None
    not_selector = parse(peer["notSelector"]) if peer.get("notSelector") else None
    accounts = peer.get("serviceAccounts") or {}
    parts: list[Selector | None] = []
    if peer.get("namespaceSelector"):
        parts.append(namespace_selector(peer["namespaceSelector"]))
    elif namespace and (selector or not_selector or accounts):
        parts.append(Compare(NAMESPACE_LABEL, "==", namespace))
    if accounts.get("names"):
        parts.append(In(SERVICE_ACCOUNT_LABEL, frozenset(accounts["names"])))
    if accounts.get("selector"):
        parts.append(_prefixed(accounts["selector"], SERVICE_ACCOUNT_PREFIX))
    parts.append(selector)
    services = peer.get("services")
    return Peer(
        nets=networks(peer.get("nets")),
        not_nets=networks(peer.get("notNets")) or (),
        selector=both(*parts) if any(part is not None for part in parts) else None,
        not_selector=not_selector,
        ports=_ports(peer.get("ports"), f"{where}.ports"),
        not_ports=_ports(peer.get("notPorts"), f"{where}.notPorts"),
        service=(services.get("namespace") or namespace, services["name"]) if services else None,
    )


def _ports(given: Iterable[int | str] | None, where: str) -> Ports:
    ports = Ports()
    for port in given or ():
        first, colon, last = str(port).partition(":")
        if first.isdigit() and (last.isdigit() if colon else True):
            span = (int(first), int(last or first))
            if not 0 <= span[0] <= span[1] <= 65535:
                raise PolicyError(f"{where}: {port!r} is no range of ports")
            ports = replace(ports, ranges=(*ports.ranges, span))
        elif colon:
            raise PolicyError(f"{where}: {port!r} is no range of ports")
        else:
            ports = replace(ports, names=(*ports.names, first))
    return ports
