"""An endpoint's ACL list as HNS holds it on Windows: one flat list for both directions, members written out.

From Calico's Windows data plane (felix/dataplane/windows): per direction the policies' rules in order, the end of the
tier, tiers flattened into one list; besides them what Calico always puts there.  A rule that HNS has no words for does
not come here: ``render.WindowsProgramBuilder`` leaves it out.  Ids are Felix' own and say the same each time
(policysets.go, endpoint_mgr.go): of a policy's rule its policy, a hash of the rule and a number, of the rule for the
host a fixed one, of the ends of tiers none.  What HNS shows for a rule without Id is deduced: none.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from hybridlab.dataplane.model import EndpointProgram, Rule, Tier

Entry = dict[str, object]
"""As ``Get-HnsEndpoint`` shows it among an endpoint's Policies."""

FROM_HOST_PRIORITY, FIRST_PRIORITY, DEFAULT_DENY_PRIORITY = 900, 1000, 65500
_ANY_PROTOCOL = 256
_NUMBERS = {"tcp": 6, "udp": 17, "icmp": 1, "sctp": 132, "udplite": 136}
FROM_HOST_ID = "allow-host-to-endpoint"
_RULE_ID_LENGTH = 16

Networks = tuple[str, ...]
Ports = tuple[tuple[int, int], ...]
Members = Callable[[str], Sequence[str]]
"""Members of an IP set by its name."""


@dataclass(frozen=True)
class Acl:
    """One entry.  Empty networks and ports: any."""

    action: Literal["Allow", "Block"]
    direction: Literal["In", "Out"]
    protocol: int
    local: Networks
    remote: Networks
    local_ports: Ports
    remote_ports: Ports
    priority: int
    id: str = ""


@dataclass(frozen=True)
class _Flat:
    """A rule in words that HNS has."""

    action: str
    protocol: int = _ANY_PROTOCOL
    source: Networks = ()
    destination: Networks = ()
    source_ports: Ports = ()
    destination_ports: Ports = ()
    id: str = ""


DEFAULT_DENY = (Acl("Block", "In", _ANY_PROTOCOL, (), (), (), (), DEFAULT_DENY_PRIORITY),)
"""What the CNI plugin puts on a new endpoint: it takes nothing until Felix has programmed it."""


def acl_list(program: EndpointProgram, members: Members, host: str) -> tuple[Acl, ...]:
    """The whole list of an endpoint with this program; ``host``: address of its node, which always gets in."""
    found = [Acl("Allow", "In", _ANY_PROTOCOL, (), (f"{host}/32",), (), (), FROM_HOST_PRIORITY, FROM_HOST_ID)]
    for flat, priority in _numbered(_flattened(program.ingress, members)):
        found.append(
            _acl("In", flat, (flat.destination, flat.source, flat.destination_ports, flat.source_ports), priority)
        )
    for flat, priority in _numbered(_flattened(program.egress, members)):
        found.append(
            _acl("Out", flat, (flat.source, flat.destination, flat.source_ports, flat.destination_ports), priority)
        )
    return tuple(found)


def shown(acls: Sequence[Acl]) -> tuple[Entry, ...]:
    """A list as HNS shows it."""
    return tuple(
        {
            "Type": "ACL",
            **({"Id": acl.id} if acl.id else {}),
            "Action": acl.action,
            "Direction": acl.direction,
            "Protocol": acl.protocol,
            "LocalAddresses": ",".join(acl.local),
            "RemoteAddresses": ",".join(acl.remote),
            "LocalPorts": _ports(acl.local_ports),
            "RemotePorts": _ports(acl.remote_ports),
            "Priority": acl.priority,
            "RuleType": "Switch",
        }
        for acl in acls
    )


def _acl(
    direction: Literal["In", "Out"], flat: _Flat, ends: tuple[Networks, Networks, Ports, Ports], priority: int
) -> Acl:
    action: Literal["Allow", "Block"] = "Allow" if flat.action == "allow" else "Block"
    return Acl(action, direction, flat.protocol, *ends, priority, flat.id)


def _numbered(rules: Sequence[_Flat]) -> Iterator[tuple[_Flat, int]]:
    for number, rule in enumerate(rules):
        yield rule, FIRST_PRIORITY + number


