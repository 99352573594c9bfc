# SPDX-License-Identifier: Apache-2.0
"""Ways to misread a policy: each maps a policy's spec, in Calico's words, to another spec."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Written = Mapping[str, Any]
"""A policy's spec, or one of its rules or peers, in Calico's words."""
RUN = "calico-demo"
"""The beginning of the names of a run's namespaces. The lab's own policies stay unchanged if a
misreading would end the run."""


def _with_rules(spec: Written, made: Callable[[Written], Iterable[Written]]) -> Written:
    return {
        **spec,
        **{
            way: [other for rule in spec.get(way) or () for other in made(rule)]
            for way in ("ingress", "egress")
        },
    }


def _with_peers(spec: Written, changed: Callable[[Written], Written]) -> Written:
    return _with_rules(
        spec,
        lambda rule: [
            {**rule, **{side: changed(rule.get(side) or {}) for side in ("source", "destination")}}
        ],
    )


def either_selector(spec: Written, _: str) -> Written:
    """Allow a pod that matches only one of a peer's two selectors."""
    from hybridlab.policy.label_selectors import PODS_ONLY

    def made(rule: Written) -> list[Written]:
        peer = rule.get("source") or {}
        if not peer.get("selector") or not peer.get("namespaceSelector"):
            return [rule]
        own = {key: value for key, value in peer.items() if key != "namespaceSelector"}
        return [{**rule, "source": own}, {**rule, "source": {**peer, "selector": PODS_ONLY}}]

    return _with_rules(spec, made)


def accounts_of_everybody(spec: Written, _: str) -> Written:
    """Let a rule for service accounts apply to everybody."""
    return _with_peers(
        spec, lambda peer: {key: value for key, value in peer.items() if key != "serviceAccounts"}
    )


def accounts_of_nobody(spec: Written, _: str) -> Written:
    """Treat pods as having no service account: a rule for accounts applies to nobody."""

    def changed(peer: Written) -> Written:
        if not peer.get("serviceAccounts"):
            return peer
        nobody = " && ".join(filter(None, (peer.get("selector"), "has(account)")))
        return {
            **{key: value for key, value in peer.items() if key != "serviceAccounts"},
            "selector": nobody,
        }

    return _with_peers(spec, changed)


def all_namespaces_the_own(spec: Written, _: str) -> Written:
    """Ignore a rule's selector of all namespaces, so that the rule is about the policy's own
    namespace."""
    return _with_peers(
        spec,
        lambda peer: {
            **peer,
            "namespaceSelector": peer.get("namespaceSelector", "").replace("all()", ""),
        },
    )


def all_pods_nobody(spec: Written, namespace: str) -> Written:
    """Let a policy of the run that selects all pods of its namespace select none."""
    from hybridlab.policy.label_selectors import PODS_ONLY

    is_for_all = namespace.startswith(RUN) and spec.get("selector") in {PODS_ONLY, "all()"}
    return {**spec, "selector": "!all()"} if is_for_all else spec


def untracked_at_pods(spec: Written, _: str) -> Written:
    """Treat an untracked policy, or a policy before DNAT, as an ordinary policy."""
    return {key: value for key, value in spec.items() if key not in {"doNotTrack", "preDNAT"}}


def on_forward_at_no_pods(spec: Written, _: str) -> Written:
    """Treat a policy that is only for forwarded traffic as a policy for hosts: it selects no
    pod."""
    on_forward_alone = (
        spec.get("applyOnForward") and not spec.get("doNotTrack") and not spec.get("preDNAT")
    )
    return {**spec, "selector": "!all()"} if on_forward_alone else spec


def rules(made: Callable[[Written], Iterable[Written]]) -> Callable[[Written, str], Written]:
    """Return a misreading that replaces each rule by other rules, or by none."""
    return lambda spec, _: _with_rules(spec, made)


def peers(changed: Callable[[Written], Written]) -> Callable[[Written, str], Written]:
    """Return a misreading that changes both ends of each rule."""
    return lambda spec, _: _with_peers(spec, changed)


