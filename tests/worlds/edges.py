# SPDX-License-Identifier: Apache-2.0
"""Wrong readings at edges: empty lists, ends of ranges, zeros, single values, parts of values,
names.

They are separate from ``mutants``: a reader who treats ordinary cases correctly can still make
these mistakes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from tests.worlds.editing import (
    DIRECTIONS,
    Edit,
    Obj,
    each_end,
    each_list,
    each_rule,
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
)

Whole = Callable[[Sequence[Obj]], list[Obj]]
"""Maps private copies of all objects to the objects that a wrong reading makes of them."""

EVERY, NO_ADDRESS = "0.0.0.0/0", "255.255.255.255/32"
NOBODY = {"matchLabels": {"seat": "no"}}


def _networks(edit: Callable[[str], str]) -> Edit:
    """Edit each network in rules of either API."""

    def of_end(end: Obj) -> None:
        for key in ("nets", "notNets"):
            if end.get(key):
                end[key] = [edit(net) for net in end[key]]

    def of_peer(peer: Obj) -> None:
        if peer.get("ipBlock"):
            peer["ipBlock"]["cidr"] = edit(peer["ipBlock"]["cidr"])

    calico, kubernetes = each_end(of_end), kubernetes_entries("peers", of_peer)

    def edited(obj: Obj) -> Obj | None:
        read = calico(obj)
        return kubernetes(read) if read is not None else None

    return edited


def _of_set(edit: Callable[[str], str]) -> Edit:
    return of_kind(
        "NetworkSet",
        lambda obj: {
            **obj,
            "spec": {**obj["spec"], "nets": [edit(net) for net in obj["spec"]["nets"]]},
        },
    )


def _first_name(pod: Obj) -> Obj:
    """Keep only the first named port of a pod's containers."""
    for container in pod["spec"].get("containers") or []:
        container["ports"] = [port for port in container.get("ports") or [] if port.get("name")][:1]
    return pod


def _last_port(by: int) -> Edit:
    return kubernetes_entries(
        "ports",
        lambda entry: entry.update(endPort=entry["endPort"] + by) if "endPort" in entry else None,
    )


def _ends_of_ranges(end: Obj) -> None:
    """Replace a range of ports by its first and last port."""
    if end.get("ports"):
        end["ports"] = [
            one
            for port in end["ports"]
            for one in (str(port).split(":") if ":" in str(port) else [port])
        ]


def _ends_of_end_ports(spec: Obj) -> None:
    """Replace Kubernetes' ports with an endPort by the first and the last port."""
    for direction in DIRECTIONS:
        for rule in spec.get(direction) or []:
            for entry in [entry for entry in rule.get("ports") or [] if "endPort" in entry]:
                rule["ports"].append({**entry, "port": entry.pop("endPort")})


def _blocks_at_any_port(spec: Obj) -> None:
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(direction) or []:
            if any("ipBlock" in peer for peer in rule.get(side) or []):
                rule.pop("ports", None)


def _first_type(key: str) -> Callable[[Obj], object]:
    return lambda spec: spec.update({key: spec[key][:1]}) if spec.get(key) else None


def _before_all(action: str) -> Edit:
    """Move the rules with this action before all others."""
    return each_list(lambda rules: sorted(rules, key=lambda rule: rule.get("action") != action))


def _number_is(protocol: str | None) -> Edit:
    """Read a protocol that is given as a number as this protocol; None: lose its rules."""

    def edited(rule: Obj, _: str) -> Obj | None:
        if isinstance(rule.get("protocol"), str | None):
            return rule
        return {**rule, "protocol": protocol} if protocol else None

    return each_rule(edited)


def _is_any(name: str) -> Edit:
    return each_rule(
        lambda rule, _: {key: v for key, v in rule.items() if (key, str(v)) != ("protocol", name)}
    )


def _sctp_any(entry: Obj) -> None:
    if entry.get("protocol") == "SCTP":
        for key in ("port", "endPort"):
            entry.pop(key, None)
        entry["protocol"] = "TCP"


