# SPDX-License-Identifier: Apache-2.0
"""Rules of Calico's policies, read from their objects.

Sources: Calico's reference, NetworkPolicy ("Rule", "EntityRule", "ServiceMatch");
felix/calc/rule_scanner.go for a notSelector that narrows a positive condition next to it.
"""

from collections.abc import Mapping
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.labels import OF_ACCOUNTS
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import Obj
from conformance.policy.oracle.rules import ACTIONS, ANYBODY, Chooser, Peer, Rule
from conformance.policy.oracle.world import Member, Pod
from conformance.policy.selectors import Selector, calico, calico_namespaces
from conformance.policy.truth import Truth, all_of, negated

_PEER = frozenset(
    {
        *("nets", "notNets", "ports", "notPorts", "services"),
        *("selector", "notSelector", "namespaceSelector", "serviceAccounts"),
    }
)
_RULE = frozenset(
    {
        *("action", "protocol", "notProtocol", "icmp", "notICMP"),
        *("ipVersion", "source", "destination", "http", "metadata"),
    }
)
_FAMILIES = {fields.PROTOCOLS["icmp"]: 4, fields.PROTOCOLS["icmpv6"]: 6}
"""The IP version of protocols that exist in only one version."""


def unread(given: Any, where: str, why: str) -> list[Rule]:
    """Return a list with one rule in place of a rule that cannot be read; an empty list for a Log
    rule. The new rule has the action of the unreadable rule if that action can be read; a
    Kubernetes rule has the action Allow."""
    action = given.get("action", "Allow") if isinstance(given, Mapping) else ""
    return [] if action == "Log" else [Rule(action if action in ACTIONS else "", where, unread=why)]


def of_calico(given: Any, home: str | None, where: str, owner: str) -> Rule | None:
    """Return a rule of a Calico policy; None if it is a Log rule, which decides nothing.

    ``home``: the policy's namespace. Raise UsageProblem with the name of the ``owner``.
    """
    place = f"{owner} {where}"
    rule = fields.mapping(given, place, _RULE)
    action = fields.one_of(rule.get("action"), f"{place} action", {"Allow", "Deny", "Pass", "Log"})
    given_protocols = {
        key: rule[key] for key in ("protocol", "notProtocol") if rule.get(key) is not None
    }
    wanted = {key: fields.protocol(value, place) for key, value in given_protocols.items()}
    made = Rule(
        action,
        where,
        _peer(rule.get("source"), home, f"{place} source"),
        _peer(rule.get("destination"), home, f"{place} destination"),
        wanted.get("protocol"),
        wanted.get("notProtocol"),
        _types(rule.get("icmp"), f"{place} icmp"),
        _types(rule.get("notICMP"), f"{place} notICMP"),
        _version(rule, wanted, place),
        bool(rule.get("http")),
    )
    return None if action == "Log" else made


def _version(rule: Obj, protocols: Mapping[str, int], place: str) -> int | None:
    """Return the only IP version that a rule applies to, by its ipVersion or its protocol; None if
    it applies to both. A notProtocol implies no version."""
    version = rule.get("ipVersion")
    if version not in (None, 4, 6):
        raise UsageProblem(f"ipVersion 4 or 6 is expected, not {fields.shown(version)}")
    for number, family in _FAMILIES.items():
        if number in protocols.values() and rule.get("ipVersion") not in (None, family):
            raise UsageProblem(f"{place}: Calico refuses ipVersion {version} for this protocol")
        if number == protocols.get("protocol"):
            version = family
    return version


def _types(given: Any, where: str) -> tuple[int, int | None] | None:
    icmp = fields.mapping(given, where, {"type", "code"})
    kind, code = (
        None if icmp.get(name) is None else int(fields.number(icmp[name], where))
        for name in ("type", "code")
    )
    if kind is None and code is None:
        return None
    if kind is None or not 0 <= kind <= 254 or not 0 <= (code or 0) <= 255:
        raise UsageProblem(f"{where}: a type from 0 to 254 is expected, and a code up to 255")
    return kind, code


def _peer(given: Any, home: str | None, where: str) -> Peer:
    peer = fields.mapping(given, where, _PEER)
    if not peer:
        return ANYBODY
    positive = any(peer.get(key) for key in ("selector", "namespaceSelector", "serviceAccounts"))
    excluded = peer.get("notSelector")
    folded = bool(excluded) and (positive or home is not None)
    unless = fields.readable(calico(excluded), where) if excluded and not folded else None
    ranges, names = fields.ports(peer.get("ports"), where)
    not_ranges, not_names = fields.ports(peer.get("notPorts"), where)
    service = fields.mapping(peer.get("services"), f"{where} services", {"name", "namespace"})
    name, space = (fields.text(service.get(key), where) for key in ("name", "namespace"))
    return Peer(
        choose=_chooser(peer, home, where) if positive or folded else None,
        unless=(lambda member: of_labels(unless, member)) if unless else None,
        nets=fields.nets(peer.get("nets"), where),
        not_nets=fields.nets(peer.get("notNets"), where),
        ports=ranges,
        named=names,
        not_ports=not_ranges,
        not_named=not_names,
        service=(space or home or "", name) if peer.get("services") is not None else None,
    )


def of_labels(selector: Selector, member: Member) -> Truth:
    """Return whether a selector selects a network set or a pod. The labels of a pod include those
    of its service account."""
    is_unknown = isinstance(member, Pod) and member.account_labels is None
    return None if is_unknown and OF_ACCOUNTS in selector.text else selector.selects(member.labels)


def _chooser(peer: Obj, home: str | None, where: str) -> Chooser:
    """Return the predicate for a peer: its selectors of namespaces, accounts and labels."""
    spaces = peer.get("namespaceSelector")
    fields.of_pods(peer.get("selector"), f"{where} selector")
    if isinstance(spaces, str) and spaces.strip() != "global()":
        fields.of_pods(spaces, f"{where} namespaceSelector with further parts")
    of_space = fields.readable(calico_namespaces(spaces), where) if spaces else None
    wanted = fields.readable(calico(peer.get("selector")), where)
    excluded = (
        fields.readable(calico(peer["notSelector"]), where) if peer.get("notSelector") else None
    )
    accounts = fields.mapping(
        peer.get("serviceAccounts"), f"{where} serviceAccounts", {"names", "selector"}
    )
    names = fields.sequence(accounts.get("names"), where)
    of_account = fields.readable(calico(accounts.get("selector")), where)

    def of_accounts(member: Member) -> Truth:
        if not isinstance(member, Pod):  # without an account, only negated selectors match
            return not names and of_account.selects({})
        named = not names or (member.account in names if member.account else None)
        return all_of((named, of_account.selects(member.account_labels)))

    def chosen(member: Member) -> Truth:
        if not of_space and home is not None and member.namespace != home:
            return False
        return all_of(
            (
                of_space.selects(member.namespace_labels) if of_space else True,
                of_accounts(member) if accounts else True,
                of_labels(wanted, member),
                negated(of_labels(excluded, member)) if excluded else True,
            )
        )

    return chosen