def _without(given: Written, *keys: str) -> Written:
    return {key: value for key, value in given.items() if key not in keys}


def listed(made: Callable[[list[Written]], list[Written]]) -> Callable[[Written, str], Written]:
    """Return a misreading that changes the list of rules of each direction."""
    return lambda spec, _: {
        **spec,
        **{way: made(list(spec[way])) for way in ("ingress", "egress") if spec.get(way)},
    }


def selectors(text: Callable[[str], str]) -> Callable[[Written, str], Written]:
    """Return a misreading that changes the texts of the selectors of a policy and its rules."""

    def of(given: Written) -> Written:
        return {
            key: text(value) if key.lower().endswith("selector") and value else value
            for key, value in given.items()
        }

    return lambda spec, _: _with_peers(of(spec), of)


def egress_of_global_lost(spec: Written, namespace: str) -> Written:
    """Remove the egress rules of a policy without a namespace."""
    return spec if namespace else _without(spec, "egress")


def orders_reversed(spec: Written, _: str) -> Written:
    """Reverse the orders: the higher order comes first."""
    return spec if spec.get("order") is None else {**spec, "order": -spec["order"]}


def order_0_is_none(spec: Written, _: str) -> Written:
    """Treat an order of 0 as a missing order."""
    return _without(spec, "order") if spec.get("order") == 0 else spec


def orders_as_texts(spec: Written, _: str) -> Written:
    """Compare orders as texts: 1000 comes before 30."""
    order = spec.get("order")
    return (
        spec
        if order is None
        else {**spec, "order": float(f"0.{str(int(order)).ljust(9, '0')}") if order >= 0 else -1}
    )


def in_default_tier_lost(spec: Written, _: str) -> Written:
    """Let a policy that names the default tier select no pod."""
    return {**spec, "selector": "!all()"} if spec.get("tier") == "default" else spec


def _ranges(changed: Callable[[int, int], str]) -> Callable[[Written], Written]:
    def of(peer: Written) -> Written:
        ports = [
            changed(*map(int, one.split(":"))) if ":" in str(one) else one
            for one in peer.get("ports") or ()
        ]
        return {**peer, "ports": ports} if ports else peer

    return of


def _protocol(given: Callable[[Any], bool], taken: str | None) -> Callable[[Written, str], Written]:
    """Return a misreading that replaces a protocol by another; None: by any protocol."""

    def made(rule: Written) -> list[Written]:
        if not given(rule.get("protocol")):
            return [rule]
        return [{**rule, "protocol": taken} if taken else _without(rule, "protocol")]

    return rules(made)


MOST = 15
"""The maximum number of ports in iptables' multiport."""


def _first(key: str) -> Callable[[Written, str], Written]:
    return peers(lambda peer: {**peer, key: peer[key][:MOST]} if peer.get(key) else peer)


