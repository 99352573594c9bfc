# SPDX-License-Identifier: Apache-2.0
"""What a policy that is not the suite's could do to one way between two ends: with a third answer, "may".

True: it surely does; False: it surely does not; None: it may, since something of it, or of an end, cannot be read.
Each policy is looked at by itself: what others in its tier take from it is not weighed, so that it excuses more rather
than less.  Sources: Calico's reference, NetworkPolicy, GlobalNetworkPolicy and Tier; Kubernetes' reference,
NetworkPolicy; network-policy-api, AdminNetworkPolicy, BaselineAdminNetworkPolicy (v1alpha1), ClusterNetworkPolicy
(v1alpha2).
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from conformance.policy import selectors
from conformance.policy.labels import Labels
from conformance.policy.selectors import Selection

Truth = bool | None
Direction = Literal["ingress", "egress"]
Seen = Literal["closed", "open"]

KUBERNETES = "networking.k8s.io/"
ADMIN = ("AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "ClusterNetworkPolicy")
DEFAULT = "default"
NUMBERS = {"1": "ICMP", "6": "TCP", "17": "UDP", "132": "SCTP"}
OF_ACCOUNTS = "pcsa."
"""How labels begin that a pod has from its service account."""
HOSTS_ALONE = ("preDNAT", "doNotTrack")
"""Fields that make a GlobalNetworkPolicy one for host endpoints."""


@dataclass(frozen=True, kw_only=True)
class End:
    """A pod as selectors see it; labels that are None, and an address that is empty, are not known."""

    namespace: str = ""
    pod: Labels | None = None
    """As Kubernetes' selectors see it."""
    calico: Labels | None = None
    """As Calico's selectors see it (:func:`conformance.policy.labels.of_pod`)."""
    of_namespace: Labels | None = None
    account: Labels | None = None
    address: str = ""


@dataclass(frozen=True, kw_only=True)
class Way:
    """One direction at one end."""

    direction: Direction
    end: End
    """Where the policy is enforced."""
    other: End
    protocol: str = ""
    """``TCP``, ``UDP``, ``ICMP``; empty: not known."""
    ports: tuple[int, ...] = ()
    """Destination ports that it may be seen with: a Service's and its backend's; empty: not known."""


