# SPDX-License-Identifier: Apache-2.0
"""Worlds: sets of policies that are shipped as data, with the oracle's expectation for every pair
of pods.

A world refers to seats: pods in two namespaces (spaces), ``a`` and ``b``, on each node. ``${a}`` is
a namespace's name and ``${b.windows}`` the address of its first seat on Windows;
``${b.windows}/26`` is the network that contains this address. Seats on nodes of the same operating
system differ only in their addresses, so that a world shows the same on each build of Windows.
Pure: it reads parsed YAML and returns objects.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from conformance.errors import UsageProblem
from conformance.policy.oracle import fields
from conformance.policy.oracle.oracle import Decision, Oracle, Verdict, of_way
from conformance.policy.oracle.policies import Direction
from conformance.policy.oracle.rules import Packet
from conformance.policy.oracle.switches import PROMISE, WINDOWS
from conformance.policy.oracle.world import Pod
from conformance.policy.oracle.world import World as Pods
from conformance.policy.placeholders import Obj, fill

SPACES = ("a", "b")
SYSTEMS = ("linux", "windows")
NAMESPACE_LABELS = {"a": {"team": "a"}, "b": {"team": "b"}}
SEAT_LABELS = {
    ("a", "linux"): {"x": "1", "y": "1", "z": ""},
    ("a", "windows"): {"x": "2", "team": "b"},
    ("b", "linux"): {"x": "2", "y": "1", "team": "a"},
    ("b", "windows"): {"x": "13", "z": ""},
    ("m", "linux"): {"x": "3", "y": "1", "role": "member"},
    ("m", "windows"): {"x": "3", "role": "member"},
    ("t", "linux"): {"x": "3", "y": "1", "role": "member"},
    ("t", "windows"): {"x": "3", "role": "member"},
}
"""Labels of seats, by space and operating system; each seat also has ``os`` and the labels of
``SEAT``. The label ``z`` exists with an empty value. ``team`` has the value of the other
namespace's label, to show whether a selector was applied to the right labels."""
SEAT = {"seat": "yes"}
"""The labels of every seat."""
ACCOUNT = "teller"
ACCOUNT_LABELS = {"a": {"may": "pay"}, "b": {"may": "look"}}
MEMBER = "m"
"""The name of members, the pods to which a story's events happen; they are in space ``a``."""
TWIN = "t"
"""The name of twins, which are in space ``a`` as well. A twin is on the same node as a member, with
the same labels and account. No event of pods happens to it, so it must keep its connections: it
shows state that a node shares between pods of the same policies."""
SEATS_OF_ACCOUNT = (
    ("a", "linux"),
    ("b", "windows"),
    (MEMBER, "linux"),
    (MEMBER, "windows"),
    (TWIN, "linux"),
    (TWIN, "windows"),
)
"""The seats with the service account; all other seats have the default account."""
PORTS: tuple[tuple[str, int], ...] = (("TCP", 80), ("TCP", 8080), ("UDP", 8080))
"""Protocol and port of the attempts between every pair."""
NAMED_PORTS = {"page": 80, "echo": 8080}
"""The names of TCP ports in the pods' specs."""
SOURCE_PORT = 40000
"""The clients' port, which is above all ports that a world may name."""
_NET = re.compile(r"\d+\.\d+\.\d+\.\d+/\d+")


@dataclass(frozen=True)
class Seat:
    """A pod of a world, with its space and its node."""

    space: str
    os: str
    node: str
    pod: str
    address: str
    member: bool = False
    """A story's events happen to this pod."""
    ready: bool = True
    twin: bool = False
    """The pod is a member's twin."""

    @property
    def of_story(self) -> bool:
        """Return whether only stories have this seat."""
        return self.member or self.twin

    @property
    def kind(self) -> tuple[str, str]:
        """Return the seat's name in worlds: its space (``m`` for a member, ``t`` for a twin) and
        its operating system."""
        return (MEMBER if self.member else TWIN if self.twin else self.space), self.os


Key = tuple[str, str, str, int]


@dataclass(frozen=True)
class World:
    """A world from its file, either without an edit or with an edit that is still to be made."""

    name: str
    claim: str
    """The claim of pairs of seats for which the columns PROMISE and WINDOWS agree."""
    objects: tuple[Obj, ...]
    then: Obj = field(default_factory=dict)
    """The edit: ``{put: OBJECT}`` creates or replaces an object (or a list of objects), ``{gone:
    "KIND SPACE/NAME"}`` deletes it, ``{labels: {a.windows: {x: "1"}}}`` changes labels of seats,
    of namespaces (``a``) or of their account (``a.teller``). ``{labels: {a.teller: null}}`` deletes
    the account; later labels make it again. Empty: there is no edit."""
    relabelled: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    """The labels that an edit gave to seats, namespaces and accounts. None: the account is
    deleted."""
    beside: tuple[str, ...] = ()
    """The claims that the world's file names for differences between the columns PROMISE and
    WINDOWS. A pair with another difference decides no claim."""

    @property
    def puts(self) -> list[Obj]:
        """Return the objects that the world's edit creates or replaces."""
        put = self.then.get("put") or []
        return put if isinstance(put, list) else [put]

    def edited(self) -> World:
        new = {fields.label(obj): obj for obj in self.puts}
        gone = self.then.get("gone")
        there = [
            new.pop(fields.label(obj), obj) for obj in self.objects if fields.label(obj) != gone
        ]
        there += new.values()
        relabelled = {**self.relabelled, **(self.then.get("labels") or {})}
        return World(self.name, self.claim, tuple(there), {}, relabelled, self.beside)

    def filled(self, seats: Sequence[Seat], namespaces: Mapping[str, str]) -> list[Obj]:
        """Return the world's objects for these seats, in namespaces with these names.  Raise
        UsageProblem."""
        known = dict(namespaces)
        for seat in reversed(seats):
            known[".".join(seat.kind)] = seat.address
        return [_networks(obj) for obj in fill(self.objects, known, where=self.name)]


