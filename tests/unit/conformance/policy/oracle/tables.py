# SPDX-License-Identifier: Apache-2.0
"""The golden tables of Calico's own Windows policy code, as cases for the judge's oracle.

The origin of the tables is in tests/golden/windows-policy/README.md. Unready members of a Service
count as ready here, since Calico's code treats them alike. Behaviour that no document describes has
its own literal case.
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
    """The settings of the oracle, and the letters of a table with which its answers are
    compared."""

    letters: str
    switches: Switches
    release: Minor | None = None
    """The release whose tie-breaking and kinds apply."""


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
    """Map each column and pod to its letters."""

    @property
    def world(self) -> tuple[Obj, ...]:
        """Return the objects that all cases share."""
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
    """Map each pod to its probes, in the order of the letters."""
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
    """Return the cases in which Felix panicked."""
    with gzip.open(GOLDEN / TABLES[version], "rt") as lines:
        read = [json.loads(line) for line in lines]
    return tuple(
        Case(one["id"], tuple(one["objects"]), bool(one["network_sets"]), {})
        for one in read
        if "panic" in one
    )


def oracle(case: Case) -> Oracle:
    """Return the oracle of a case."""
    tiers = [obj for obj in case.world if obj["kind"] == "Tier"]
    return Oracle(_world(case.network_sets), [*tiers, *case.objects])


def answers(
    judge: Oracle,
    column: Column,
    case: Case,
    chosen: slice,
    switches: Callable[[Switches], Switches] = lambda s: s,
) -> Iterator[tuple[str, str, str]]:
    """Yield (probe, Calico's letter, the oracle's letter) for the chosen probes of each pod; ``?``:
    the oracle does not decide."""
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
