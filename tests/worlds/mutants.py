# SPDX-License-Identifier: Apache-2.0
"""Wrong readings of policy: the oracle with one of its rules switched off or confused.

A wrong reading is defined by an edit of objects: ignoring ``notNets`` means deciding as if no
object had them. A few are defined by the switches of Windows' departures instead. Each is named by
its mistake.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.policy.oracle.oracle import Oracle
from conformance.policy.oracle.switches import Switch, Switches
from conformance.policy.oracle.world import World
from tests.worlds import counts, edges, forms, identities
from tests.worlds.editing import (
    DIRECTIONS,
    SIDES,
    WORLD,
    Edit,
    Obj,
    action,
    each_end,
    each_list,
    each_rule,
    end_first,
    end_without,
    is_calico,
    is_global,
    is_kubernetes,
    kubernetes_entries,
    lost,
    of_kind,
    own_namespace,
    policies_of,
    ranges,
    replaced,
    unlabelled,
    with_expressions,
    without,
)


@dataclass(frozen=True)
class Mutant:
    """One wrong reading."""

    name: str
    edit: Edit
    switches: Callable[[Switches], Switches] = lambda given: given
    whole: edges.Whole | None = None
    """The edit of all objects together, if no single object can define the wrong reading."""

    @property
    def of_objects(self) -> bool:
        """Return whether the wrong reading is defined by an edit of objects."""
        return self.edit is not _same or self.whole is not None

    def objects(self, given: Sequence[Obj]) -> list[Obj]:
        """Return the objects as the wrong reading has them."""
        # plain data that is copied a thousand times, so the copy must be fast
        copies = (marshal.loads(marshal.dumps(obj)) for obj in given)
        read = [obj for one in copies if (obj := self.edit(one)) is not None]
        return self.whole(read) if self.whole else read


def _reverse_tiers(obj: Obj) -> Obj:
    if "order" in obj["spec"]:
        obj["spec"]["order"] = 2e6 - obj["spec"]["order"]
    return obj


def _tier_end(end: str) -> Edit:
    return of_kind("Tier", lambda obj: {**obj, "spec": {**obj["spec"], "defaultAction": end}})


def _staged_enforced(obj: Obj) -> Obj:
    kind = obj["kind"].removeprefix("Staged")
    if kind == "KubernetesNetworkPolicy":
        return {**obj, "kind": "NetworkPolicy", "apiVersion": "networking.k8s.io/v1"}
    return {**obj, "kind": kind}


def _namespaced_is_global(obj: Obj) -> Obj:
    return (
        {**obj, "kind": "GlobalNetworkPolicy"}
        if obj["kind"] == "NetworkPolicy" and is_calico(obj)
        else obj
    )


def _global_is_local(obj: Obj) -> Obj:
    """Let a GlobalNetworkPolicy's peer without namespaceSelector match only global objects."""
    if obj["kind"] != "GlobalNetworkPolicy":
        return obj

    def edit(end: Obj) -> None:
        if end.get("selector") and not end.get("namespaceSelector"):
            end["namespaceSelector"] = "global()"

    read = each_end(edit)(obj)
    assert read is not None
    return read


def _any_namespace(end: Obj) -> None:
    if any(end.get(key) for key in ("selector", "serviceAccounts", "notSelector")):
        end.setdefault("namespaceSelector", "all()")


def _not_selector_alone(end: Obj) -> None:
    """Let a notSelector beside other fields match any address by itself."""
    if end.get("notSelector"):
        for key in ("selector", "namespaceSelector", "serviceAccounts"):
            end.pop(key, None)


def _protocol_number_any(rule: Obj, _: str) -> Obj:
    return {
        key: value
        for key, value in rule.items()
        if not (key == "protocol" and str(value).isdigit())
    }


def _one_range(end: Obj) -> None:
    """Replace the ports by one range from the first to the last."""
    ports = [str(port) for port in end.get("ports") or []]
    if len(ports) > 1 and all(re.fullmatch(r"[\d:]+", port) for port in ports):
        numbers = [int(number) for port in ports for number in port.split(":")]
        end["ports"] = [f"{min(numbers)}:{max(numbers)}"]


