"""Ways in which a Felix can misread policy on purpose: what its rules and sets become on one node.

Pure.  Each lets through more, or less, than what was written, and leaves the rest as it is; a policy that no rule of
it concerns is enforced as ever.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, get_args

from hybridlab.policy.policy import Peer, Policy, PolicyRule, Ports
from hybridlab.policy.render import TierPolicies

Misreading = Literal["any-protocol", "any-port", "tcp-only", "namesakes", "blocks"]
"""``any-protocol``: rules for TCP hold for UDP, and the other way round.  ``any-port``: ports are ignored.
``tcp-only``: rules without a protocol hold for TCP alone.  ``namesakes``: pods of other namespaces are taken for those
of the rule's own that have their labels.  ``blocks``: an address stands for all of the block that it is in."""
MISREADINGS: tuple[Misreading, ...] = get_args(Misreading)
OF_BLOCK = 26
"""Prefix length of the blocks that pods' addresses come from."""
_TWINS = {"tcp": ("tcp", "udp"), "6": ("6", "17"), "udp": ("tcp", "udp"), "17": ("6", "17")}


def misread(tiers: tuple[TierPolicies, ...], ways: Iterable[Misreading]) -> tuple[TierPolicies, ...]:
    """The policies of an endpoint, as a Felix that misreads them has them."""
    for way in ways:
        tiers = tuple(replace(tier, policies=tuple(_policy(policy, way) for policy in tier.policies)) for tier in tiers)
    return tiers


def widened(members: Iterable[str]) -> tuple[str, ...]:
    """Addresses and networks of a set, each become the block that it is in; entries with ports stay."""
    return tuple(sorted({_block(member) if "," not in member else member for member in members}))


def _policy(policy: Policy, way: Misreading) -> Policy:
    ingress, egress = (
        tuple(made for rule in rules for made in _rules(rule, way)) for rules in (policy.ingress, policy.egress)
    )
    return replace(policy, ingress=ingress, egress=egress)


def _rules(rule: PolicyRule, way: Misreading) -> Iterator[PolicyRule]:
    if way == "any-protocol":
        for protocol in _TWINS.get(rule.protocol or "", (rule.protocol,)):
            yield replace(rule, protocol=protocol)
    elif way == "any-port":
        yield replace(rule, source=_without_ports(rule.source), destination=_without_ports(rule.destination))
    elif way == "tcp-only":
        yield replace(rule, protocol=rule.protocol or "tcp")
    elif way == "blocks":
        yield replace(rule, source=_in_blocks(rule.source), destination=_in_blocks(rule.destination))
    else:
        yield rule


def _without_ports(peer: Peer) -> Peer:
    return replace(peer, ports=Ports(), not_ports=Ports())


def _in_blocks(peer: Peer) -> Peer:
    return replace(peer, nets=tuple(dict.fromkeys(_block(net) for net in peer.nets)))


def _block(net: str) -> str:
    network = ipaddress.ip_network(net)
    if network.version != 4 or network.prefixlen <= OF_BLOCK:
        return net
    return str(network.supernet(new_prefix=OF_BLOCK))
