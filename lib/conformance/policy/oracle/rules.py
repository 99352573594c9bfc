# SPDX-License-Identifier: Apache-2.0
"""Rules of policies: which packets each is about, and what Windows leaves out.

Sources: Calico's reference, NetworkPolicy ("Rule", "EntityRule", "ServiceMatch"); Kubernetes' reference, NetworkPolicy;
for a notSelector beside something positive, which narrows it, felix/calc/rule_scanner.go.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import Obj, Range
from conformance.policy.oracle.switches import Switch, Switches
from conformance.policy.oracle.world import NetworkSet, Pod, World
from conformance.policy.selectors import calico, calico_namespaces, kubernetes

Member = Pod | NetworkSet
Chooser = Callable[[Member], bool]

_PEER = frozenset(
    {
        "nets",
        "notNets",
        "ports",
        "notPorts",
        "selector",
        "notSelector",
        "namespaceSelector",
        "serviceAccounts",
    }
    | {"services"}
)
_RULE = frozenset(
    {
        "action",
        "protocol",
        "notProtocol",
        "icmp",
        "notICMP",
        "ipVersion",
        "source",
        "destination",
        "http",
        "metadata",
    }
)
_ICMPV6 = fields.PROTOCOLS["icmpv6"]


@dataclass(frozen=True)
class Packet:
    """A packet, or the first one of a connection."""

    source: int
    destination: int
    protocol: int
    port: int | None = None
    """The destination's."""
    source_port: int | None = None
    icmp: tuple[int, int] | None = None
    """(type, code)."""


@dataclass(frozen=True, eq=False)
class Peer:
    """What a rule says of one end of a packet."""

    choose: Chooser | None = None
    """Who is meant, by selectors of any kind; None: nobody is chosen, the end is any address."""
    unless: Chooser | None = None
    """Whoever is not meant, of all addresses there are."""
    nets: tuple[Range, ...] | None = None
    not_nets: tuple[Range, ...] | None = None
    ports: tuple[Range, ...] = ()
    named: tuple[str, ...] = ()
    not_ports: tuple[Range, ...] = ()
    not_named: tuple[str, ...] = ()
    service: tuple[str, str] | None = None

    @property
    def has_ports(self) -> bool:
        """Whether it names ports, by number or by name."""
        return bool(self.ports or self.named)

    @property
    def negated(self) -> bool:
        """Whether a negation stands alone in it, which Windows cannot say."""
        return bool(self.unless or self.not_nets is not None or self.not_ports or self.not_named)


ANYBODY = Peer()


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule, in the words of Calico; Kubernetes' rules are several of these, one for each peer and protocol."""

    action: str
    """``Allow``, ``Deny``, ``Pass``; a Log rule decides nothing and is none."""
    where: str
    """``ingress rule 2``."""
    source: Peer = ANYBODY
    destination: Peer = ANYBODY
    protocol: int | None = None
    not_protocol: int | None = None
    icmp: tuple[int, int | None] | None = None
    not_icmp: tuple[int, int | None] | None = None
    ipv6: bool = False
    http: bool = False
    """It looks into HTTP, too: what becomes of its packets is not said here."""

    @property
    def left_out_by(self) -> Switches:
        """By which of Windows' departures the whole rule is not there."""
        peers = (self.source, self.destination)
        found = set()
        if self.not_protocol is not None or self.not_icmp or any(peer.negated for peer in peers):
            found.add(Switch.NEGATIONS)
        if self.icmp:
            found.add(Switch.ICMP_TYPES)
        if any(peer.named for peer in peers):
            found.add(Switch.NAMED_PORTS)
        return frozenset(found)

    def about(
        self, packet: Packet, world: World, switches: Switches, *, ports: bool = True
    ) -> bool:
        """Whether the packet is one that the rule decides; ``ports`` False: whatever its ports are."""
        if self.ipv6:
            return False
        if self.destination.service and Switch.SERVICE_ALONE in switches:
            return _of_service(self.destination, packet, world, of_destination=True)
        if self.protocol not in {None, packet.protocol} or self.not_protocol == packet.protocol:
            return False
        if (self.icmp and not _icmp(self.icmp, packet)) or (
            self.not_icmp and _icmp(self.not_icmp, packet)
        ):
            return False
        return _meets(self.source, packet, world, False, ports) and _meets(
            self.destination, packet, world, True, ports
        )


def _icmp(wanted: tuple[int, int | None], packet: Packet) -> bool:
    return (
        packet.icmp is not None
        and packet.icmp[0] == wanted[0]
        and wanted[1] in {None, packet.icmp[1]}
    )


def _in_nets(peer: Peer, address: int) -> bool:
    """Return whether an address is in the peer's networks, and in none of those that it excepts."""
    if peer.nets is not None and not fields.within(address, peer.nets):
        return False
    return peer.not_nets is None or not fields.within(address, peer.not_nets)


def _meets(peer: Peer, packet: Packet, world: World, of_destination: bool, ports: bool) -> bool:
    if peer is ANYBODY:
        return True
    address = packet.destination if of_destination else packet.source
    port = packet.port if of_destination else packet.source_port
    there = world.at(address)
    chosen = there if peer.choose is None else tuple(filter(peer.choose, there))
    if peer.choose is not None and not chosen:
        return False
    if (peer.unless and any(map(peer.unless, there))) or not _in_nets(peer, address):
        return False
    if peer.service and not _of_service(peer, packet, world, of_destination=of_destination):
        return False
    return not ports or _at_port(peer, packet, port, chosen, there)


