# SPDX-License-Identifier: Apache-2.0
"""Rules of policies: the packets that each rule matches, and the parts that Windows ignores.

Sources: Calico's reference, NetworkPolicy ("Rule", "EntityRule", "ServiceMatch").
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from conformance.policy.oracle import fields
from conformance.policy.oracle.fields import Range
from conformance.policy.oracle.switches import Switch, Switches
from conformance.policy.oracle.world import Member, Pod, World
from conformance.policy.truth import Truth, all_of, any_of, negated

Chooser = Callable[[Member], Truth]
NOT_KNOWN = -1
"""An address, protocol or port of a packet that is not known."""
ANY_ADDRESS: Range = (0, 2**32 - 1)
ACTIONS = ("Allow", "Deny", "Pass")


@dataclass(frozen=True)
class Packet:
    """A packet, or the first packet of a connection; any of its numbers may be ``NOT_KNOWN``."""

    source: int
    destination: int
    protocol: int
    port: int | None = None
    """The port of the destination."""
    source_port: int | None = None
    icmp: tuple[int, int] | None = None
    """The type and the code."""

    @property
    def family(self) -> int:
        """Return the IP version of the packet."""
        return 6 if max(self.source, self.destination) >= fields.IPV6 else 4


@dataclass(frozen=True, eq=False)
class Peer:
    """A rule's condition on one end of a packet."""

    choose: Chooser | None = None
    """Tests whether selectors of any kind select a member; None: the end may be any address."""
    unless: Chooser | None = None
    """Tests whether a ``notSelector`` excludes a member."""
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
        """Return the fields that consist only of a negation, which Windows cannot express."""
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
    """``Allow``, ``Deny``, ``Pass``; a Log rule decides nothing and does not become a rule. Empty:
    unreadable."""
    where: str
    """``ingress rule 2``."""
    source: Peer = ANYBODY
    destination: Peer = ANYBODY
    protocol: int | None = None
    not_protocol: int | None = None
    icmp: tuple[int, int | None] | None = None
    not_icmp: tuple[int, int | None] | None = None
    family: int | None = None
    """4 or 6: the only IP version that the rule matches; None: both."""
    http: bool = False
    """The rule also has conditions on HTTP; packets that it matches get no verdict here."""
    unread: str = ""
    """The reason why the rule cannot be read; such a rule may match any packet. Empty: it was
    read."""

    @cached_property
    def skipped_for(self) -> dict[Switch, tuple[str, ...]]:
        """Return each departure by which Windows skips the whole rule, with the fields of the rule
        that cause this."""
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
        """Return whether Windows skips the whole rule under these switches."""
        return any(switch in switches for switch in self.skipped_for)

    def about(
        self, packet: Packet, world: World, switches: Switches, *, ports: bool = True
    ) -> Truth:
        """Return whether the rule decides a packet; with ``ports`` False, its ports are ignored."""
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
    """Return whether a peer's selectors and networks match an address; ports and Services are
    ignored."""
    return all_of(
        _meets(
            replace(peer, service=None) if peer.service else peer,
            Packet(address, address, NOT_KNOWN),
            world,
            False,
            False,
        )
    )


def _meets(
    peer: Peer, packet: Packet, world: World, of_destination: bool, ports: bool
) -> Iterator[Truth]:
    """Yield whether each part of a peer matches one end of a packet."""
    address, port = (
        (packet.destination, packet.port) if of_destination else (packet.source, packet.source_port)
    )
    if peer.nets is not None:
        yield within(address, peer.nets)
    if peer.not_nets is not None:
        # Calico renders the rule only for an IP version if each of its lists has a network of it.
        same = any((first >= fields.IPV6) is (packet.family == 6) for first, _ in peer.not_nets)
        yield all_of((same, negated(within(address, peer.not_nets))))
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
        yield from _at_port(peer, packet, port, chosen, there)


def _at_port(
    peer: Peer,
    packet: Packet,
    port: int | None,
    chosen: Sequence[tuple[Member, Truth]] | None,
    there: Sequence[Member] | None,
) -> Iterator[Truth]:
    """Yield whether a port is among the peer's ports, by number or by the name that a member gives
    the port."""
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
    """Return whether a member that the peer selects has one of the names for this port."""
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
    """Return whether the end is a member of the Service, and, for a destination, whether the port
    is a port of the Service."""
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