@dataclass(frozen=True)
class Cell:
    """The expectation for an attempt between two seats."""

    source: Seat
    destination: Seat
    protocol: str
    port: int
    promised: Verdict
    expected: Verdict
    """The documented verdict on the seats' operating systems."""
    claim: str
    """The claim that the cell decides; empty: none, since no document covers it."""
    decisions: tuple[Decision, Decision]
    """The documented decisions: egress at the source, ingress at the destination."""
    before: tuple[Decision, ...] = ()
    """The documented decisions before the newest edit. Empty: there is no edit, or other pods have
    taken the seats since."""

    @property
    def key(self) -> Key:
        """Return a key that is the same before an edit and after it."""
        return self.source.address, self.destination.address, self.protocol, self.port


def read(name: str, given: Any) -> World:
    """Return a world from its file's parsed YAML.  Raise UsageProblem."""
    said = fields.mapping(given, f"world {name}", {"claim", "beside", "shows", "objects", "then"})
    then = fields.mapping(said.get("then"), f"world {name} then", {"put", "gone", "labels"})
    objects = tuple(
        dict(obj) for obj in fields.sequence(said.get("objects"), f"world {name} objects")
    )
    check_labels(then, f"world {name} then")
    if not said.get("claim") or not objects:
        raise UsageProblem(f"world {name}: a claim and objects are expected")
    return World(
        name, str(said["claim"]), objects, dict(then), beside=tuple(said.get("beside") or ())
    )


def check_labels(edit: Mapping[str, Any], where: str) -> None:
    """Raise UsageProblem if an edit deletes labels of anything but accounts."""
    for name, given in (edit.get("labels") or {}).items():
        if given is None and not name.endswith(f".{ACCOUNT}"):
            raise UsageProblem(f"{where}: labels of {name}: only an account's labels may be null")


