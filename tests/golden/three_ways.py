# SPDX-License-Identifier: Apache-2.0
"""Compares Calico's own policy code, the lab's, and the judge's oracle on the same cases and
probes.

``python -m tests.golden.three_ways [--every N] [--of VERSION]`` prints the number of cases and
probes of the second and third set on which the three differ, by class, with the first case of each
class. The origin of the tables: tests/golden/windows-policy-2/README.md,
tests/golden/windows-policy-3/README.md.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.policy.oracle import fields
from conformance.policy.oracle.oracle import Oracle, Verdict
from conformance.policy.oracle.panics import panics
from conformance.policy.oracle.policies import Direction
from conformance.policy.oracle.rules import Packet
from conformance.policy.oracle.switches import PROMISE, Minor, Switches, as_shipped
from conformance.policy.oracle.world import World
from tests.golden import policy_tables

Obj = dict[str, Any]
SECOND = Path(__file__).parent / "windows-policy-2"
THIRD = Path(__file__).parent / "windows-policy-3"
RELEASES: dict[str, Minor] = {
    "v3.31.7": (3, 31),
    "v3.32.1": (3, 32),
    "v3.33": (3, 33),
    "v3.31.7-731": (3, 31),
    "v3.32.1-732": (3, 32),
}
"""Map each table to its release. The name of a table is a version, for the third set followed by
the seed."""
LETTERS = {Verdict.ALLOWED: "A", Verdict.DENIED: "B", Verdict.NOT_SAID: "?"}
COLUMNS = ("windows", "linux")


def folder(version: str) -> Path:
    """Return the folder of a table."""
    return THIRD if "-" in version else SECOND


@functools.cache
def document(version: str) -> Any:
    """Return the world of a version's cases."""
    minor = min(RELEASES[version][1], 32)
    with gzip.open(folder(version) / f"world-v3.{minor}.json.gz", "rt") as text:
        read = json.load(text)
    for obj in read["objects"]:
        for endpoint in obj.get("endpoints", ()):
            # Calico's code treats ready and unready endpoints alike
            endpoint["conditions"]["ready"] = True
    return read


@functools.cache
def objects_around(version: str, network_sets: bool) -> tuple[Obj, ...]:
    """Return the objects that all cases share."""
    read = document(version)
    return (*read["objects"], *(read["network_sets"] if network_sets else ()))


@functools.cache
def world(version: str, network_sets: bool) -> World:
    """Return a case's world for the oracle."""
    return World(objects_around(version, network_sets))


@functools.cache
def of_the_lab(version: str) -> policy_tables.World:
    """Return a case's world for the lab."""
    return policy_tables.World.read(document(version))


def cases(version: str, chosen: slice = slice(None)) -> list[Obj]:
    """Return the chosen lines of a table."""
    with gzip.open(folder(version) / f"windows_acls_{version}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in list(lines)[chosen]]


def oracle(version: str, case: Obj) -> Oracle:
    """Return the oracle of a case."""
    sets = bool(case["network_sets"])
    tiers = [obj for obj in objects_around(version, sets) if obj["kind"] == "Tier"]
    return Oracle(world(version, sets), [*tiers, *case["objects"]])


@functools.cache
def packets(version: str) -> dict[str, tuple[tuple[Direction, Packet], ...]]:
    """Map each pod to its probes, in the order of the letters."""
    return {
        pod: tuple(
            (
                direction,
                Packet(
                    fields.ip(source),
                    fields.ip(target),
                    protocol,
                    port,
                    of,
                    (icmp[0], icmp[1]) if icmp else None,
                ),
            )
            for direction, source, target, protocol, of, port, icmp in listed
        )
        for pod, listed in document(version)["probes"].items()
    }


def of_the_oracle(version: str, case: Obj, column: str, every: slice) -> dict[str, str]:
    """Return the oracle's letters of a column, for the chosen probes of each pod."""
    judge, release = oracle(version, case), RELEASES[version]
    switches: Switches = as_shipped(release) if column == "windows" else PROMISE
    return {
        pod: "".join(
            LETTERS[judge.verdict(judge.world.pods[pod], way, packet, switches, release)]
            for way, packet in packets(version)[pod][every]
        )
        for pod in case[column]
    }


def differences(version: str, case: Obj, every: slice = slice(None)) -> Iterator[str]:
    """Yield the results of a case in which the lab or the oracle differs from Calico's code."""
    lab = policy_tables.answer(case, of_the_lab(version))
    if "panic" in case or "panic" in lab:
        if ("panic" in case) is not ("panic" in lab):
            yield f"lab: panic {lab.get('panic')}, Calico {case.get('panic')}"
        judge = oracle(version, case)
        if not any(panics(judge, pod) for pod in judge.world.pods.values()):
            yield "oracle: no panic"
        return
    for column in COLUMNS:
        said = of_the_oracle(version, case, column, every)
        for pod, letters in case[column].items():
            calico = letters[every]
            given = lab.get(column, {}).get(pod, "")[every]
            if given != calico:
                yield f"lab, {column}, {pod}: {_first(calico, given)}"
            if said[pod] != calico:
                yield f"oracle, {column}, {pod}: {_first(calico, said[pod])}"
    any_order = '"services"' in json.dumps(case["objects"])
    told = list_differences(case["acls"], lab.get("acls", {}), any_order=any_order)
    yield from (f"list, {one}" for one in told)


def _first(calico: str, other: str) -> str:
    if len(calico) != len(other):
        return f"{len(other)} letters of {len(calico)}"
    wrong = [place for place, letter in enumerate(calico) if other[place] != letter]
    return (
        f"{len(wrong)} probes, the first {wrong[0]}: Calico {calico[wrong[0]]}, {other[wrong[0]]}"
    )


def list_differences(calico: Obj, lab: Obj, *, any_order: bool) -> Iterator[str]:
    """Yield the pods whose ACL lists differ, without regard to numbers and ids.

    ``any_order``: a rule names a Service, whose entries are in a random order in Calico.
    """
    for pod, entries in calico.items():
        given = lab.get(pod, [])
        both = [
            [json.dumps(_bare(one), sort_keys=True) for one in each] for each in (entries, given)
        ]
        if both[0] != both[1] and not (any_order and sorted(both[0]) == sorted(both[1])):
            mine = {json.dumps(_bare(entry), sort_keys=True) for entry in given}
            his = {json.dumps(_bare(entry), sort_keys=True) for entry in entries}
            yield f"{pod}: Calico {sorted(his - mine)[:1]}, the lab {sorted(mine - his)[:1]}"


def _bare(entry: Obj) -> Obj:
    kept = {key: value for key, value in entry.items() if key not in {"Priority", "Id"}}
    for name in ("LocalAddresses", "RemoteAddresses"):
        if name in kept:
            kept[name] = sorted(kept[name].split(","), key=ipaddress.ip_network)
    return kept


def main() -> None:
    """Print the differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1, help="each Nth case alone")
    parser.add_argument("--of", choices=RELEASES, action="append", help="these versions alone")
    options = parser.parse_args()
    total = 0
    for version in options.of or RELEASES:
        listed = cases(version, slice(None, None, options.every))
        found: dict[str, list[str]] = {}
        for case in listed:
            for told in differences(version, case):
                found.setdefault(told.partition(",")[0], []).append(f"{case['id']}: {told}")
        print(f"{version}: {len(listed)} cases, {sum(map(len, found.values()))} differences")
        for kind, those in found.items():
            print(f"  {kind}: {len(those)}", *those[:8], sep="\n    ")
        total += sum(map(len, found.values()))
    raise SystemExit(1 if total else 0)


if __name__ == "__main__":
    main()
