# SPDX-License-Identifier: Apache-2.0
"""The output of ``host_facts.py`` and ``capture.py`` on a Linux node, as typed objects.  Pure: no
exec."""

import base64
from collections.abc import Callable, Collection
from dataclasses import fields
from typing import Any, TypeVar

from conformance.errors import ProbeBroken
from conformance.model.capture import Capture, Packet
from conformance.model.codec import from_plain
from conformance.model.counted import counted
from conformance.model.host import FdbEntry, Link, LinuxFacts, Neighbour, RouteEntry
from conformance.probe import protocol
from conformance.probe.protocol import Program

T = TypeVar("T")
HOST_FACTS = Program("host_facts.py", ("python3", "-I", "-S", "-u", "/probe/host_facts.py"))
KINDS: dict[str, type[Link | RouteEntry | FdbEntry | Neighbour]] = {
    "links": Link, "routes": RouteEntry, "fdb": FdbEntry, "neighbours": Neighbour,
}  # fmt: skip
"""The type of the entries in each list of the output. Only some fields of an entry are read."""
CAPTURE = Program("capture.py", ("python3", "-I", "-S", "-u", "/probe/capture.py"))
PACKETS = 400
"""The maximum number of packets of a capture."""
BYTES = 192
"""The number of bytes of a packet that are captured: all headers of TCP in VXLAN, and the beginning
of the data."""


def parse(node: str, stdout: bytes) -> LinuxFacts:
    """Return the facts in an output. Raise as :func:`only_answer` does."""
    return only_answer(node, stdout, HOST_FACTS, "host-facts", lambda found: _facts(node, found))


def only_answer(
    node: str, stdout: bytes, program: Program, kind: str, read: Callable[[dict[str, Any]], T]
) -> T:
    """Return what ``read`` makes of the only answer of a program that ran in a node's network.

    Raise ProbeBroken if the output has not exactly one protocol line of this ``kind``, or if that
    line is garbled, incomplete or of another program.
    """
    lines = [
        found for line in stdout.splitlines() if (found := protocol.read_line(line)) is not None
    ]
    if len(lines) != 1 or lines[0]["type"] != kind:
        raise ProbeBroken(
            f"{program.name} on {node} printed {counted(len(lines), 'answer')} instead of 1: "
            f"{stdout[:200]!r}",
            transport="no answer",
        )
    if problem := protocol.other_program(lines[0], program):
        raise ProbeBroken(f"{program.name} on {node}: {problem}", transport=problem)
    try:
        return read(lines[0])
    except (KeyError, TypeError, ValueError) as error:
        raise ProbeBroken(
            f"{program.name} on {node} gave an answer that cannot be read: {type(error).__name__}: {error}",
            transport="garbled answer",
        ) from None


def _facts(node: str, found: dict[str, Any]) -> LinuxFacts:
    kept = {
        name: [{field.name: row[field.name] for field in fields(kind)} for row in found[name]]
        for name, kind in KINDS.items()
    }
    return from_plain(LinuxFacts, {"node": node, **kept})


def capture_argv(
    seconds: float, vxlan_port: int, ends: Collection[str], peers: Collection[str]
) -> tuple[str, ...]:
    """Return the command that captures packets between the addresses ``ends``, and between ``ends``
    and ``peers``.

    Without ``peers``, it captures all packets to or from ``ends``.
    """
    return (
        *CAPTURE.argv,
        f"{seconds:g}",
        *map(str, (PACKETS, BYTES, vxlan_port)),
        *(",".join(sorted(addresses)) or "-" for addresses in (ends, peers)),
    )


def captured(node: str, stdout: bytes) -> Capture:
    """Return the capture in an output. Raise as :func:`only_answer` does."""
    return only_answer(node, stdout, CAPTURE, "capture", lambda found: _capture(node, found))


def _capture(node: str, found: dict[str, Any]) -> Capture:
    packets = tuple(
        Packet(
            at=float(packet["at"]),
            interface=str(packet["interface"]),
            way=int(packet["way"]),
            hardware=int(packet["hardware"]),
            data=base64.b64decode(packet["data"], validate=True),
        )
        for packet in found["packets"]
    )
    return Capture(
        node=node, packets=packets, dropped=int(found["dropped"]), full=bool(found["full"])
    )
