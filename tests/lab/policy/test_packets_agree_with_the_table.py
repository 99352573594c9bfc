# SPDX-License-Identifier: Apache-2.0
"""Packets agree with the golden tables: 60 cases are programmed into a lab, on a Windows and on a
Linux node.

There is at least one case of each class that packets can show; a fixed seed chooses the others.
Each case has 24 connections: if possible as many that pass as that do not, and first of all those
on which the systems differ. ICMP types and SCTP are only in the tables: this kernel has no SCTP,
and a pod's sockets can send no other ICMP type than echo.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybridlab.dataplane.contract import remote_dataplane
from hybridlab.labd.launch import LabdSettings, launch
from tests.golden.policy_tables import World
from tests.lab.policy.golden_lab import GoldenLab, Opening, expected_of

GOLDEN = Path(__file__).parents[2] / "golden" / "windows-policy"
SEED, CASES, CONNECTIONS = 20261122, 60, 24
CLASSES = (
    "combineports",
    "http",
    "k8s-orchestrator",
    "notready",
    "notselector",
    "nsselector",
    "pass-last",
    "staged",
    "svc-source",
    "tie",
    "untracked",
    "v6notnets",
)


@functools.cache
def world() -> World:
    return World.read(json.loads((GOLDEN / "world.json").read_text()))


def _chosen() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / "windows_acls.jsonl.gz", "rt") as lines:
        cases = [case for case in map(json.loads, lines) if "windows" in case]
    chance = random.Random(SEED)
    chance.shuffle(cases)
    chosen = {}
    for name in CLASSES:
        case = next(case for case in cases if name in case["hinges_on"])
        chosen[case["id"]] = case
    for case in cases:
        if len(chosen) < CASES:
            chosen.setdefault(case["id"], case)
    return list(chosen.values())


CHOSEN = _chosen()


def _connections(case: dict[str, Any], column: str) -> dict[Opening, bool]:
    """Some of a case's connections, with what the table says of them."""
    said, other = (
        expected_of(case, name, world())
        for name in (column, "linux" if column == "windows" else "windows")
    )
    chance = random.Random(f"{SEED} {case['id']} {column}")
    order = sorted(said, key=lambda opening: (said[opening] == other[opening], chance.random()))
    passing, denied = (
        [opening for opening in order if said[opening] is verdict] for verdict in (True, False)
    )
    half = CONNECTIONS // 2
    picked = [
        *passing[: max(half, CONNECTIONS - len(denied))],
        *denied[: max(half, CONNECTIONS - len(passing))],
    ]
    return {clash: said[clash] for clash in _without_clashes(picked)}


def _without_clashes(openings: list[Opening]) -> Iterator[Opening]:
    """One for each source port of a pod and each listener: what arrives is then what was sent there."""
    seen: set[tuple[object, ...]] = set()
    for opening in openings:
        keys = {
            ("from", opening.source, opening.protocol, opening.source_port),
            ("to", opening.destination, opening.protocol, opening.port),
        }
        if seen.isdisjoint(keys):
            seen |= keys
            yield opening


@pytest.fixture(scope="module", params=["windows", "linux"])
def lab(request: pytest.FixtureRequest) -> Iterator[tuple[asyncio.Runner, GoldenLab, str]]:
    labd = launch(LabdSettings(services=("dataplane",)))
    with asyncio.Runner() as runner:
        try:
            channel = runner.run(labd.connect())
            built = GoldenLab(channel, remote_dataplane(channel), world(), request.param)
            runner.run(built.build())
            yield runner, built, request.param
            built.close()
        finally:
            runner.run(labd.close())


def test_every_class_that_packets_can_show_is_among_the_cases() -> None:
    assert len(CHOSEN) == CASES
    assert {name for case in CHOSEN for name in case["hinges_on"]} >= set(CLASSES)


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case["id"])
def test_packets_agree_with_the_table(
    lab: tuple[asyncio.Runner, GoldenLab, str], case: dict[str, Any]
) -> None:
    runner, golden, os = lab
    expected = _connections(case, os)
    assert runner.run(golden.lay(case))
    found = runner.run(golden.opened(expected, expected))
    assert {
        opening: found[opening] for opening in expected if found[opening] != expected[opening]
    } == {}


def test_a_panic_leaves_what_was_programmed(lab: tuple[asyncio.Runner, GoldenLab, str]) -> None:
    runner, golden, os = lab
    if os == "linux":
        pytest.skip("Felix panics on Windows only")
    with gzip.open(GOLDEN / "windows_acls.jsonl.gz", "rt") as lines:
        panicking = next(case for case in map(json.loads, lines) if "panic" in case)
    before = next(case for case in CHOSEN if "pass-last" in case["hinges_on"])
    expected = _connections(before, os)
    assert runner.run(golden.lay(before))
    assert not runner.run(golden.lay(panicking))
    assert runner.run(golden.opened(expected, expected)) == expected
