# SPDX-License-Identifier: Apache-2.0
"""Rules of policies: which packets each is about, and what Windows leaves out.

Sources: Calico's reference, NetworkPolicy ("Rule", "EntityRule", "ServiceMatch"); Kubernetes' reference, NetworkPolicy;
for a notSelector beside something positive, which narrows it, felix/calc/rule_scanner.go.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.labels import OF_ACCOUNTS
from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import Obj, Range
from conformance.policy.oracle.switches import Switch, Switches
from conformance.policy.oracle.world import Member, Pod, World
from conformance.policy.selectors import Selector, calico, calico_namespaces, kubernetes
from conformance.policy.truth import Truth, all_of, any_of, negated

Chooser = Callable[[Member], Truth]
NOT_KNOWN = -1
"""An address, protocol or port of a packet that is not known."""
ANY_ADDRESS: Range = (0, 2**32 - 1)
ACTIONS = ("Allow", "Deny", "Pass")

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
_FAMILIES = {fields.PROTOCOLS["icmp"]: 4, fields.PROTOCOLS["icmpv6"]: 6}
"""IP versions of the protocols that are of one alone."""


@dataclass(frozen=True)
class Packet:
    """A packet, or the first packet of a connection; any of its numbers may be ``NOT_KNOWN``."""

    source: int
    destination: int
    protocol: int
    port: int | None = None
    """The destination's."""
    source_port: int | None = None
    icmp: tuple[int, int] | None = None
    """(type, code)."""

    @property
    def family(self) -> int:
        """Return the IP version of the packet."""
        return 6 if max(self.source, self.destination) >= fields.IPV6 else 4


@dataclass(frozen=True, eq=False)
class Peer:
    """A rule's condition on one end of a packet."""

    choose: Chooser | None = None
    """Test of the selected members, by selectors of any kind; None: the end may be any address."""
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
        """Return whether the peer names ports, by number or by name."""
        return bool(self.ports or self.named)

    @property
    def negations(self) -> tuple[str, ...]:
        """Return the fields in which a negation stands alone, which Windows cannot express."""
        fields_there = {
            "notSelector": self.unless is not None,
            "notNets": self.not_nets is not None,
            "notPorts": bool(self.not_ports or self.not_named),
        }
        return tuple(name for name, is_there in fields_there.items() if is_there)


ANYBODY = Peer()


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule in Calico's terms; a Kubernetes rule becomes a rule for each peer and protocol."""

    action: str
    """``Allow``, ``Deny``, ``Pass``; a Log rule decides nothing and is none. Empty: unreadable."""
    where: str
    """``ingress rule 2``."""
    source: Peer = ANYBODY
    destination: Peer = ANYBODY
    protocol: int | None = None
    not_protocol: int | None = None
    icmp: tuple[int, int | None] | None = None
    not_icmp: tuple[int, int | None] | None = None
    family: int | None = None
    """4 or 6: the IP version that the rule is about alone."""
    http: bool = False
    """The rule also has conditions on HTTP; packets that it matches get no verdict here."""
    unread: str = ""
    """Why it cannot be read: then it may be about any packet."""

    @cached_property
    def skipped_for(self) -> dict[Switch, tuple[str, ...]]:
        """Map each departure by which Windows skips the whole rule to the fields that cause it."""
        peers = (self.source, self.destination)
        negations = {"notProtocol": self.not_protocol is not None, "notICMP": bool(self.not_icmp)}
        found = {
            Switch.NEGATIONS: (
                *(name for name, is_there in negations.items() if is_there),
                *(name for peer in peers for name in peer.negations),
            ),
            Switch.ICMP_TYPES: ("ICMP types",) if self.icmp else (),
            Switch.NAMED_PORTS: ("named ports",) if any(peer.named for peer in peers) else (),
        }
        return {switch: names for switch, names in found.items() if names}

    def is_skipped(self, switches: Switches) -> bool:
        """Return whether the whole rule is not there under these switches."""
        return any(switch in switches for switch in self.skipped_for)

    def about(
        self, packet: Packet, world: World, switches: Switches, *, ports: bool = True
    ) -> Truth:
        """Return whether the rule decides a packet; ``ports`` False: whatever its ports are."""
        if self.unread:
            return None
        if self.family and self.family != packet.family:
            return False
        if self.destination.service and Switch.SERVICE_ALONE in switches:
            nets = self.source.nets
            only_ipv6 = nets is not None and all(first >= fields.IPV6 for first, _ in nets)
            return not only_ipv6 and _of_service(
                self.destination, packet, world, of_destination=True
            )
        return all_of(self._matches(packet, world, ports))

    def _matches(self, packet: Packet, world: World, ports: bool) -> Iterator[Truth]:
        """Yield whether each part of the rule matches a packet, the cheapest first."""
        if self.protocol is not None:
            yield _is(self.protocol, packet.protocol)
        if self.not_protocol is not None:
            yield negated(_is(self.not_protocol, packet.protocol))
        if self.icmp:
            yield _icmp(self.icmp, packet)
        if self.not_icmp:
            yield negated(_icmp(self.not_icmp, packet))
        if self.source is not ANYBODY:
            yield all_of(_meets(self.source, packet, world, False, ports))
        if self.destination is not ANYBODY:
            yield all_of(_meets(self.destination, packet, world, True, ports))