def surroundings(world: World, seats: Sequence[Seat], namespaces: Mapping[str, str]) -> list[Obj]:
    """Return the objects that a world needs around its own: namespaces, service accounts, pods, and
    EndpointSlices."""
    found: list[Obj] = []
    for space in SPACES:
        name = namespaces[space]
        labels = world.relabelled.get(space, NAMESPACE_LABELS[space])
        found.append({"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        pays = world.relabelled.get(f"{space}.{ACCOUNT}", ACCOUNT_LABELS[space])
        account = {"name": ACCOUNT, "namespace": name, "labels": pays}
        found += [{"kind": "ServiceAccount", "metadata": account}] if pays is not None else []
    found += [_pod(seat, namespaces[seat.space], _labels(world, seat)) for seat in seats]
    return found + _slices(world, seats, namespaces)


def _labels(world: World, seat: Seat) -> dict[str, str]:
    given = world.relabelled.get(".".join(seat.kind), SEAT_LABELS[seat.kind])
    return {**SEAT, "os": seat.os, **(given or {})}


def _slices(world: World, seats: Sequence[Seat], namespaces: Mapping[str, str]) -> list[Obj]:
    """Return the EndpointSlices of the Services among the objects, with the seats that each
    selects, ready or not."""
    found: list[Obj] = []
    for service in world.filled(seats, namespaces):
        if service["kind"] != "Service":
            continue
        meta = service["metadata"]
        spec = service["spec"]
        chosen = [
            seat
            for seat in seats
            if namespaces[seat.space] == meta["namespace"]
            and spec["selector"].items() <= _labels(world, seat).items()
        ]
        about = {"name": f"{meta['name']}-1", "namespace": meta["namespace"]}
        about["labels"] = {"kubernetes.io/service-name": meta["name"]}
        ports = [
            {"port": NAMED_PORTS.get(target, target), "protocol": port["protocol"]}
            for port in spec["ports"]
            for target in [port.get("targetPort") or port["port"]]
        ]
        endpoints = [
            {"addresses": [seat.address], "conditions": {"ready": seat.ready}} for seat in chosen
        ]
        found.append(
            {"kind": "EndpointSlice", "metadata": about, "ports": ports, "endpoints": endpoints}
        )
    return found


def cells(objects: Sequence[Obj], seats: Sequence[Seat], claim: str) -> Iterator[Cell]:
    """Yield the expectation for every pair of seats. ``objects``: the surroundings and the world's
    own objects, filled in."""
    oracle = Oracle(Pods(objects), objects)
    yield from (
        _cell(oracle, source, destination, at, claim) for source, destination, at in ways(seats)
    )


def ways(seats: Sequence[Seat]) -> Iterator[tuple[Seat, Seat, tuple[str, int]]]:
    """Yield the attempts.

    Worlds refer to the first seat of each kind. Between these seats, every entry of PORTS is tried.
    Between these seats and the seats of other nodes, in both directions, one entry of PORTS is
    tried, a different entry for each pair in turn.

    In a story there are members and twins, too. A pair without them is then tried only between
    first seats, with one entry of PORTS in turn: worlds without events show how policies are read
    there. A pair with a member or a twin is tried with all of PORTS, because an event may change
    the answer for only one entry. Twins are tried only with first seats of the two spaces.
    """
    firsts: dict[tuple[str, str], Seat] = {}
    for seat in seats:
        firsts.setdefault(seat.kind, seat)
    known = list(firsts.values())
    pairs = [pair for pair in product(seats, repeat=2) if _is_asked(pair[0], pair[1], known, seats)]
    for number, (source, destination) in enumerate(pairs):
        turn = number % len(PORTS)
        every = not _is_beside(source, destination, seats) and (
            source.of_story or destination.of_story or (source in known and destination in known)
        )
        yield from (
            (source, destination, at) for at in (PORTS if every else PORTS[turn : turn + 1])
        )


def _is_asked(
    source: Seat, destination: Seat, known: Sequence[Seat], seats: Sequence[Seat]
) -> bool:
    if _is_beside(source, destination, seats):
        return source is not destination and source in known and destination in known
    if source.twin or destination.twin:
        other = destination if source.twin else source
        return not other.of_story and other in known
    return source is not destination and (source in known or destination in known)


def _is_beside(source: Seat, destination: Seat, seats: Sequence[Seat]) -> bool:
    """Return whether the pair has neither member nor twin, although ``seats`` contains some."""
    return not (source.of_story or destination.of_story) and any(seat.of_story for seat in seats)


def packet(source: Seat, destination: Seat, protocol: str, port: int) -> Packet:
    """Return the first packet of a connection between seats."""
    ends = fields.address(source.address), fields.address(destination.address)
    return Packet(*ends, fields.PROTOCOLS[protocol.lower()], port, SOURCE_PORT)


def _cell(oracle: Oracle, source: Seat, destination: Seat, at: tuple[str, int], claim: str) -> Cell:
    sent = packet(source, destination, *at)
    ends: tuple[tuple[Seat, int, Direction], ...] = (
        (source, sent.source, "egress"),
        (destination, sent.destination, "ingress"),
    )
    promised = []
    documented = []
    departing = []
    for seat, address, way in ends:
        (pod,) = (one for one in oracle.world.at(address) if isinstance(one, Pod))
        switches = WINDOWS if seat.os == "windows" else PROMISE
        promised.append(oracle.explain(pod, way, sent))
        found = oracle.explain(pod, way, sent, switches) if switches else promised[-1]
        documented.append(_named(oracle, pod, way, found))
        departing.append((pod, way, sent, switches))
    both = of_way(promised), of_way(documented)
    if both[0] is not both[1]:
        claim = min(switch.claim for end in departing for switch in oracle.departures(*end))
    whose = "" if Verdict.NOT_SAID in both else claim
    return Cell(source, destination, *at, *both, whose, (documented[0], documented[1]))


def _named(oracle: Oracle, pod: Pod, way: Direction, decision: Decision) -> Decision:
    """Return the decision. If the end of a tier decided, add the tier's policies, none of which has
    a matching rule."""
    if decision.policy or not decision.tier:
        return decision
    tier = next(one for one in oracle.in_force(pod, way) if one.tier.name == decision.tier)
    said = (
        f"no rule of {', '.join(policy.label for group in tier.groups for policy in group)} matches"
    )
    return replace(decision, why="; ".join(filter(None, [said, decision.why])))


def _pod(seat: Seat, namespace: str, labels: Mapping[str, str]) -> Obj:
    ports = [
        {"name": name, "containerPort": port, "protocol": "TCP"}
        for name, port in NAMED_PORTS.items()
    ]
    return {
        "kind": "Pod",
        "metadata": {"name": seat.pod, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "nodeName": seat.node,
            "os": {"name": seat.os},
            "serviceAccountName": ACCOUNT if seat.kind in SEATS_OF_ACCOUNT else "default",
            "containers": [{"ports": ports}],
        },
        "status": {"podIP": seat.address},
    }


def _networks(value: Any) -> Any:
    """Return the value with each network written by its first address, as the API requires."""
    if isinstance(value, dict):
        return {key: _networks(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_networks(entry) for entry in value]
    if isinstance(value, str) and _NET.fullmatch(value):
        return str(ipaddress.ip_network(value, strict=False))
    return value