def _port_alone_any(spec: Obj) -> None:
    """Let a protocol without a port match all traffic."""
    for direction in DIRECTIONS:
        for rule in spec.get(direction) or []:
            if any("port" not in entry for entry in rule.get("ports") or []):
                rule.pop("ports")


def _port_of_any_protocol(spec: Obj) -> None:
    """Read a port without a protocol as a port of both TCP and UDP."""
    for direction in DIRECTIONS:
        for rule in spec.get(direction) or []:
            rule["ports"] = [
                {**entry, "protocol": protocol}
                for entry in rule.get("ports") or []
                for protocol in ([entry["protocol"]] if "protocol" in entry else ["TCP", "UDP"])
            ]


def _peerless_lost(spec: Obj) -> None:
    for direction, side in (("ingress", "from"), ("egress", "to")):
        if spec.get(direction):
            spec[direction] = [rule for rule in spec[direction] if rule.get(side) or not rule]


def _empty_lost(spec: Obj) -> None:
    for direction in DIRECTIONS:
        if spec.get(direction):
            spec[direction] = [rule for rule in spec[direction] if rule]


def _last_entry(spec: Obj) -> None:
    for direction in DIRECTIONS:
        for rule in spec.get(direction) or []:
            if rule.get("ports"):
                rule["ports"] = rule["ports"][-1:]


def _first_exception(peer: Obj) -> None:
    block = peer.get("ipBlock") or {}
    if "except" in block:
        block["except"] = block["except"][:1]


def _nobody(key: str) -> Callable[[Obj], object]:
    return lambda peer: peer.update({key: NOBODY})


def _positive(spec: Obj) -> None:
    if "order" in spec:
        spec["order"] = abs(spec["order"])


def _not_in_first(selector: Obj) -> None:
    for one in selector["matchExpressions"]:
        if one["operator"] == "NotIn":
            one["values"] = one["values"][:1]


def _exists_wants_a_value(selector: Obj) -> None:
    more = [
        {"key": one["key"], "operator": "NotIn", "values": [""]}
        for one in selector["matchExpressions"]
        if one["operator"] == "Exists"
    ]
    selector["matchExpressions"] = [*selector["matchExpressions"], *more]


def _spaces_expressions(peer: Obj) -> None:
    (peer.get("namespaceSelector") or {}).pop("matchExpressions", None)


def _empty_peer(key: str, taken: Callable[[Obj], object]) -> Edit:
    return kubernetes_entries("peers", lambda peer: taken(peer) if peer.get(key) == {} else None)


def _both_accounts(end: Obj) -> None:
    """If both names and a selector of service accounts are given, keep only the names."""
    accounts = end.get("serviceAccounts") or {}
    if {"names", "selector"} <= accounts.keys():
        accounts.pop("selector")


def _orders_as_texts(objects: Sequence[Obj]) -> list[Obj]:
    """Order policies by the texts of their orders, with Kubernetes' 1000 among them."""
    calico = (
        obj["spec"] for obj in objects if obj["kind"].endswith("NetworkPolicy") and is_calico(obj)
    )
    said = [spec for spec in calico if "order" in spec]
    places = sorted({"1000", *(str(spec["order"]) for spec in said)})
    for spec in said:
        spec["order"] = 1000 + places.index(str(spec["order"])) - places.index("1000")
    return list(objects)


def _tiers_by_name(objects: Sequence[Obj]) -> list[Obj]:
    tiers = sorted(
        (obj for obj in objects if obj["kind"] == "Tier"),
        key=lambda obj: str(obj["metadata"]["name"]),
    )
    for number, tier in enumerate(tiers):
        tier["spec"]["order"] = 5000 + number
    return list(objects)


def _passed_is_denied(objects: Sequence[Obj]) -> list[Obj]:
    """Deny packets that earlier tiers pass and that no policy of the last tier selects."""
    found = list(objects)
    for number, obj in enumerate(objects):
        if (
            not obj["kind"].endswith("NetworkPolicy")
            or is_kubernetes(obj)
            or not obj["spec"].get("tier")
        ):
            continue
        other = copy.deepcopy(obj)
        other["metadata"]["name"] = f"end-{number}"
        spec = other["spec"]
        types = spec.get("types") or [
            way.capitalize()
            for way in DIRECTIONS
            if spec.get(way) or (way == "ingress" and not spec.get("egress"))
        ]
        for key in ("tier", "ingress", "egress"):
            spec.pop(key, None)
        spec.update(types=types, order=1e9 + number)
        found.append(other)
    return found