def _egress_rules_lost(spec: Obj) -> None:
    """Lose the rules for egress; the policy still applies to egress, and so closes it."""
    if spec.get("egress"):
        spec.setdefault(
            "types", [direction.capitalize() for direction in DIRECTIONS if spec.get(direction)]
        )
        spec["egress"] = []


def _last_first(spec: Obj) -> None:
    for direction in DIRECTIONS:
        if spec.get(direction):
            spec[direction] = spec[direction][::-1]


def _host_only(end: Obj) -> None:
    for key in ("nets", "notNets"):
        if end.get(key):
            end[key] = [
                net.partition("/")[0] + ("/128" if ":" in net else "/32") for net in end[key]
            ]


def _swap(end_of_rule: Obj, _: str) -> Obj:
    swapped = {key: value for key, value in end_of_rule.items() if key not in SIDES}
    for side, other in (("source", "destination"), ("destination", "source")):
        if end_of_rule.get(side):
            swapped[other] = end_of_rule[side]
    return swapped


def _peer_only(key: str) -> Callable[[Obj], object]:
    """Return an edit that removes this selector from a peer with both selectors."""
    return lambda peer: (
        peer.pop(key, None) if {"podSelector", "namespaceSelector"} <= peer.keys() else None
    )


def _peer_any_namespace(peer: Obj) -> None:
    if "podSelector" in peer:
        peer.setdefault("namespaceSelector", {})


def _either_selector(obj: Obj) -> Obj:
    """Let either of a peer's two selectors be enough."""
    if obj["kind"] != "NetworkPolicy" or not is_kubernetes(obj):
        return obj
    for direction, key in (("ingress", "from"), ("egress", "to")):
        for rule in obj["spec"].get(direction) or []:
            rule[key] = [one for peer in rule.get(key) or [] for one in _apart(peer)]
    return obj


def _apart(peer: Obj) -> Iterator[Obj]:
    if {"podSelector", "namespaceSelector"} <= peer.keys():
        yield {"podSelector": peer["podSelector"]}
        yield {"namespaceSelector": peer["namespaceSelector"]}
    else:
        yield peer


def _kubernetes_first(key: str) -> Edit:
    def edited(spec: Obj) -> None:
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for rule in spec.get(direction) or []:
                name = peers if key == "peers" else key
                if rule.get(name):
                    rule[name] = rule[name][:1]

    return policies_of(is_kubernetes, edited)


def _first_protocol(spec: Obj) -> None:
    """Keep only those ports of a rule that have the first port's protocol."""
    for direction in DIRECTIONS:
        for rule in spec.get(direction) or []:
            ports = rule.get("ports") or []
            if ports:
                first = ports[0].get("protocol", "TCP")
                rule["ports"] = [port for port in ports if port.get("protocol", "TCP") == first]


def _kubernetes_ports_lost(spec: Obj) -> None:
    for direction in DIRECTIONS:
        for rule in spec.get(direction) or []:
            rule.pop("ports", None)


def _kubernetes_named_lost(entry: Obj) -> None:
    if isinstance(entry.get("port"), str):
        entry.pop("port")


def _expressions(edit: Callable[[Obj], object]) -> Edit:
    """Edit in place each matchExpression of Kubernetes' selectors."""
    return with_expressions(lambda selector: [edit(one) for one in selector["matchExpressions"]])


def _operator(given: str, taken: str) -> Edit:
    return _expressions(
        lambda one: one.update(operator=taken) if one["operator"] == given else None
    )


def _labels_first(spec: Any) -> None:
    """Keep only the first of the matchLabels."""
    if isinstance(spec, dict):
        labels = spec.get("matchLabels")
        if labels:
            spec["matchLabels"] = dict(list(labels.items())[:1])
        for inner in spec.values():
            _labels_first(inner)
    elif isinstance(spec, list):
        for inner in spec:
            _labels_first(inner)


def _matchless(spec: Any) -> None:
    """Ignore matchExpressions."""
    if isinstance(spec, dict):
        spec.pop("matchExpressions", None)
        for inner in spec.values():
            _matchless(inner)
    elif isinstance(spec, list):
        for inner in spec:
            _matchless(inner)