@dataclass(frozen=True)
class NetworkSet:
    """Networks that rules match by labels, as they match pods: of a NetworkSet, or of a GlobalNetworkSet."""

    labels: Labels
    nets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ForeignPolicy:
    """One policy, and what its tier does with what none of its policies decides."""

    kind: str
    name: str
    namespace: str
    """Empty: it is cluster-scoped."""
    api: str
    uid: str
    version: str
    """resourceVersion: a policy that has the one it had is unchanged."""
    spec: Mapping[str, Any]
    tier: str = DEFAULT
    tier_passes: bool = False
    before_default: bool = True
    """Whether its tier may come before ``default``, or is it: what comes later opens nothing that the suite closes."""
    sets: tuple[NetworkSet, ...] = ()
    """Those of the cluster, where its rules have selectors."""

    @property
    def label(self) -> str:
        """``GlobalNetworkPolicy company-wide`` or ``NetworkPolicy demo/deny``, with its tier unless that is default."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}{f' (tier {self.tier})' if self.tier != DEFAULT else ''}"

    def selects(self, end: End, direction: Direction) -> Truth:
        """Whether it is about this end, in this direction."""
        if self.kind in ADMIN:
            return both(
                _peer(self.spec.get("subject") or {}, end, ""), bool(self.spec.get(direction))
            )
        if self.namespace and end.namespace and end.namespace != self.namespace:
            return False
        if direction not in self._types():
            return False
        if self.api.startswith(KUBERNETES):
            return _truth(selectors.kubernetes(self.spec.get("podSelector") or {}).selects(end.pod))
        if any(self.spec.get(field) for field in HOSTS_ALONE):
            return False
        found = _calico(self.spec.get("selector"), end)
        found = both(found, _namespaces(self.spec.get("namespaceSelector"), end))
        if text := self.spec.get("serviceAccountSelector"):
            found = both(found, _truth(selectors.calico(text).selects(end.account)))
        return found

    def could(self, way: Way, seen: Seen) -> Truth:
        """Whether it could give this: closed by a Deny or by default, open by an Allow or a Pass of what is left."""
        selected = self.selects(way.end, way.direction)
        if selected is False:
            return False
        if seen == "open" and not self.before_default:
            return False
        given = self._gives(way)
        giving = given & (
            {"Deny"}
            if seen == "closed"
            else {"Allow", "Pass"}
            if self.tier == DEFAULT
            else {"Allow"}
        )
        if not giving:
            return False
        return True if selected and giving == given else None

    def _types(self) -> set[str]:
        types = {
            str(each).lower()
            for each in self.spec.get("types") or self.spec.get("policyTypes") or ()
        }
        if types:
            return types
        if self.api.startswith(KUBERNETES):
            return {"ingress"} | ({"egress"} if self.spec.get("egress") else set())
        has_egress = "egress" in self.spec
        return ({"ingress"} if "ingress" in self.spec or not has_egress else set()) | (
            {"egress"} if has_egress else set()
        )

    def _gives(self, way: Way) -> set[str]:
        """What may become of a packet on this way, by this policy alone."""
        rules: Sequence[Mapping[str, Any]] = self.spec.get(way.direction) or ()
        found: set[str] = set()
        kubernetes = self.api.startswith(KUBERNETES)
        for rule in rules:
            action = (
                "Allow"
                if kubernetes
                else {"Accept": "Allow"}.get(str(rule.get("action")), str(rule.get("action")))
            )
            if action == "Log":
                continue
            if kubernetes:
                matches = _kubernetes_rule(rule, way, self.namespace)
            else:
                matches = (
                    _admin_rule(rule, way)
                    if self.kind in ADMIN
                    else _calico_rule(rule, way, self.namespace, self.sets)
                )
            if matches is not False:
                found.add(action)
            if matches:
                return found
        return found | {"next tier" if self.tier_passes or self.kind in ADMIN else "Deny"}


# --- rules ------------------------------------------------------------------------------------------------------------


def _calico_rule(rule: Mapping[str, Any], way: Way, home: str, sets: Sequence[NetworkSet]) -> Truth:
    source, target = (way.other, way.end) if way.direction == "ingress" else (way.end, way.other)
    if rule.get("ipVersion") == 6:
        return False
    found: Truth = None if any(rule.get(field) for field in ("http", "icmp", "notICMP")) else True
    if "protocol" in rule:
        found = both(found, _protocol(rule["protocol"], way.protocol))
    if "notProtocol" in rule:
        found = both(found, _not(_protocol(rule["notProtocol"], way.protocol)))
    at_source = rule.get("source") or {}
    at_target = rule.get("destination") or {}
    found = both(found, _entity(at_source, source, home, sets))
    found = both(found, _entity(at_target, target, home, sets))
    if at_source.get("ports") or at_source.get("notPorts"):
        found = both(found, None)
    if ports := at_target.get("ports"):
        found = both(found, _ports(ports, way.ports))
    if ports := at_target.get("notPorts"):
        found = both(found, _not(_ports(ports, way.ports)))
    return found


def _entity(entity: Mapping[str, Any], end: End, home: str, sets: Sequence[NetworkSet]) -> Truth:
    """A rule's source or destination; ``home``: the namespace within which a namespaced policy's selectors look."""
    found: Truth = None if entity.get("services") else True
    by_namespace = entity.get("namespaceSelector")
    text = entity.get("selector")
    if "selector" in entity or by_namespace:
        chosen = both(_calico(text, end), _namespaces(by_namespace, end))
        if home and not by_namespace:
            chosen = both(chosen, end.namespace == home if end.namespace else None)
        found = both(found, _or_in_a_set(chosen, text, end, sets))
    if text := entity.get("notSelector"):
        found = both(found, _not(_or_in_a_set(_calico(text, end), text, end, sets)))
    if entity.get("nets"):
        found = both(found, _within(entity["nets"], end.address))
    if entity.get("notNets"):
        found = both(found, _not(_within(entity["notNets"], end.address)))
    return both(found, None) if entity.get("serviceAccounts") else found


def _or_in_a_set(chosen: Truth, text: Any, end: End, sets: Sequence[NetworkSet]) -> Truth:
    """Whether a rule's selector chooses an end; where that is no, it may choose a network that has its address."""
    chooses = selectors.calico(text)
    held = any(
        chooses.selects(one.labels) is not Selection.SELECTS_NOT
        and _within(one.nets, end.address) is not False
        for one in sets
    )
    return None if chosen is False and held else chosen


def _kubernetes_rule(rule: Mapping[str, Any], way: Way, home: str) -> Truth:
    peers = rule.get("from" if way.direction == "ingress" else "to") or ()
    found: Truth = (
        True if not peers else any_of(_kubernetes_peer(peer, way.other, home) for peer in peers)
    )
    ports = rule.get("ports") or ()
    return both(found, True if not ports else any_of(_port(port, way) for port in ports))


def _kubernetes_peer(peer: Mapping[str, Any], end: End, home: str) -> Truth:
    if block := peer.get("ipBlock"):
        inside = _within([block["cidr"]], end.address)
        return both(
            inside, _not(_within(block["except"], end.address)) if block.get("except") else True
        )
    return _peer(peer, end, home)


