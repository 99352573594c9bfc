# SPDX-License-Identifier: Apache-2.0
"""Reads the recorded turns of a run's tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.run.directory import RunDirectory

from .conftest import Run

MIXED = """
import time
SLEEP = 0.04

@verifies("RST-3")
@pytest.mark.parametrize("number", range(4))
def test_node(number, own_node, record):
    record.touched(["windows"])
    record(node=own_node)
    time.sleep(SLEEP)

@verifies("VXLAN-10")
@pytest.mark.parametrize("number", range(2))
def test_cluster(number):
    time.sleep(SLEEP)

@verifies("CONN-1")
@pytest.mark.parametrize("number", range(24))
def test_shared(number):
    time.sleep(SLEEP)
"""


@dataclass(frozen=True)
class Interval:
    test: str
    worker: str
    kind: str
    node: str
    nodes: Sequence[str]
    asked: float
    began: float
    ended: float
    released: float

    def overlaps(self, other: Interval) -> bool:
        return self.began < other.released and other.began < self.released


def turns(run: Run) -> list[Interval]:
    assert run.folder, run.out
    lines = [
        line
        for path in RunDirectory(run.folder).turns.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return sorted(
        (Interval(**json.loads(line)) for line in lines), key=lambda interval: interval.began
    )
