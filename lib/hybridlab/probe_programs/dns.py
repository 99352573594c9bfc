# SPDX-License-Identifier: Apache-2.0
"""DNS of the Windows agent: it builds questions and reads answers, according to
docs/probe-protocol.md sections 5 and 6."""

import ipaddress
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

RECORDS = {"A": 1, "NS": 2, "CNAME": 5, "PTR": 12, "TXT": 16, "AAAA": 28, "SRV": 33}
CODES = {1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
HEAD = 12
"""The length of a packet's header in bytes: everything before its question."""

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)


class NoName(ValueError):
    """The text is no valid DNS name."""


class Garbled(ValueError):
    """An answer that is cut short or cannot be decoded."""


@dataclass(frozen=True)
class Answer:
    """The answer of a server."""

    code: int
    truncated: bool
    records: tuple[str, ...]
    """The records of the requested type, as the protocol writes them."""


def is_address(text: str) -> bool:
    """Return whether a text is an address in the protocol's sense: canonical IPv4, or IPv6 without
    brackets and zone."""
    if ":" not in text:
        return _IPV4.fullmatch(text) is not None
    try:
        return not ipaddress.IPv6Address(text).scope_id
    except ValueError:
        return False


def candidates(query: str, record: str, suffixes: Sequence[str] | None) -> list[str]:
    """Return the names that Windows queries: a name with a dot as it is, a name without a dot
    with each suffix.

    If ``suffixes`` is None, a server was given, and every name is queried as it is.
    """
    if record == "PTR":
        return [
            ipaddress.ip_address(query).reverse_pointer
            if is_address(query)
            else query.removesuffix(".")
        ]
    if query.endswith("."):
        return [query[:-1]]
    if "." in query or suffixes is None:
        return [query]
    return [f"{query}.{suffix.strip('.')}" for suffix in suffixes]


def question(name: str, record: str) -> bytes:
    """Return a question in the form of a DNS packet. Raise NoName."""
    parts = name.split(".")
    if len(name) > 253 or not name.isascii() or any(not 0 < len(part) < 64 for part in parts):
        raise NoName(f"'{name}' is no DNS name")
    labels = b"".join(bytes([len(part)]) + part.encode("ascii") for part in parts)
    return labels + b"\0" + struct.pack(">HH", RECORDS[record], 1)


def packet(number: int, asked: bytes) -> bytes:
    """Return a whole query."""
    return struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + asked


def read(data: bytes, number: int, asked: bytes, record: str) -> Answer | None:
    """Return the answer to a query of that number and question; None if it answers another query.
    Raise Garbled."""
    if len(data) < HEAD or data[:2] != number.to_bytes(2, "big") or not data[2] & 0x80:
        return None
    count = int.from_bytes(data[4:6], "big")
    if count > 1 or (count == 1 and data[HEAD : HEAD + len(asked)].lower() != asked.lower()):
        return None
    code = data[3] & 0x0F
    truncated = bool(data[2] & 0x02)
    if code not in (0, 3) or truncated:
        return Answer(code, truncated, ())
    try:
        return Answer(
            code, False, tuple(_records(data, HEAD + (len(asked) if count else 0), RECORDS[record]))
        )
    except (IndexError, struct.error, ValueError) as problem:
        raise Garbled(str(problem)) from None


def _records(data: bytes, at: int, wanted: int) -> list[str]:
    found = []
    for _ in range(int.from_bytes(data[6:8], "big")):
        at = _name(data, at)[1]
        kind, _, _, size = struct.unpack_from(">HHIH", data, at)
        at += 10
        if at + size > len(data):
            raise IndexError("a record is cut short")
        if kind == wanted:
            found.append(_text(data[: at + size], at, kind))
        at += size
    return found


def _text(data: bytes, at: int, kind: int) -> str:
    """Return the text of a record that reaches to the end of ``data``."""
    own = data[at:]
    if kind == RECORDS["A"]:
        return str(ipaddress.IPv4Address(own))
    if kind == RECORDS["AAAA"]:
        address = ipaddress.IPv6Address(own)
        return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)
    if kind == RECORDS["SRV"]:
        priority, weight, port = struct.unpack_from(">HHH", own)
        return f"{priority} {weight} {port} {_name(data, at + 6)[0]}"
    if kind == RECORDS["TXT"]:
        if len(own) < 1 + own[0]:
            raise IndexError("a text is cut short")
        return own[1 : 1 + own[0]].decode("latin-1")
    return _name(data, at)[0]


def _name(data: bytes, at: int) -> tuple[str, int]:
    """Return a name with its final dot, and the offset after it."""
    parts = list[str]()
    end = -1
    for _ in range(200):
        size = data[at]
        if size >= 0xC0:
            end = at + 2 if end < 0 else end
            at = struct.unpack_from(">H", data, at)[0] & 0x3FFF
        elif size >= 0x40 or at + 1 + size > len(data):
            raise IndexError("a name is cut short")
        elif size:
            parts.append(data[at + 1 : at + 1 + size].decode("latin-1"))
            at += 1 + size
        else:
            return ".".join(parts) + ".", at + 1 if end < 0 else end
    raise IndexError("a compression loop")