def _admin_rule(rule: Mapping[str, Any], way: Way) -> Truth:
    peers = rule.get("from" if way.direction == "ingress" else "to") or ()
    found = any_of(_peer(peer, way.other, "") for peer in peers)
    listed = rule.get("ports")
    if rule.get("protocols"):  # ClusterNetworkPolicy's form of ports
        return both(found, any_of(_protocol_port(each, way) for each in rule["protocols"]))
    return both(found, any_of(_admin_port(port, way) for port in listed)) if listed else found


def _peer(peer: Mapping[str, Any], end: End, home: str) -> Truth:
    """A subject, or a peer: of namespaces, of pods in them, or of addresses."""
    if "networks" in peer:
        return _within(peer["networks"], end.address)
    if not peer.keys() & {"namespaces", "pods", "podSelector", "namespaceSelector"}:
        return None if peer else False
    if "namespaces" in peer:
        return _truth(selectors.kubernetes(peer["namespaces"] or {}).selects(end.of_namespace))
    pods = peer.get("pods") or peer
    found: Truth = True
    if pods.get("namespaceSelector") is not None:
        found = _truth(selectors.kubernetes(pods["namespaceSelector"]).selects(end.of_namespace))
    elif home:
        found = end.namespace == home if end.namespace else None
    return both(found, _truth(selectors.kubernetes(pods.get("podSelector") or {}).selects(end.pod)))


def _port(port: Mapping[str, Any], way: Way) -> Truth:
    return both(
        _protocol(port.get("protocol") or "TCP", way.protocol),
        _range(port.get("port"), port.get("endPort"), way),
    )


def _admin_port(port: Mapping[str, Any], way: Way) -> Truth:
    if one := port.get("portNumber"):
        return _port(one, way)
    if several := port.get("portRange"):
        return both(
            _protocol(several.get("protocol") or "TCP", way.protocol),
            _range(several["start"], several["end"], way),
        )
    return None


def _protocol_port(each: Mapping[str, Any], way: Way) -> Truth:
    for name in ("tcp", "udp", "sctp"):
        if name in each:
            port = (each[name] or {}).get("destinationPort") or {}
            span = port.get("range") or {}
            first = port.get("number", span.get("start"))
            return both(
                _protocol(name, way.protocol),
                True if first is None else _range(first, span.get("end"), way),
            )
    return None


def _range(first: Any, last: Any, way: Way) -> Truth:
    if first is None:
        return True
    return _ports([f"{first}:{last}" if last else first], way.ports)


def _ports(wanted: Iterable[Any], ports: Sequence[int]) -> Truth:
    """Whether a destination port is among ``8080``, ``"80:90"`` or names; a Service's way has two ports."""
    if not ports:
        return None

    def inside(port: int, spec: Any) -> Truth:
        low, _, high = str(spec).partition(":")
        if not low.isdigit() or (high and not high.isdigit()):
            return None  # a name: the pod knows its number
        return int(low) <= port <= int(high or low)

    specs = list(wanted)
    found = {any_of(inside(port, spec) for spec in specs) for port in ports}
    return found.pop() if len(found) == 1 else None


def _protocol(wanted: Any, protocol: str) -> Truth:
    if not protocol:
        return None
    return NUMBERS.get(str(wanted), str(wanted).upper()) == protocol


def _within(nets: Iterable[str], address: str) -> Truth:
    if not address:
        return None
    try:
        return any(
            ipaddress.ip_address(address) in ipaddress.ip_network(net, strict=False) for net in nets
        )
    except ValueError:
        return None


def _calico(text: Any, end: End) -> Truth:
    if end.account is None and OF_ACCOUNTS in str(text or ""):
        return None  # the pod's labels are known without those of its service account
    return _truth(selectors.calico(text).selects(end.calico))


def _namespaces(text: Any, end: End) -> Truth:
    return _truth(selectors.calico_namespaces(text).selects(end.of_namespace)) if text else True


# --- three answers ----------------------------------------------------------------------------------------------------


def _truth(selection: Selection) -> Truth:
    return {Selection.SELECTS: True, Selection.SELECTS_NOT: False, Selection.UNREADABLE: None}[
        selection
    ]


def both(one: Truth, other: Truth) -> Truth:
    """Whether two things hold."""
    if one is False or other is False:
        return False
    return True if one and other else None


def any_of(several: Iterable[Truth]) -> Truth:
    """Whether one of several things holds."""
    found = set(several)
    return True if True in found else None if None in found else False


def _not(one: Truth) -> Truth:
    return None if one is None else not one