def _named_any_protocol(pod: Obj) -> Obj:
    """Let a port's name match its number with any protocol."""
    for container in pod["spec"].get("containers") or []:
        ports = container.get("ports") or []
        container["ports"] = [
            {**port, "protocol": protocol}
            for port in ports
            for protocol in ("TCP", "UDP")
            if port.get("name")
        ]
    return pod


def _slice_ports_lost(obj: Obj) -> Obj:
    """Let a Service's backends match at every port that a probe uses."""
    return {
        **obj,
        "ports": [
            {"port": port, "protocol": p}
            for p in ("TCP", "UDP")
            for port in (53, 80, 81, 443, 8080)
        ],
    }


def _first_address(obj: Obj) -> Obj:
    return {**obj, "endpoints": obj["endpoints"][:1]}


def _set_first_net(obj: Obj) -> Obj:
    return {**obj, "spec": {**obj["spec"], "nets": obj["spec"]["nets"][:1]}}


def _turned(switch: Switch) -> Callable[[Switches], Switches]:
    """Invert the switch on Windows; the promise has no switches."""
    return lambda given: given ^ {switch} if given else given


def _same(obj: Obj) -> Obj:
    return obj


def _hosts_lost(obj: Obj) -> Obj:
    return {**obj, "status": {}}


def _for_hosts_at_pods(spec: Obj) -> None:
    for key in ("doNotTrack", "preDNAT"):
        spec.pop(key, None)


