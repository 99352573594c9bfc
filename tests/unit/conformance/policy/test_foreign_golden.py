# SPDX-License-Identifier: Apache-2.0
"""Calico's own policy code, by system and version, against the judge's reading of a policy.

Whatever Calico blocks, some policy of the case could close; and where one policy alone selects a
pod, what it surely closes is blocked, and what it surely does not close is not.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.foreign.snapshot import ADMIN_TIERS, FIRST
from conformance.policy.foreign import End, ForeignPolicy, Observed, Way
from conformance.policy.oracle import fields
from conformance.policy.oracle.admin import ADMIN
from conformance.policy.oracle.oracle import Oracle, Verdict
from conformance.policy.oracle.policies import LAST, Tier, tiers
from conformance.policy.oracle.rules import Packet
from conformance.policy.oracle.switches import PROMISE, Switches, as_shipped
from conformance.policy.oracle.world import Pod, World

GOLDEN = Path(__file__).parents[3] / "golden" / "windows-policy-2"
RELEASES = {"v3.31.7": (3, 31), "v3.32.1": (3, 32), "v3.33": (3, 33)}
WORLDS = {
    "v3.31.7": "world-v3.31.json.gz",
    "v3.32.1": "world-v3.32.json.gz",
    "v3.33": "world-v3.32.json.gz",
}
PROTOCOLS = {number: name.upper() for name, number in fields.PROTOCOLS.items() if name != "icmpv6"}
ECHO = [8, 0]
EVERY = 83
"""Which probes of a pod are asked."""
Obj = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One line of a table."""

    id: str
    policies: tuple[ForeignPolicy, ...]
    objects: tuple[Obj, ...]
    letters: dict[str, dict[str, str]]


@cache
def document(version: str) -> Any:
    with gzip.open(GOLDEN / WORLDS[version], "rt") as text:
        read = json.load(text)
    for obj in read["objects"]:
        for endpoint in obj.get("endpoints", ()):
            endpoint["conditions"]["ready"] = True  # Calico's code takes both alike
    return read


@cache
def world(version: str, network_sets: bool) -> World:
    read = document(version)
    return World([*read["objects"], *(read["network_sets"] if network_sets else ())])


def cases(version: str) -> Iterator[tuple[Case, World]]:
    with gzip.open(GOLDEN / f"windows_acls_{version}.jsonl.gz", "rt") as lines:
        for line in lines:
            read = json.loads(line)
            if "windows" in read:
                there = world(version, bool(read["network_sets"]))
                both = {column: read[column] for column in ("windows", "linux")}
                policies = tuple(foreign(version, read["objects"], there))
                objects = tuple(read["objects"])
                yield Case(read["id"], policies, objects, both), there


def foreign(version: str, objects: Sequence[Obj], there: World) -> Iterator[ForeignPolicy]:
    known = tiers(
        [obj for obj in (*document(version)["objects"], *objects) if obj["kind"] == "Tier"]
    )
    for obj in objects:
        kind, spec = obj["kind"], obj.get("spec") or {}
        if not kind.endswith("Policy"):
            continue
        named = ADMIN_TIERS.get(kind) or spec.get("tier") or "default"
        order = {"Admin": FIRST}.get(named, LAST)
        home = (
            "" if "Global" in kind or kind in ADMIN else obj["metadata"].get("namespace", "default")
        )
        yield ForeignPolicy(
            kind=kind,
            name=obj["metadata"]["name"],
            namespace=home,
            api=obj["apiVersion"],
            uid="",
            version="",
            spec=spec,
            tier=known.get(named) or Tier(named, order, "Pass" if kind in ADMIN else "Deny"),
            sets=tuple(there.sets),
            services={("alpha", "nosuch"): [], **there.backends},
        )


def probes(
    version: str, case: Case, there: World, system: str, column: Switches
) -> Iterator[tuple[str, Way, str, Packet, Pod]]:
    """Yield each chosen probe with Calico's letter."""
    for number, (name, letters) in enumerate(case.letters[system].items()):
        pod = there.pods[name]
        listed = document(version)["probes"][name]
        for place in range(len(case.id + name) * 7 % EVERY + number, len(listed), EVERY):
            direction, source, target, protocol, from_port, port, icmp = listed[place]
            ends = fields.address(source), fields.address(target)
            of_node = direction == "ingress" and ends[0] in there.hosts.get(pod.node, ())
            if (
                of_node
                or ends[0] == ends[1]
                or protocol not in PROTOCOLS
                or icmp not in (None, ECHO)
            ):
                continue
            other = ends[0] if direction == "ingress" else ends[1]
            member = next((one for one in there.at(other) if isinstance(one, Pod)), None)
            way = Way(
                direction=direction,
                end=End(member=pod, address=pod.address, columns=(column,)),
                other=End(member=member, address=other),
                protocol=PROTOCOLS[protocol],
                ports=(port,) if port else (),
            )
            packet = Packet(*ends, protocol, port, from_port, tuple(icmp) if icmp else None)
            yield f"{case.id} {name} {listed[place]}", way, letters[place], packet, pod


SYSTEMS = [
    pytest.param(version, system, id=f"{version}-{system}")
    for version in RELEASES
    for system in ("windows", "linux")
]


