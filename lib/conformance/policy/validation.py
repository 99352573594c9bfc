# SPDX-License-Identifier: Apache-2.0
"""Objects that can be read, but that Calico's or Kubernetes' validation refuses.

Sources: Calico's libcalico-go/lib/validator/v3; Kubernetes' reference, NetworkPolicy. The rules of
a cluster were validated when they were applied; these checks are for files.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import IPV6, PROTOCOLS, Obj
from conformance.policy.oracle.policies import DIRECTIONS, Direction, Policy
from conformance.policy.oracle.rules import ANY_ADDRESS, Peer, Rule

_NAME = re.compile(r"(?!.*[.-]\.|.*\.-)[a-z0-9]([-a-z0-9.]{,251}[a-z0-9])?")
"""Matches a policy's name that Kubernetes accepts."""
_ICMP = (PROTOCOLS["icmp"], PROTOCOLS["icmpv6"])
_WITH_PORTS = (PROTOCOLS["tcp"], PROTOCOLS["udp"], PROTOCOLS["sctp"])
_KUBERNETES = ("KubernetesNetworkPolicy", "StagedKubernetesNetworkPolicy")
_CALICO = (
    *("NetworkPolicy", "GlobalNetworkPolicy"),
    *("StagedNetworkPolicy", "StagedGlobalNetworkPolicy"),
)


def _ends(rule: Rule) -> tuple[Peer, Peer]:
    return rule.source, rule.destination


def _families(rule: Rule) -> set[int]:
    """Return the IP versions of a rule's networks."""
    return {
        6 if first >= IPV6 else 4
        for end in _ends(rule)
        for first, _ in (*(end.nets or ()), *(end.not_nets or ()))
    }


def _is_no_part(end: Peer) -> bool:
    """Return whether an ipBlock has an exception that is not a smaller part of its network."""
    return not all(
        any(
            low <= first and last <= high and (low, high) != (first, last)
            for low, high in end.nets or ()
        )
        for first, last in end.not_nets or ()
    )


_REFUSALS: tuple[tuple[tuple[str, ...], Callable[[Rule, Direction], object], str], ...] = (
    (
        (*_KUBERNETES, *_CALICO, "AdminNetworkPolicy", "BaselineAdminNetworkPolicy"),
        lambda rule, _: (
            rule.protocol not in _WITH_PORTS
            and any(end.has_ports or end.not_ports or end.not_named for end in _ends(rule))
        ),
        "ports need protocol TCP, UDP or SCTP",
    ),
    (
        _KUBERNETES,
        lambda rule, _: any(map(_is_no_part, _ends(rule))),
        "an except entry must be a smaller part of its ipBlock",
    ),
    (
        _CALICO,
        lambda rule, _: len(_families(rule)) > 1,
        "Calico refuses networks of IPv4 and of IPv6 in one rule",
    ),
    (
        _CALICO,
        lambda rule, _: (
            rule.family and rule.protocol not in _ICMP and _families(rule) - {rule.family}
        ),
        "Calico refuses networks of another IP version than ipVersion",
    ),
    (
        _CALICO,
        lambda rule, _: any(
            net in (ANY_ADDRESS, (IPV6, 2 * IPV6 - 1))
            for end in _ends(rule)
            for net in end.not_nets or ()
        ),
        "Calico refuses notNets of all addresses",
    ),
    (
        _CALICO,
        lambda rule, _: rule.icmp and rule.protocol not in _ICMP,
        "Calico refuses icmp without protocol ICMP or ICMPv6",
    ),
    (
        _CALICO,
        lambda rule, way: _ends(rule)[way == "ingress"].service,
        "Calico refuses services except as the source of ingress or the destination of egress",
    ),
    (
        _CALICO,
        lambda rule, _: any(
            end.service and (end.choose or end.unless or end.nets or end.not_nets)
            for end in _ends(rule)
        ),
        "Calico refuses services together with a selector or nets in the same source or "
        "destination",
    ),
    (
        _CALICO,
        lambda rule, _: (
            rule.destination.service and (rule.destination.has_ports or rule.destination.not_ports)
        ),
        "Calico refuses ports together with services in the same destination",
    ),
    (
        _CALICO,
        lambda rule, _: any(end.service and not all(end.service) for end in _ends(rule)),
        "Calico refuses services without a name, and in global policies without a namespace",
    ),
    (
        _CALICO,
        lambda rule, way: (
            rule.http
            and (
                way == "egress"
                or rule.action != "Allow"
                or rule.protocol not in (None, PROTOCOLS["tcp"])
            )
        ),
        "Calico refuses http except in Allow rules for ingress of TCP",
    ),
)
"""For each check: the kinds, the test that refuses a rule of these kinds, and the reason."""


def check_policy(policy: Policy) -> None:
    """Raise UsageProblem for a policy that was read, but that the validation refuses."""
    if not _NAME.fullmatch(policy.names[2]):
        raise UsageProblem(f"{policy.label}: Kubernetes refuses this name (a-z, 0-9, - and .)")
    for way, rule in ((way, rule) for way, listed in policy.rules.items() for rule in listed):
        for kinds, is_refused, why in _REFUSALS:
            if policy.names[0] in kinds and is_refused(rule, way):
                raise UsageProblem(f"{policy.label} {rule.where}: {why}")


def check_object(obj: Obj) -> None:
    """Raise UsageProblem for faults that only the written form of a Calico object shows: an address
    without a prefix, host bits, a type that occurs twice."""
    if "projectcalico.org/" not in str(obj.get("apiVersion")):
        return
    label = fields.label(obj)
    with fields.legible(label):
        spec = obj.get("spec") or {}
        for text in _networks(spec):
            fields.nets([text], label)
            known = ipaddress.ip_interface(text)
            if "/" not in text or known.ip != known.network.network_address:
                raise UsageProblem(
                    f"{label}: Calico refuses {text}; the network of that address is "
                    f"{known.network}"
                )
        if len(set(spec.get("types") or ())) < len(spec.get("types") or ()):
            raise UsageProblem(f"{label}: Calico refuses a type that appears twice")


def _networks(spec: Obj) -> list[Any]:
    """Return the networks in a policy's rules, in their written form."""
    return [
        net
        for way in DIRECTIONS
        for rule in spec.get(way) or ()
        for side in ("source", "destination")
        for key in ("nets", "notNets")
        for net in (rule.get(side) or {}).get(key) or ()
    ]


def check_no_doubles(objects: Iterable[Obj]) -> None:
    """Raise UsageProblem for two objects of the same kind and name."""
    observed = set()
    for obj in objects:
        group = str(obj.get("apiVersion") or "").partition("/")[0]
        if (group, label := fields.label(obj)) in observed:
            raise UsageProblem(f"{label} appears twice")
        observed.add((group, label))