def _is(wanted: int, protocol: int) -> Truth:
    return None if protocol == NOT_KNOWN else wanted == protocol


def _icmp(wanted: tuple[int, int | None], packet: Packet) -> Truth:
    if packet.protocol == NOT_KNOWN:
        return None
    return (
        packet.icmp is not None
        and packet.icmp[0] == wanted[0]
        and wanted[1] in {None, packet.icmp[1]}
    )


def within(value: int | None, ranges: Sequence[Range]) -> Truth:
    """Return whether an address or a port is in one of some ranges."""
    if value == NOT_KNOWN and ranges:
        return True if ANY_ADDRESS in ranges else None
    return fields.within(value, ranges)


def is_at(peer: Peer, address: int, world: World) -> Truth:
    """Return whether a peer's selectors and networks match an address, ports and Services aside."""
    bare = replace(peer, service=None)
    return all_of(_meets(bare, Packet(address, address, NOT_KNOWN), world, False, False))


def _meets(
    peer: Peer, packet: Packet, world: World, of_destination: bool, ports: bool
) -> Iterator[Truth]:
    """Yield whether each part of a peer matches one end of a packet."""
    address = packet.destination if of_destination else packet.source
    if peer.nets is not None:
        yield within(address, peer.nets)
    if peer.not_nets is not None:
        yield negated(within(address, peer.not_nets))
    there = world.members(address, of_destination=of_destination)
    chosen: list[tuple[Member, Truth]] | None = None
    if there is not None:
        chosen = [(one, peer.choose(one) if peer.choose else True) for one in there]
    if peer.choose:
        yield None if chosen is None else any_of(truth for _, truth in chosen)
    if peer.unless:
        yield None if there is None else negated(any_of(map(peer.unless, there)))
    if peer.service:
        yield _of_service(peer, packet, world, of_destination=of_destination)
    if ports:
        port = packet.port if of_destination else packet.source_port
        yield from _at_port(peer, packet, port, chosen, there)


def _at_port(
    peer: Peer,
    packet: Packet,
    port: int | None,
    chosen: Sequence[tuple[Member, Truth]] | None,
    there: Sequence[Member] | None,
) -> Iterator[Truth]:
    """Yield whether the peer's ports, by number or by members' names for them, include a port."""
    if peer.has_ports:
        yield any_of((within(port, peer.ports), _named(peer.named, chosen, packet, port)))
    if peer.not_ports or peer.not_named:
        everyone = None if there is None else [(one, True) for one in there]
        named = _named(peer.not_named, everyone, packet, port)
        yield negated(any_of((within(port, peer.not_ports), named)))


