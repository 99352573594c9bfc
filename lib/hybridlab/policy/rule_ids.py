"""The ids that Felix gives the rules of a policy: each a hash of the rule and of all rules before it.

The hashed bytes are the rule's protocol buffer (felix/proto/felixbackend.proto message Rule,
felix/calc/rule_convert.go fillInRuleIDs).  Written here by hand: one message, encoded only, and no generated code.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hybridlab.policy.ipsets import SelectorSet, ServiceSet
from hybridlab.policy.policy import Peer, PolicyRule, Ports
from hybridlab.policy.render import port_set

ID_LENGTH = 16
_ACTIONS = {"pass": "next-tier"}

# Field numbers of message Rule; those of the negated matches are the same fields from 102 on.
_ACTION, _IP_VERSION, _PROTOCOL = 1, 2, 3
_SRC_NET, _SRC_PORTS, _DST_NET, _DST_PORTS, _ICMP_TYPE, _ICMP_TYPE_CODE = 4, 5, 6, 7, 8, 9
_SRC_SETS, _DST_SETS, _SRC_NAMED, _DST_NAMED, _DST_IP_PORT_SETS = 10, 11, 12, 13, 15
_NOT_PROTOCOL, _NOT_SRC_NET, _NOT_SRC_PORTS, _NOT_DST_NET, _NOT_DST_PORTS = 102, 103, 104, 105, 106
_NOT_ICMP_TYPE, _NOT_ICMP_TYPE_CODE, _NOT_SRC_SETS, _NOT_DST_SETS = 107, 108, 109, 110
_NOT_SRC_NAMED, _NOT_DST_NAMED = 112, 113
_SRC_ACCOUNTS, _DST_ACCOUNTS, _HTTP, _METADATA = 120, 121, 122, 123
_IN_ONEOF = frozenset({_ICMP_TYPE, _ICMP_TYPE_CODE, _NOT_ICMP_TYPE, _NOT_ICMP_TYPE_CODE})
"""Go writes the fields of a oneof behind all others."""
_ORIGINALS = (
    # (field, side, what was written)
    (114, "source", "selector"),
    (115, "destination", "selector"),
    (116, "source", "namespaceSelector"),
    (117, "destination", "namespaceSelector"),
    (118, "source", "notSelector"),
    (119, "destination", "notSelector"),
)
_SERVICES = (
    (130, "destination", "name"),
    (131, "destination", "namespace"),
    (132, "source", "name"),
    (133, "source", "namespace"),
)


def rule_ids(rules: Sequence[PolicyRule], seed: str) -> tuple[str, ...]:
    """The id of each rule; ``seed`` says of which policy and direction they are."""
    digest = hashlib.sha224(seed.encode()).digest()
    found = []
    for rule in rules:
        digest = hashlib.sha224(digest + _encoded(rule)).digest()
        found.append(base64.urlsafe_b64encode(digest).decode()[:ID_LENGTH])
    return tuple(found)


def _encoded(rule: PolicyRule) -> bytes:
    return b"".join(data for _, data in sorted(_fields(rule), key=lambda field: (field[0] in _IN_ONEOF, field[0])))


def _fields(rule: PolicyRule) -> Iterator[tuple[int, bytes]]:
    source, destination, written = rule.source, rule.destination, rule.written
    yield from _text(_ACTION, _ACTIONS.get(rule.action, rule.action))
    yield from _number(_IP_VERSION, rule.ip_version or 0)
    yield from _protocol(_PROTOCOL, rule.protocol)
    yield from _protocol(_NOT_PROTOCOL, rule.not_protocol)
    yield from _texts(_SRC_NET, source.nets)
    yield from _texts(_DST_NET, destination.nets)
    yield from _texts(_NOT_SRC_NET, source.not_nets)
    yield from _texts(_NOT_DST_NET, destination.not_nets)
    yield from _ranges(_SRC_PORTS, source.ports)
    yield from _ranges(_DST_PORTS, destination.ports)
    yield from _ranges(_NOT_SRC_PORTS, source.not_ports)
    yield from _ranges(_NOT_DST_PORTS, destination.not_ports)
    yield from _icmp(_ICMP_TYPE, _ICMP_TYPE_CODE, rule.icmp)
    yield from _icmp(_NOT_ICMP_TYPE, _NOT_ICMP_TYPE_CODE, rule.not_icmp)
    yield from _sets(rule)
    for field, side, name in _ORIGINALS:
        yield from _text(field, (written.get(side) or {}).get(name) or "")
    for field, side, name in _SERVICES:
        yield from _text(field, ((written.get(side) or {}).get("services") or {}).get(name) or "")
    for field, side in ((_SRC_ACCOUNTS, "source"), (_DST_ACCOUNTS, "destination")):
        yield from _accounts(field, (written.get(side) or {}).get("serviceAccounts") or {})
    if written.get("http") is not None:
        yield _message(_HTTP, _http(written["http"]))
    annotations = (written.get("metadata") or {}).get("annotations")
    if annotations is not None:
        entries = (_message(1, (*_text(1, key), *_text(2, value))) for key, value in sorted(annotations.items()))
        yield _message(_METADATA, entries)


def _sets(rule: PolicyRule) -> Iterator[tuple[int, bytes]]:
    source, destination = rule.source, rule.destination
    for peer, selected, named, not_selected, not_named in (
        (source, _SRC_SETS, _SRC_NAMED, _NOT_SRC_SETS, _NOT_SRC_NAMED),
        (destination, _DST_SETS, _DST_NAMED, _NOT_DST_SETS, _NOT_DST_NAMED),
    ):
        yield from _texts(named, (port_set(rule, peer, name).name for name in peer.ports.names))
        yield from _texts(not_named, (port_set(rule, peer, name).name for name in peer.not_ports.names))
        if peer.selector is not None and _is_matched(peer):
            yield from _text(selected, SelectorSet(peer.selector).name)
        if peer.not_selector is not None:
            yield from _text(not_selected, SelectorSet(peer.not_selector).name)
    if source.service:
        yield from _text(_SRC_SETS, ServiceSet(*source.service, with_ports=False).name)
    if destination.service:
        yield from _text(_DST_IP_PORT_SETS, ServiceSet(*destination.service, with_ports=True).name)


def _is_matched(peer: Peer) -> bool:
    """A selector beside nothing but named ports is matched by their sets."""
    return bool(peer.ports.ranges) or not peer.ports.names


def _protocol(field: int, protocol: str | None) -> Iterator[tuple[int, bytes]]:
    if protocol is None:
        return
    if protocol.isdigit():
        yield _message(field, ((1, b"\x08" + _varint(int(protocol))),))  # one of a oneof: there even when 0
    else:
        yield _message(field, _text(2, protocol))


def _ranges(field: int, ports: Ports) -> Iterator[tuple[int, bytes]]:
    for first, last in ports.ranges:
        yield _message(field, (*_number(1, first), *_number(2, last)))


def _icmp(field: int, field_with_code: int, icmp: tuple[int, int | None] | None) -> Iterator[tuple[int, bytes]]:
    if icmp is None:
        return
    kind, code = icmp
    if code is None:
        yield field, _key(field, 0) + _varint(kind)
    else:
        yield _message(field_with_code, (*_number(1, kind), *_number(2, code)))


def _accounts(field: int, accounts: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    if accounts.get("names") or accounts.get("selector"):
        yield _message(field, (*_text(1, accounts.get("selector") or ""), *_texts(2, accounts.get("names") or ())))


def _http(match: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    yield from _texts(1, match.get("methods") or ())
    for path in match.get("paths") or ():
        exact, prefix = path.get("exact") or "", path.get("prefix") or ""
        if exact or prefix:
            yield _message(2, _text(1, exact) if exact else _text(2, prefix))


def _text(field: int, text: str) -> Iterator[tuple[int, bytes]]:
    yield from _texts(field, (text,) if text else ())


def _texts(field: int, texts: Iterable[str]) -> Iterator[tuple[int, bytes]]:
    for text in texts:
        data = text.encode()
        yield field, _key(field, 2) + _varint(len(data)) + data


def _number(field: int, number: int) -> Iterator[tuple[int, bytes]]:
    if number:
        yield field, _key(field, 0) + _varint(number)


def _message(field: int, fields: Iterable[tuple[int, bytes]]) -> tuple[int, bytes]:
    data = b"".join(part for _, part in fields)
    return field, _key(field, 2) + _varint(len(data)) + data


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