_EDITS: dict[str, Edit] = {
    # rules of Calico's policies
    "protocol ignored": without("protocol"),
    "notProtocol ignored": without("notProtocol"),
    "a protocol by number is any": each_rule(_protocol_number_any),
    "ICMP types ignored": without("icmp"),
    "notICMP ignored": without("notICMP"),
    "ipVersion ignored": without("ipVersion"),
    "source ignored": without("source"),
    "destination ignored": without("destination"),
    "source of egress ignored": each_rule(
        lambda r, d: {k: v for k, v in r.items() if (d, k) != ("egress", "source")}
    ),
    "destination of ingress ignored": each_rule(
        lambda r, d: {k: v for k, v in r.items() if (d, k) != ("ingress", "destination")}
    ),
    "source and destination swapped": each_rule(_swap),
    "ports ignored": end_without("ports"),
    "source ports ignored": each_end(lambda end: end.pop("ports", None), ["source"]),
    "notPorts ignored": end_without("notPorts"),
    "first port only": end_first("ports"),
    "lists of ports are one range": each_end(_one_range),
    "a range is its first port": ranges(lambda first, last: str(first)),
    "a range lacks its last port": ranges(lambda first, last: f"{first}:{max(first, last - 1)}"),
    "nets ignored": end_without("nets"),
    "first net only": end_first("nets"),
    "masks of nets ignored": each_end(_host_only),
    "notNets ignored": end_without("notNets"),
    "nets beside a selector ignored": each_end(
        lambda end: end.pop("nets", None) if end.get("selector") else None
    ),
    "selectors of ends ignored": end_without("selector"),
    "notSelector ignored": end_without("notSelector"),
    "notSelector beside a selector speaks of all": each_end(_not_selector_alone),
    "namespaceSelector of ends ignored": end_without("namespaceSelector"),
    "ends are in any namespace": each_end(_any_namespace),
    "service accounts of ends ignored": end_without("serviceAccounts"),
    "selectors of service accounts ignored": each_end(
        lambda end: (end.get("serviceAccounts") or {}).pop("selector", 0)
    ),
    "names of service accounts ignored": each_end(
        lambda end: (end.get("serviceAccounts") or {}).pop("names", 0)
    ),
    "services ignored": end_without("services"),
    # actions and their order
    "Pass allows": action("Pass", "Allow"),
    "Pass denies": action("Pass", "Deny"),
    "Pass lost": action("Pass", None),
    "Log allows": action("Log", "Allow"),
    "Log denies": action("Log", "Deny"),
    "Deny lost": action("Deny", None),
    "Deny passes": action("Deny", "Pass"),
    "first rule only": each_list(lambda rules: rules[:1]),
    "third rule lost": each_list(lambda rules: rules[:2]),
    "last rule first": each_list(lambda rules: rules[::-1]),
    "last rule of global policies first": policies_of(is_global, _last_first),
    "Allow before Deny": each_list(
        lambda rules: sorted(rules, key=lambda rule: rule.get("action") == "Deny")
    ),
    # policies and tiers
    "order reversed": policies_of(
        is_calico, lambda spec: spec.update(order=-spec["order"]) if "order" in spec else 0
    ),
    "no order is the first": policies_of(is_calico, lambda spec: spec.setdefault("order", -1)),
    "Kubernetes' policies come last": policies_of(
        is_calico, lambda spec: spec.update(order=spec["order"] - 1e6) if "order" in spec else 0
    ),
    "Kubernetes' policies come first": policies_of(
        is_calico, lambda spec: spec.update(order=spec.get("order", 1e9) + 2000)
    ),
    "tiers reversed": of_kind("Tier", _reverse_tiers),
    "tiers' ends always deny": _tier_end("Deny"),
    "tiers' ends always pass": _tier_end("Pass"),
    "all policies are in the default tier": policies_of(
        is_calico, lambda spec: spec.pop("tier", None)
    ),
    "staged policies enforced": _staged_enforced,
    "policies for hosts enforced at pods": policies_of(is_global, _for_hosts_at_pods),
    "applyOnForward policies lost": lost(
        lambda obj: bool((obj.get("spec") or {}).get("applyOnForward"))
    ),
    "egress of global policies lost": policies_of(is_global, lambda spec: spec.pop("egress", None)),
    "rules for egress of global policies lost": policies_of(is_global, _egress_rules_lost),
    "namespaceSelector of policies ignored": policies_of(
        is_global, lambda spec: spec.pop("namespaceSelector", None)
    ),
    "serviceAccountSelector of policies ignored": policies_of(
        is_calico, lambda s: s.pop("serviceAccountSelector", 0)
    ),
    "selector of policies ignored": policies_of(is_calico, lambda spec: spec.pop("selector", None)),
    "types are always both": policies_of(
        is_calico, lambda spec: spec.update(types=["Ingress", "Egress"])
    ),
    "types are always ingress": policies_of(is_calico, lambda spec: spec.update(types=["Ingress"])),
    "types not said are both": policies_of(
        is_calico, lambda spec: spec.setdefault("types", ["Ingress", "Egress"])
    ),
    "types not said are ingress": policies_of(
        is_calico, lambda spec: spec.setdefault("types", ["Ingress"])
    ),
    "policies of a namespace are global": _namespaced_is_global,
    "selectors of global policies see global things only": _global_is_local,
    # Kubernetes' policies
    "podSelector of policies ignored": policies_of(
        is_kubernetes, lambda spec: spec.update(podSelector={})
    ),
    "Kubernetes' policies lost": lost(
        lambda obj: obj["kind"] == "NetworkPolicy" and is_kubernetes(obj)
    ),
    "Kubernetes' egress lost": policies_of(
        is_kubernetes, lambda spec: spec.update(policyTypes=["Ingress"])
    ),
    "Kubernetes' types not said are ingress": policies_of(
        is_kubernetes, lambda spec: spec.setdefault("policyTypes", ["Ingress"])
    ),
    "Kubernetes' types are always both": policies_of(
        is_kubernetes, lambda spec: spec.update(policyTypes=["Ingress", "Egress"])
    ),
    "Kubernetes' ports ignored": policies_of(is_kubernetes, _kubernetes_ports_lost),
    "Kubernetes' first port only": _kubernetes_first("ports"),
    "Kubernetes' first peer only": _kubernetes_first("peers"),
    "Kubernetes' first protocol only": policies_of(is_kubernetes, _first_protocol),
    "endPort ignored": kubernetes_entries("ports", lambda entry: entry.pop("endPort", None)),
    "Kubernetes' protocol is always TCP": kubernetes_entries(
        "ports", lambda entry: entry.update(protocol="TCP")
    ),
    "Kubernetes' port names ignored": kubernetes_entries("ports", _kubernetes_named_lost),
    "except ignored": kubernetes_entries(
        "peers", lambda peer: (peer.get("ipBlock") or {}).pop("except", None)
    ),
    "pods of a peer with both selectors ignored": kubernetes_entries(
        "peers", _peer_only("podSelector")
    ),
    "namespaces of a peer with both selectors ignored": kubernetes_entries(
        "peers", _peer_only("namespaceSelector")
    ),
    "either selector of a peer is enough": _either_selector,
    "podSelector of a peer sees any namespace": kubernetes_entries("peers", _peer_any_namespace),
    "namespaceSelector of a peer ignored": kubernetes_entries("peers", own_namespace),
    "matchExpressions ignored": policies_of(is_kubernetes, _matchless),
    "first of matchLabels only": policies_of(is_kubernetes, _labels_first),
    "NotIn as In": _operator("NotIn", "In"),
    "DoesNotExist as Exists": _operator("DoesNotExist", "Exists"),
    "In: first value only": _expressions(
        lambda one: one.update(values=one["values"][:1]) if one.get("values") else 0
    ),
    # Calico's selectors
    "|| as &&": replaced(r"\|\|", "&&"),
    "&& as ||": replaced(r"&&", "||"),
    "!= as ==": replaced(r"!=", "=="),
    "!has as has": replaced(r"!\s*has", "has"),
    "not in as in": replaced(r"not\s+in", "in"),
    "in: first value only": replaced(r"(?<!not )in\s*\{\s*('[^']*'|\"[^\"]*\")[^}]*\}", r"in {\1}"),
    "starts with as ==": replaced(r"starts\s+with", "=="),
    "ends with as ==": replaced(r"ends\s+with", "=="),
    "contains as ==": replaced(r"contains", "=="),
    "!= needs the label": replaced(
        r"([\w./-]+)\s*!=\s*('[^']*'|\"[^\"]*\")", r"(has(\1) && \1 != \2)"
    ),
    "not in needs the label": replaced(
        r"([\w./-]+)\s+not\s+in\s*(\{[^}]*\})", r"(has(\1) && \1 not in \2)"
    ),
    "all() as none": replaced(r"^all\(\)$", "!all()"),
    "global() as all()": replaced(r"global\(\)", "all()"),
    # the world
    "labels of namespaces ignored": unlabelled("Namespace"),
    "labels of service accounts ignored": unlabelled("ServiceAccount"),
    "NetworkSets lost": lost(lambda obj: obj["kind"] == "NetworkSet"),
    "GlobalNetworkSets lost": lost(lambda obj: obj["kind"] == "GlobalNetworkSet"),
    "first net of a NetworkSet only": of_kind("NetworkSet", _set_first_net),
    "ports' names are any protocol's": of_kind("Pod", _named_any_protocol),
    "first backend of a Service only": of_kind("EndpointSlice", _first_address),
    "ports of Services ignored": of_kind("EndpointSlice", _slice_ports_lost),
    "nodes do not reach their own pods": of_kind("Node", _hosts_lost),
}

