# SPDX-License-Identifier: Apache-2.0
"""A node's name may be as long as a file system allows: its locks, slots and facts are files."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.expect.watches import turn_of
from conformance.model.file_name import file_name
from conformance.probe.slots import Slots
from conformance.run.directory import RunDirectory
from conformance.run.unrestored import ExclusiveMark, Unrestored
from conformance.schedule.scheduler_lock import SHARED, Exclusivity, ReadWriteGate

LONG = ".".join(["n" * 60] * 4) + ".example"
"""251 characters; Kubernetes takes 253."""
OTHER = f"{LONG[:-1]}x"
BOTH = Exclusivity(kind="node", node=LONG, also=(OTHER,))


def test_a_short_name_stays_and_long_names_stay_different() -> None:
    assert file_name("windows-1.example") == "windows-1.example"
    assert file_name(LONG) != file_name(OTHER)
    assert len(file_name(LONG)) < 150


@pytest.mark.parametrize("turn", [SHARED, BOTH])
def test_nodes_with_long_names_are_locked(tmp_path: Path, turn: Exclusivity) -> None:
    gate = ReadWriteGate(tmp_path, [LONG, OTHER], patience=1.0)
    held = gate.enter(turn, "test", print)
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("node-")]) == 2
    held.release()


def test_a_slot_of_such_a_node_is_taken_once_and_waited_for(tmp_path: Path) -> None:
    slots, name = Slots(tmp_path), f"powershell-{LONG}"
    slot = slots.take(name, 1, "exec")
    assert slot
    assert slots.take(name, 1) is None
    assert slots.take(f"powershell-{OTHER}", 1)
    assert slots.holders(name, 1).startswith("exec for ")
    assert not slots.wanted(name)


def test_the_run_keeps_facts_turns_and_marks_of_such_nodes(tmp_path: Path) -> None:
    directory, _ = RunDirectory.create(tmp_path)
    for node in (LONG, OTHER, "windows-1.example"):
        directory.write_node_fact("dsr", node, node[-1])
    facts = {LONG: "e", OTHER: "x", "windows-1.example": "e"}
    assert directory.read_node_facts("dsr") == facts
    turn = turn_of("target", LONG)
    assert directory.take(turn)
    assert not directory.take(turn)
    directory.give_back(turn)
    assert directory.take(turn)
    marks = Unrestored(directory.unrestored, within=1.0)
    mark = ExclusiveMark(test="t", worker="gw0", exclusivity=BOTH)
    marks.mark(mark)
    assert marks.marks() == [mark]
    assert directory.changed_node(OTHER)
    marks.settle(mark)
    assert marks.marks() == []