def _at_port(
    peer: Peer,
    packet: Packet,
    port: int | None,
    chosen: tuple[Member, ...],
    there: tuple[Member, ...],
) -> bool:
    """Return whether the peer's ports, given by number or by the names that ``chosen`` pods use, include a port."""
    if peer.has_ports and not (
        fields.within(port, peer.ports) or _named(peer.named, chosen, packet, port)
    ):
        return False
    return not (fields.within(port, peer.not_ports) or _named(peer.not_named, there, packet, port))


def _named(
    names: tuple[str, ...], members: tuple[Member, ...], packet: Packet, port: int | None
) -> bool:
    """Whether a pod among them calls its port so."""
    return port is not None and any(
        (name, packet.protocol, port) in member.ports
        for name in names
        for member in members
        if isinstance(member, Pod)
    )


def _of_service(peer: Peer, packet: Packet, world: World, *, of_destination: bool) -> bool:
    """Whether the end is a member of the Service; as a destination, at one of the members' ports too."""
    backends = world.backends.get(peer.service, []) if peer.service else []
    if of_destination:
        return any(
            packet.destination in backend.addresses
            and (packet.protocol, packet.port) in backend.ports
            for backend in backends
        )
    return any(packet.source in backend.addresses for backend in backends)


# --- Calico's words ---------------------------------------------------------------------------------------------------


def of_calico(given: Any, home: str | None, where: str, owner: str) -> Rule | None:
    """A rule of a Calico policy; ``home``: the policy's namespace; None: it is a Log rule, which decides nothing.

    Raises UsageProblem, with the ``owner``'s name.
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
        rule.get("ipVersion") == 6 or _ICMPV6 in wanted.values(),
        bool(rule.get("http")),
    )
    return None if action == "Log" else made


def _types(given: Any, where: str) -> tuple[int, int | None] | None:
    icmp = fields.mapping(given, where, {"type", "code"})
    if icmp.get("type") is None:
        return None
    code = icmp.get("code")
    return int(fields.number(icmp["type"], where)), None if code is None else int(
        fields.number(code, where)
    )


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
    return Peer(
        choose=_chooser(peer, home, where) if positive or folded else None,
        unless=(lambda member: unless.holds(member.labels)) if unless else None,
        nets=fields.nets(peer.get("nets"), where),
        not_nets=fields.nets(peer.get("notNets"), where),
        ports=ranges,
        named=names,
        not_ports=not_ranges,
        not_named=not_names,
        service=(service.get("namespace") or home or "", service["name"])
        if service.get("name")
        else None,
    )


def _chooser(peer: Obj, home: str | None, where: str) -> Chooser:
    """Who a peer's selectors choose: the namespaces', the accounts' and the labels' together."""
    spaces = peer.get("namespaceSelector")
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

    def chosen(member: Member) -> bool:
        if of_space and not of_space.holds(member.namespace_labels):
            return False
        if not of_space and home is not None and member.namespace != home:
            return False
        if accounts and (
            not isinstance(member, Pod)
            or (names and member.account not in names)
            or not of_account.holds(member.account_labels)
        ):
            return False
        return wanted.holds(member.labels) and not (excluded and excluded.holds(member.labels))

    return chosen


# --- Kubernetes' words ------------------------------------------------------------------------------------------------


def of_kubernetes(given: Any, direction: str, home: str, where: str, owner: str) -> Iterator[Rule]:
    """The rules that a rule of a Kubernetes policy is: one for each peer and protocol.  Raises UsageProblem."""
    side = "from" if direction == "ingress" else "to"
    place = f"{owner} {where}"
    rule = fields.mapping(given, place, {side, "ports"})
    for peer in fields.sequence(rule.get(side), place) or [None]:
        end = ANYBODY if peer is None else _kubernetes_peer(peer, home, place)
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
        raise UsageProblem(f"{where}: a peer with ipBlock and a selector, which are two peers")
    if block:
        return Peer(
            nets=fields.nets([block.get("cidr")], where),
            not_nets=fields.nets(block.get("except"), where),
        )
    spaces = peer.get("namespaceSelector")
    pods = peer.get("podSelector")
    if spaces is None and pods is None:
        raise UsageProblem(f"{where}: a peer without podSelector, namespaceSelector and ipBlock")
    of_space = fields.readable(kubernetes(spaces or {}), where)
    wanted = fields.readable(kubernetes(pods or {}), where)

    def chosen(member: Member) -> bool:
        if not isinstance(member, Pod):
            return False
        there = (
            member.namespace == home if spaces is None else of_space.holds(member.namespace_labels)
        )
        return there and wanted.holds(member.own)

    return Peer(choose=chosen)


def _by_protocol(
    given: Any, where: str
) -> Iterator[tuple[int | None, tuple[Range, ...], tuple[str, ...]]]:
    """(protocol, its ranges, its names); nothing said of a protocol's ports: all of them."""
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
                f"{where}: port {port!r} in quotes is a name, and a name has a letter"
            )
        if last is not None and not isinstance(port, int):
            raise UsageProblem(f"{where}: endPort {last} beside port {port!r}, which is no number")
        listed = found.setdefault(protocol, [])
        if port is None:
            found[protocol] = None
        elif listed is not None:
            listed.append(port if last is None else f"{port}:{last}")
    for protocol, ports in found.items():
        ranges, names = fields.ports(ports, where)
        yield protocol, ranges, names