def _replaces(key: Callable[[Obj], tuple[str, ...]]) -> Whole:
    """Of policies with the same key, keep only the last."""

    def read(objects: Sequence[Obj]) -> list[Obj]:
        last = {key(obj): obj for obj in objects if obj["kind"].endswith("NetworkPolicy")}
        return [
            obj
            for obj in objects
            if not obj["kind"].endswith("NetworkPolicy") or last[key(obj)] is obj
        ]

    return read


def _bare(obj: Obj) -> str:
    return str(obj["metadata"]["name"]).rpartition(".")[2]


EDITS: dict[str, Edit] = {
    # networks
    "all addresses are none": _networks(lambda net: NO_ADDRESS if net == EVERY else net),
    "an address is its block": _networks(lambda net: net.replace("/32", "/26")),
    "a block of a NetworkSet is its first address": _of_set(lambda net: net.partition("/")[0] + "/32"),
    "all addresses of a NetworkSet are none": _of_set(lambda net: NO_ADDRESS if net == EVERY else net),
    "except: first only": kubernetes_entries("peers", _first_exception),
    "first name of a pod's ports only": of_kind("Pod", _first_name),
    "labels of NetworkSets ignored": unlabelled("NetworkSet"),
    # ports and protocols
    "a range lacks its first port": ranges(lambda first, last: f"{min(first + 1, last)}:{last}"),
    "a range has one port more": ranges(lambda first, last: f"{first}:{last + 1 if last < 65535 else last}"),
    "endPort is not among them": _last_port(-1),
    "endPort has one port more": _last_port(1),
    "a range is its ends": each_end(_ends_of_ranges),
    "endPort: both ends only": policies_of(is_kubernetes, _ends_of_end_ports),
    "Kubernetes' ipBlocks are at any port": policies_of(is_kubernetes, _blocks_at_any_port),
    "last port only": each_end(lambda end: end.update(ports=end["ports"][-1:]) if end.get("ports") else None),
    "a protocol by number is TCP": _number_is("TCP"),
    "rules with a protocol by number lost": _number_is(None),
    "ICMP is any protocol": _is_any("ICMP"),
    "SCTP is any protocol": _is_any("SCTP"),
    "Kubernetes' SCTP is TCP": kubernetes_entries("ports", _sctp_any),
    "Kubernetes' protocol without a port says nothing": policies_of(is_kubernetes, _port_alone_any),
    "Kubernetes' protocol that is not said is any": policies_of(is_kubernetes, _port_of_any_protocol),
    "Kubernetes' last port only": policies_of(is_kubernetes, _last_entry),
    # lists and empty values
    "rules with ports alone lost": policies_of(is_kubernetes, _peerless_lost),
    "empty rules lost": policies_of(is_kubernetes, _empty_lost),
    "Deny before Allow": _before_all("Deny"),
    "Pass before others": _before_all("Pass"),
    "first of types only": policies_of(is_calico, _first_type("types")),
    "Kubernetes' first type only": policies_of(is_kubernetes, _first_type("policyTypes")),
    "last rule lost": each_list(lambda rules: rules[:-1] if len(rules) > 1 else rules),
    "second rule lost": each_list(lambda rules: rules[:1] + rules[2:]),
    "an empty podSelector of a peer selects nobody": _empty_peer("podSelector", _nobody("podSelector")),
    "an empty namespaceSelector is the own namespace": _empty_peer("namespaceSelector", own_namespace),
    "an empty namespaceSelector selects no namespace": _empty_peer("namespaceSelector", _nobody("namespaceSelector")),
    "an empty podSelector of a policy selects nobody": policies_of(
        is_kubernetes, lambda spec: spec.update(podSelector=NOBODY) if spec.get("podSelector") == {} else None
    ),
    "policies without a rule lost": lost(
        lambda obj: obj["kind"].endswith("NetworkPolicy") and not any(obj["spec"].get(way) for way in DIRECTIONS)
    ),
    "Kubernetes' types follow the rules": policies_of(is_kubernetes, lambda spec: spec.pop("policyTypes", None)),
    # Kubernetes' selectors
    "first of matchExpressions only": with_expressions(lambda s: s.update(matchExpressions=s["matchExpressions"][:1])),
    "matchLabels beside matchExpressions ignored": with_expressions(lambda s: s.pop("matchLabels", None)),
    "NotIn: first value only": with_expressions(_not_in_first),
    "Exists wants a value": with_expressions(_exists_wants_a_value),
    "matchExpressions of namespaces ignored": kubernetes_entries("peers", _spaces_expressions),
    # Calico's selectors
    "== as starts with": replaced(r"(?<!!)== '", "starts with '"),
    "starts with as contains": replaced(r"starts\s+with", "contains"),
    "ends with as contains": replaced(r"ends\s+with", "contains"),
    "contains as starts with": replaced(r"contains", "starts with"),
    "!has as none": replaced(r"!\s*has\([^)]*\)", "!all()"),
    "|| before &&": replaced(r"^([^&|()]+) \|\| ([^&|()]+) && (.+)$", r"(\1 || \2) && \3"),
    "! of a group is of its first": replaced(r"!\s*\(([^|&()]+) (\|\||&&) ([^()]+)\)", r"(!(\1) \2 \3)"),
    "first two of several && only": replaced(r"^([^&|]+ && [^&|]+) && [^|]+$", r"\1"),
    "first two of several || only": replaced(r"^([^&|]+ \|\| [^&|]+) \|\| [^&]+$", r"\1"),
    "has wants a value": replaced(r"(?<!! )(?<!!)has\((\w+)\)", r"(has(\1) && \1 != '')"),
    "nothing equals what is empty": replaced(r"(\w+) == ''", r"!has(\1)"),
    "in: one value is none": replaced(r"(?<!not )in \{('[^',]*')\}", "in {}"),
    "in: last value only": replaced(r"(?<!not )in\s*\{[^}]*,\s*('[^']*')\s*\}", r"in {\1}"),
    "not in: first value only": replaced(r"not in \{('[^']*')[^}]*\}", r"not in {\1}"),
    "double quotes belong to the value": replaced(r"== \"([^\"]*)\"", r"""== '"\1"'"""),
    "names and selector of accounts: names alone": each_end(_both_accounts),
    # policies and tiers
    "policies that name the default tier lost": lost(lambda obj: (obj.get("spec") or {}).get("tier") == "default"),
    "policies of the second tier lost": lost(lambda obj: str((obj.get("spec") or {}).get("tier")).endswith("-two")),
    "order 0 is none": policies_of(is_calico, lambda spec: spec.pop("order") if spec.get("order") == 0 else None),
    "negative orders are positive": policies_of(is_calico, _positive),
    "selector beside an account ignored": policies_of(
        is_calico, lambda spec: spec.pop("selector", None) if "serviceAccountSelector" in spec else None
    ),
    "selector of global policies ignored": policies_of(is_global, lambda spec: spec.pop("selector", None)),
}  # fmt: skip

OF_ALL: dict[str, Whole] = {
    "orders compare as texts": _orders_as_texts,
    "tiers go by name": _tiers_by_name,
    "what passes the last tier is denied": _passed_is_denied,
    "a policy takes the place of its namesake in another namespace": _replaces(
        lambda obj: (obj["apiVersion"], obj["kind"], obj["metadata"]["name"])
    ),
    "Calico's policy takes the place of Kubernetes' of its name": _replaces(
        lambda obj: (obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
    ),
    "a policy takes the place of its namesake in another tier": _replaces(
        lambda obj: (
            obj["apiVersion"],
            obj["kind"],
            obj["metadata"].get("namespace", ""),
            _bare(obj),
        )
    ),
}