def column_of(version: str, system: str) -> Switches:
    return as_shipped(RELEASES[version]) if system == "windows" else PROMISE


@pytest.mark.parametrize(("version", "system"), SYSTEMS)
def test_what_calico_blocks_some_policy_could_close_and_one_alone_is_right(
    version: str, system: str
) -> None:
    column, wrong, counted = column_of(version, system), list[str](), Counter[str]()
    for case, there in cases(version):
        for told, way, letter, _, _ in probes(version, case, there, system, column):
            could = [one.could(way, "closed") for one in case.policies]
            if letter == "B" and not any(one is not False for one in could):
                wrong.append(f"{told}: blocked, and no policy could")
            selecting = [
                truth
                for one, truth in zip(case.policies, could, strict=True)
                if one.selects(way.end, way.direction) is not False
            ]
            if len(selecting) == 1 and not any(one.kind in ADMIN for one in case.policies):
                counted["may" if selecting[0] is None else "surely"] += 1
                if selecting[0] is not None and selecting[0] is (letter == "A"):
                    wrong.append(f"{told}: {letter}, and the policy could: {selecting[0]}")
    assert wrong == []
    assert counted["surely"] > 500
    assert counted["may"] < counted["surely"] / 50, "what is not known here is clients' own ports"


@pytest.mark.parametrize(("version", "system"), SYSTEMS)
@pytest.mark.parametrize("seen", ["closed", "open"])
def test_no_excuse_is_given_that_the_column_could_not_give(
    version: str, system: str, seen: Observed
) -> None:
    column, excused = column_of(version, system), 0
    wanted = {Verdict.DENIED if seen == "closed" else Verdict.ALLOWED, Verdict.NOT_SAID}
    for case, there in cases(version):
        asked = list(probes(version, case, there, system, column))
        objects = [obj for obj in case.objects if obj["kind"].endswith("Policy")]
        for place, one in enumerate(case.policies):
            if one.kind in ADMIN:
                continue
            alone = [*tiers_of(version, case), first_in_its_tier(objects[place])]
            oracles = [Oracle(there, [*alone, *beside]) for beside in beside_it(seen)]
            for told, way, _, packet, pod in asked[place::7]:
                could = one.could(way, seen)
                if could is False:
                    continue
                excused += 1
                assert any(
                    judge.verdict(pod, way.direction, each, column) in wanted
                    for judge in oracles
                    for each in from_any_port(packet, objects[place])
                ), f"{told}: {one.label} is said to give it: {could}"
    assert excused > 50


def tiers_of(version: str, case: Case) -> list[Obj]:
    return [obj for obj in (*document(version)["objects"], *case.objects) if obj["kind"] == "Tier"]


def first_in_its_tier(policy: Obj) -> Obj:
    """The policy before those of the run, of which nobody knows the order."""
    is_calico = (
        policy["apiVersion"].startswith("projectcalico") and "Kubernetes" not in policy["kind"]
    )
    return {**policy, "spec": {**policy["spec"], "order": 5}} if is_calico else policy


def from_any_port(packet: Packet, policy: Obj) -> list[Packet]:
    """The packet from other ports of its source, which a run does not know beforehand."""
    numbers = {int(number) for number in re.findall(r"\d+", json.dumps(policy))}
    ports = (
        1,
        80,
        8080,
        *(port for number in numbers for port in (number, number + 1) if port < 65536),
    )
    return [packet, *(replace(packet, source_port=port) for port in ports)]


def beside_it(seen: Observed) -> list[list[Obj]]:
    """What the run may have beside a policy: nothing, one rule for all, one for other ports."""
    action, rest = ("Deny", "Allow") if seen == "closed" else ("Allow", "Deny")
    other = {"action": action, "protocol": "TCP", "destination": {"ports": [7]}}
    udp = {**other, "protocol": "UDP"}
    sctp = {**other, "protocol": "SCTP"}
    found: list[list[Obj]] = [] if seen == "open" else [[]]
    for rules in ([{"action": rest}], [other, udp, sctp, {"action": rest}]):
        spec = {"order": 1e9, "types": ["Ingress", "Egress"], "ingress": rules, "egress": rules}
        meta = {"name": "of-the-run"}
        found.append(
            [
                {
                    "apiVersion": "projectcalico.org/v3",
                    "kind": "GlobalNetworkPolicy",
                    "metadata": meta,
                    "spec": spec,
                }
            ]
        )
    return found


@pytest.mark.parametrize(("version", "system"), SYSTEMS)
def test_the_oracle_decides_all_policies_together_as_calico_does(version: str, system: str) -> None:
    column, wrong, said = column_of(version, system), list[str](), Counter[bool]()
    for case, there in cases(version):
        if any(one.kind in ADMIN for one in case.policies):
            continue
        judge = Oracle(there, [*tiers_of(version, case), *case.objects])
        for told, way, letter, packet, pod in probes(version, case, there, system, column):
            verdict = judge.verdict(pod, way.direction, packet, column)
            said[verdict is not Verdict.NOT_SAID] += 1
            if verdict is not Verdict.NOT_SAID and (verdict is Verdict.ALLOWED) != (letter == "A"):
                wrong.append(f"{told}: Calico {letter}, oracle {verdict.value}")
    assert wrong == []
    assert said[True] > 50 * said[False]
