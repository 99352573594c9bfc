# SPDX-License-Identifier: Apache-2.0
"""The golden tables of Calico's own Windows policy code, as cases for the judge's oracle.

Where the tables come from: tests/golden/windows-policy/README.md.  Members of a Service that are not ready are taken to
be ready, which is the same to Calico's code: what no document says has a literal case of its own.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from conformance.policy.oracle import fields
from conformance.policy.oracle.oracle import Oracle, Verdict
from conformance.policy.oracle.policies import Direction
from conformance.policy.oracle.rules import Packet
from conformance.policy.oracle.switches import PROMISE, WINDOWS, Minor, Switches, as_shipped
from conformance.policy.oracle.world import World

Obj = dict[str, Any]

GOLDEN = Path(__file__).parents[4] / "golden" / "windows-policy"
TABLES = {"v3.31.7": "windows_acls.jsonl.gz", "v3.32.1": "windows_acls_v3.32.1.jsonl.gz"}
_LETTERS = {Verdict.ALLOWED: "A", Verdict.DENIED: "B", Verdict.NOT_SAID: "?"}


@dataclass(frozen=True)
class Column:
    """What the oracle is asked, and which letters of a table it is held against."""

    letters: str
    switches: Switches
    release: Minor | None = None
    """The release that breaks ties, and that reads its kinds alone."""


PROMISED = Column("linux", PROMISE)
DOCUMENTED = Column("windows", WINDOWS)
SHIPPED = {
    "v3.31.7": Column("windows", as_shipped((3, 31)), (3, 31)),
    "v3.32.1": Column("windows", as_shipped((3, 32)), (3, 32)),
}


@dataclass(frozen=True, eq=False)
class Case:
    """One line of a table."""

    id: str
    objects: tuple[Obj, ...]
    network_sets: bool
    letters: dict[str, dict[str, str]]
    """By column, by pod."""

    @property
    def world(self) -> tuple[Obj, ...]:
        """What is the same in all cases."""
        return _objects(self.network_sets)


@cache
def _file() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((GOLDEN / "world.json").read_text())
    for obj in read["objects"]:
        for endpoint in obj.get("endpoints", ()):
            endpoint["conditions"]["ready"] = True
    return read


@cache
def _objects(network_sets: bool) -> tuple[Obj, ...]:
    return (*_file()["objects"], *(_file()["network_sets"] if network_sets else ()))


@cache
def _world(network_sets: bool) -> World:
    return World(_objects(network_sets))


@cache
def probes() -> dict[str, tuple[tuple[Direction, Packet], ...]]:
    """By pod, in the order of the letters."""
    return {
        pod: tuple(
            (
                direction,
                Packet(
                    fields.address(source),
                    fields.address(destination),
                    protocol,
                    port,
                    source_port,
                    (icmp[0], icmp[1]) if icmp else None,
                ),
            )
            for direction, source, destination, protocol, source_port, port, icmp in listed
        )
        for pod, listed in _file()["probes"].items()
    }


@cache
def cases(version: str) -> tuple[Case, ...]:
    """Return the cases that have letters."""
    with gzip.open(GOLDEN / TABLES[version], "rt") as lines:
        read = [json.loads(line) for line in lines]
    return tuple(
        Case(
            one["id"],
            tuple(one["objects"]),
            bool(one["network_sets"]),
            {key: one[key] for key in ("linux", "windows") if key in one},
        )
        for one in read
        if "windows" in one
    )


@cache
def panicking(version: str) -> tuple[Case, ...]:
    """Those in which Felix ended."""
    with gzip.open(GOLDEN / TABLES[version], "rt") as lines:
        read = [json.loads(line) for line in lines]
    return tuple(
        Case(one["id"], tuple(one["objects"]), bool(one["network_sets"]), {})
        for one in read
        if "panic" in one
    )


def oracle(case: Case) -> Oracle:
    """The oracle of a case."""
    tiers = [obj for obj in case.world if obj["kind"] == "Tier"]
    return Oracle(_world(case.network_sets), [*tiers, *case.objects])


def answers(
    judge: Oracle,
    column: Column,
    case: Case,
    chosen: slice,
    switches: Callable[[Switches], Switches] = lambda s: s,
) -> Iterator[tuple[str, str, str]]:
    """(the probe, Calico's letter, the oracle's; ``?`` is not said) for the chosen probes of each pod."""
    asked = switches(column.switches)
    for pod, letters in case.letters[column.letters].items():
        end = judge.world.pods[pod]
        for (direction, packet), letter in zip(_of(pod, chosen), letters[chosen], strict=True):
            yield (
                f"{pod} {direction} {packet}",
                letter,
                _LETTERS[judge.verdict(end, direction, packet, asked, column.release)],
            )


def _of(pod: str, chosen: slice) -> Sequence[tuple[Direction, Packet]]:
    return probes()[pod][chosen]