_SWITCHES = {
    f"Windows: {switch.name.lower().replace('_', ' ')} the other way": switch for switch in Switch
}

MUTANTS: dict[str, Mutant] = (
    {name: Mutant(name, edit) for name, edit in (_EDITS | edges.EDITS | forms.EDITS).items()}
    | {name: Mutant(name, edit) for name, edit in (counts.EDITS | identities.EDITS).items()}
    | {
        name: Mutant(name, _same, whole=whole)
        for name, whole in (edges.OF_ALL | forms.OF_ALL).items()
    }
    | {name: Mutant(name, _same, _turned(switch)) for name, switch in _SWITCHES.items()}
)


@dataclass(frozen=True, eq=False)
class Misread:
    """Objects that many sets of policies share, as a wrong reading has them."""

    mutant: Mutant
    objects: list[Obj]
    rightly: bool
    """True if the wrong reading leaves all of them unchanged."""
    world: World

    @classmethod
    def of(cls, mutant: Mutant, given: Sequence[Obj]) -> Misread:
        """Return the wrong reading of the given objects: the world's objects and the tiers."""
        read = mutant.objects(given)
        world = World(obj for obj in read if obj["kind"] in WORLD)
        return cls(mutant, read, mutant.of_objects and read == list(given), world)

    def oracle(self, policies: Sequence[Obj]) -> Oracle | None:
        """Return the oracle with this wrong reading of the policies; None: the right oracle."""
        read = self.mutant.objects(policies)
        if self.rightly and read == list(policies):
            return None
        return Oracle(self.world, [*self.objects, *read])