WAYS: dict[str, Callable[[Written, str], Written]] = {
    "either-selector": either_selector,
    "accounts-of-everybody": accounts_of_everybody,
    "accounts-of-nobody": accounts_of_nobody,
    "all-namespaces-the-own": all_namespaces_the_own,
    "all-pods-nobody": all_pods_nobody,
    "untracked-at-pods": untracked_at_pods,
    "on-forward-at-no-pods": on_forward_at_no_pods,
    "log-allows": rules(
        lambda rule: [{**rule, "action": "Allow"} if rule["action"] == "Log" else rule]
    ),
    "nets-beside-selectors-ignored": peers(
        lambda peer: _without(peer, "nets") if peer.get("selector") else peer
    ),
    "sources-of-egress-ignored": lambda spec, _: {
        **spec,
        "egress": [_without(rule, "source") for rule in spec.get("egress") or ()],
    },
    "either-means-both": selectors(lambda text: text.replace("||", "&&")),
    "egress-of-global-policies-lost": egress_of_global_lost,
    "orders-reversed": orders_reversed,
    "pass-allows": rules(
        lambda rule: [{**rule, "action": "Allow"} if rule["action"] == "Pass" else rule]
    ),
    "first-net-only": peers(
        lambda peer: {**peer, "nets": peer["nets"][:1]} if peer.get("nets") else peer
    ),
    "starts-with-means-equals": selectors(lambda text: text.replace("starts with", "==")),
    "source-ports-ignored": rules(
        lambda rule: [{**rule, "source": _without(rule.get("source") or {}, "ports", "notPorts")}]
    ),
    "last-rule-first": listed(lambda several: several[::-1]),
    "first-rule-only": listed(lambda several: several[:1]),
    "selectors-of-accounts-ignored": lambda spec, _: _without(spec, "serviceAccountSelector"),
    "numbers-of-protocols-mean-any": rules(
        lambda rule: [_without(rule, "protocol") if isinstance(rule.get("protocol"), int) else rule]
    ),
    "contains-means-equals": selectors(lambda text: text.replace("contains", "==")),
    "all-addresses-are-none": peers(
        lambda peer: (
            {
                **peer,
                "nets": [
                    "255.255.255.255/32" if net == "0.0.0.0/0" else net for net in peer["nets"]
                ],
            }
            if peer.get("nets")
            else peer
        )
    ),
    "ranges-lack-their-first-port": peers(
        _ranges(lambda first, last: f"{min(first + 1, last)}:{last}")
    ),
    "ranges-have-one-port-more": peers(
        _ranges(lambda first, last: f"{first}:{min(last + 1, 65535)}")
    ),
    "last-port-only": peers(
        lambda peer: {**peer, "ports": peer["ports"][-1:]} if peer.get("ports") else peer
    ),
    "icmp-means-any-protocol": _protocol(lambda protocol: protocol == "ICMP", None),
    "sctp-means-any-protocol": _protocol(lambda protocol: protocol == "SCTP", None),
    "or-before-and": selectors(
        lambda text: re.sub(r"([^&|()]+) \|\| ([^&|()]+) && ([^&|()]+)", r"(\1 || \2) && \3", text)
    ),
    "negations-are-of-the-first-of-a-group": selectors(
        lambda text: re.sub(r"!\(([^|&()]+) (\|\||&&) ([^()]+)\)", r"(!(\1) \2 \3)", text)
    ),
    "third-term-lost": selectors(
        lambda text: re.sub(r"(([^&|]+)(&&|\|\|)([^&|]+)) \3 [^&|]+$", r"\1", text)
    ),
    "has-wants-a-value": selectors(
        lambda text: re.sub(r"(?<!!)has\((\w)\)", r"(has(\1) && \1 != '')", text)
    ),
    "nothing-is-empty": selectors(lambda text: re.sub(r"(\w) == ''", r"!has(\1)", text)),
    "first-value-of-not-in": selectors(
        lambda text: re.sub(r"not in \{('[^']*')[^}]*\}", r"not in {\1}", text)
    ),
    "one-value-of-in-is-none": selectors(
        lambda text: re.sub(r"(?<!not )in \{'[^',]*'\}", "in {}", text)
    ),
    "quotes-are-of-the-value": selectors(
        lambda text: re.sub(r"== \"([^\"]*)\"", r"""== '"\1"'""", text)
    ),
    "order-0-is-none": order_0_is_none,
    "orders-compare-as-texts": orders_as_texts,
    "policies-that-name-the-default-tier-lost": in_default_tier_lost,
    "first-ports-of-many": _first("ports"),
    "first-nets-of-many": _first("nets"),
    "first-rules-of-many": listed(lambda several: several[:MOST]),
    "first-values-of-many": selectors(
        lambda text: re.sub(
            r"\{([^}]*)\}", lambda of: f"{{{','.join(of[1].split(',')[:MOST])}}}", text
        )
    ),
}
"""Map the name of each misreading to its function."""