def _named(
    names: tuple[str, ...],
    members: Sequence[tuple[Member, Truth]] | None,
    packet: Packet,
    port: int | None,
) -> Truth:
    """Return whether a pod among some members, each with whether it is meant, calls its port so."""
    if not names or port is None:
        return False
    if members is None or any(isinstance(one, Pod) and one.ports is None for one, _ in members):
        return None
    return any_of(
        all_of((truth, _is(its_protocol, packet.protocol), _is(number, port)))
        for member, truth in members
        for name, its_protocol, number in (isinstance(member, Pod) and member.ports) or ()
        if name in names
    )


def _of_service(peer: Peer, packet: Packet, world: World, *, of_destination: bool) -> Truth:
    """Return whether the end is a member of the Service; a destination needs a member's port,
    too."""
    backends = world.backends_of(peer.service) if peer.service else ()
    if backends is None:
        return None
    address = packet.destination if of_destination else packet.source
    return any_of(
        all_of(
            (
                within(address, [(one, one) for one in backend.addresses]),
                not of_destination
                or (
                    None
                    if NOT_KNOWN in (packet.port, packet.protocol)
                    else (packet.protocol, packet.port) in backend.ports
                ),
            )
        )
        for backend in backends
    )


# --- Calico's words ---------------------------------------------------------------------------------------------------


def unread(given: Any, where: str, why: str) -> list[Rule]:
    """Return a rule that cannot be read, with its action where that can; Kubernetes has Allow."""
    action = given.get("action", "Allow") if isinstance(given, Mapping) else ""
    if action == "Log":
        return []
    return [Rule(action if action in ACTIONS else "", where, unread=why)]


def of_calico(given: Any, home: str | None, where: str, owner: str) -> Rule | None:
    """Return a rule of a Calico policy; ``home``: the policy's namespace; None: it is a Log rule,
    which decides nothing.

    Raise UsageProblem, with the ``owner``'s name.
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
    """Return the IP version that a rule is about alone: what it says, or that of its protocol; a
    notProtocol decides none."""
    version = rule.get("ipVersion")
    if version not in (None, 4, 6):
        raise UsageProblem(f"ipVersion 4 or 6 is expected, not {fields.shown(version)}")
    for number, family in _FAMILIES.items():
        if number in protocols.values() and version not in (None, family):
            raise UsageProblem(f"{place}: Calico refuses ipVersion {version} beside this ICMP")
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
        service=(space or home or "", name) if name else None,
    )


def of_labels(selector: Selector, member: Member) -> Truth:
    """Return whether a selector of Calico selects a pod, also by its account, or a network set."""
    is_unknown = isinstance(member, Pod) and member.account_labels is None
    return None if is_unknown and OF_ACCOUNTS in selector.text else selector.selects(member.labels)


def _chooser(peer: Obj, home: str | None, where: str) -> Chooser:
    """Return the test of a peer's selectors: of namespaces, accounts and labels together."""
    spaces = peer.get("namespaceSelector")
    fields.of_pods(peer.get("selector"), f"{where} selector")
    if isinstance(spaces, str) and spaces.strip() != "global()":
        fields.of_pods(spaces, f"{where} namespaceSelector, beside other parts")
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
        if not isinstance(member, Pod):  # of no account, so that only a negation of labels holds
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


# --- Kubernetes' words ------------------------------------------------------------------------------------------------


def of_kubernetes(given: Any, direction: str, home: str, where: str, owner: str) -> Iterator[Rule]:
    """Yield a Kubernetes rule's Calico rules, by peer and protocol.  Raise UsageProblem."""
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
    """Yield (protocol, ranges of ports, names of ports); a protocol without ports means all of
    them."""
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
                f"{where}: port {fields.shown(port)} in quotes is a name, and a name has a letter"
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