def _flattened(tiers: Sequence[Tier], members: Members) -> list[_Flat]:
    """All tiers of a direction as one list that decides the same; without tiers the profile's allow-all."""
    flat = [_Flat("allow")]
    for tier in reversed(tiers):
        behind, flat = flat, []
        for comment, rules in groupby(tier.rules, key=lambda rule: rule.comment):
            for one in _with_ids(comment, list(rules), members):
                if one.action == "pass":
                    flat += [both for other in behind if (both := _both(one, other)) is not None]
                else:
                    flat.append(one)
        flat += [_Flat("deny")] if tier.end == "deny" else behind
    return flat


def _with_ids(comment: str, rules: Sequence[Rule], members: Members) -> Iterator[_Flat]:
    """One rule of a policy with Ids of Felix' form, in which the members of its IP sets do not count."""
    policy, _, _ = comment.partition(" rule ")
    said = "".join(f"{rule.action} {rule.match}" for rule in rules)
    digest = hashlib.sha224(f"{comment} {said}".encode()).digest()
    rule_id = base64.urlsafe_b64encode(digest).decode()[:_RULE_ID_LENGTH]
    flat = [one for rule in rules for one in _rule(rule, members)]
    for number, one in enumerate(flat):
        yield replace(one, id=f"policy-{policy.rpartition(' ')[0].replace(' ', '/')}-{rule_id}-{number}")


def _rule(rule: Rule, members: Members) -> Iterator[_Flat]:
    match = rule.match
    source = _networks(match.src_nets, match.src_sets, members)
    destination = _networks(match.dst_nets, match.dst_sets, members)
    if source is None or destination is None:
        return
    protocol = _ANY_PROTOCOL if match.protocol is None else _number(match.protocol)
    found = [_Flat(rule.action, protocol, source, destination, match.src_ports, match.dst_ports)]
    for name in match.dst_ip_port_sets:
        backends = [_backend(rule.action, member) for member in members(name)]
        found = [both for one in found for backend in backends if (both := _both(one, backend)) is not None]
    yield from found


def _backend(action: str, member: str) -> _Flat:
    """The destination that an ``address,protocol,port`` is."""
    address, protocol, port = member.split(",")
    return _Flat(action, _number(protocol), (), (f"{address}/32",), (), ((int(port), int(port)),))


def _number(protocol: str) -> int:
    return int(protocol) if protocol.isdigit() else _NUMBERS.get(protocol, _ANY_PROTOCOL)


def _networks(nets: Networks, sets: Sequence[str], members: Members) -> Networks | None:
    """Networks and sets together, every one of which must hold; None: nothing can."""
    found: Networks | None = tuple(sorted(map(_network, nets))) or None
    for name in sets:
        own = tuple(sorted(map(_network, members(name))))
        found = own if found is None else _meet(found, own)
        if not found:
            return None
    return found or ()


def _network(text: str) -> str:
    return text if "/" in text else f"{text}/32"


def _meet(one: Networks, other: Networks) -> Networks:
    """What is in both; neither may be empty for any."""
    parsed = [ipaddress.IPv4Network(net) for net in other]
    met = set()
    for text in one:
        net = ipaddress.IPv4Network(text)
        for there in parsed:
            if net.overlaps(there):
                met.add(str(net if net.prefixlen >= there.prefixlen else there))
    return tuple(sorted(met))


def _both(one: _Flat, other: _Flat) -> _Flat | None:
    """What matches two rules, with the second one's action and Id; None: nothing can."""
    protocols = {one.protocol, other.protocol} - {_ANY_PROTOCOL}
    if len(protocols) > 1:
        return None
    source, destination = _any_meet(one.source, other.source), _any_meet(one.destination, other.destination)
    from_ports = _meet_ports(one.source_ports, other.source_ports)
    to_ports = _meet_ports(one.destination_ports, other.destination_ports)
    if source is None or destination is None or from_ports is None or to_ports is None:
        return None
    protocol = protocols.pop() if protocols else _ANY_PROTOCOL
    return _Flat(other.action, protocol, source, destination, from_ports, to_ports, other.id)


def _any_meet(one: Networks, other: Networks) -> Networks | None:
    if not one or not other:
        return one or other
    return _meet(one, other) or None


def _meet_ports(one: Ports, other: Ports) -> Ports | None:
    if not one or not other:
        return one or other
    met = [(max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) <= min(b, d)]
    return tuple(sorted(met)) or None


def _ports(ports: Ports) -> str:
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ports)
