# SPDX-License-Identifier: Apache-2.0
"""Rules of Kubernetes' NetworkPolicy, read as rules in Calico's terms.

Source: Kubernetes' reference, NetworkPolicy.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import Range
from conformance.policy.oracle.rules import ANYBODY, Peer, Rule
from conformance.policy.oracle.world import Member, Pod
from conformance.policy.selectors import kubernetes
from conformance.policy.truth import Truth, all_of


def of_kubernetes(given: Any, direction: str, home: str, where: str, owner: str) -> Iterator[Rule]:
    """Yield a rule in Calico's terms for each peer and protocol of a Kubernetes rule. Raise
    UsageProblem."""
    side = "from" if direction == "ingress" else "to"
    place = f"{owner} {where}"
    rule = fields.mapping(given, place, {side, "ports"})
    peers = fields.sequence(rule.get(side), place)
    for peer in peers or [None]:
        end = _kubernetes_peer(peer, home, place) if peers else ANYBODY
        for protocol, ranges, names in _by_protocol(rule.get("ports"), place):
            if direction == "ingress":
                at = Peer(ports=ranges, named=names) if ranges or names else ANYBODY
                yield Rule("Allow", where, end, at, protocol)
            else:
                made = partial(Peer, end.choose, None, end.nets, end.not_nets)
                yield Rule("Allow", where, ANYBODY, made(ranges, names), protocol)


def _kubernetes_peer(given: Any, home: str, where: str) -> Peer:
    peer = fields.mapping(given, where, {"podSelector", "namespaceSelector", "ipBlock"})
    block = fields.mapping(peer.get("ipBlock"), f"{where} ipBlock", {"cidr", "except"})
    if block and len(peer) > 1:
        raise UsageProblem(f"{where}: a peer has an ipBlock and a selector: write two peers")
    if block:
        return Peer(
            nets=fields.nets([block.get("cidr")], where, bare=False),
            not_nets=fields.nets(block.get("except"), where, bare=False),
        )
    spaces = peer.get("namespaceSelector")
    pods = peer.get("podSelector")
    if spaces is None and pods is None:
        raise UsageProblem(f"{where}: a peer without podSelector, namespaceSelector and ipBlock")
    of_space = fields.readable(kubernetes(spaces or {}), where)
    wanted = fields.readable(kubernetes(pods or {}), where)

    def chosen(member: Member) -> Truth:
        if not isinstance(member, Pod):
            return False
        there = (
            member.namespace == home
            if spaces is None
            else of_space.selects(member.namespace_labels)
        )
        return all_of((there, wanted.selects(member.own)))

    return Peer(choose=chosen)


def _by_protocol(
    given: Any, where: str
) -> Iterator[tuple[int | None, tuple[Range, ...], tuple[str, ...]]]:
    """Yield (protocol, ranges of ports, names of ports). A protocol without ports means all its
    ports."""
    entries = fields.sequence(given, where)
    if not entries:
        yield None, (), ()
    found: dict[int, list[Any] | None] = {}
    for one in entries:
        entry = fields.mapping(one, where, {"protocol", "port", "endPort"})
        protocol = fields.PROTOCOLS[
            fields.one_of(entry.get("protocol", "TCP"), where, {"TCP", "UDP", "SCTP"}).lower()
        ]
        port = entry.get("port")
        last = entry.get("endPort")
        if isinstance(port, str) and not any(map(str.isalpha, port)):
            raise UsageProblem(
                f"{where}: port {fields.shown(port)} in quotes is a name, and a name needs a letter"
            )
        if last is not None and not isinstance(port, int):
            shown = f"endPort {fields.shown(last)} beside port {fields.shown(port)}"
            raise UsageProblem(f"{where}: {shown}, which is no number")
        listed = found.setdefault(protocol, [])
        if port is None:
            found[protocol] = None
        elif listed is not None:
            listed.append(port if last is None else f"{port}:{last}")
    for protocol, ports in found.items():
        ranges, names = fields.ports(ports, where)
        yield protocol, ranges, names
