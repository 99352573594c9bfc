# SPDX-License-Identifier: Apache-2.0
"""Slots limit what several processes do at the same time, and a process that dies releases its
slot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.errors import ProbeBroken
from conformance.probe.slots import Slots

LIB = Path(__file__).parents[4] / "lib"


def test_no_more_than_the_count_are_taken(tmp_path: Path) -> None:
    slots = Slots(tmp_path)
    taken = [slots.take("powershell-w1", 2) for _ in range(3)]
    assert [slot.number if slot else None for slot in taken] == [0, 1, None]
    assert slots.take("powershell-w2", 2) is not None


def test_a_slot_that_is_given_back_can_be_taken_again_and_is_recorded(tmp_path: Path) -> None:
    slots = Slots(tmp_path)
    with slots.hold("agent", 1, within=1):
        assert slots.take("agent", 1) is None
    with slots.hold("agent", 1, within=1):
        pass
    first, second = slots.intervals
    assert first.given_back_at <= second.taken_at


def test_waiting_in_vain_is_broken_not_endless(tmp_path: Path) -> None:
    slots = Slots(tmp_path)
    held = slots.take("agent", 1)
    with pytest.raises(ProbeBroken, match="no slot agent became free"):
        slots.wait("agent", 1, within=0.05)
    assert held is not None
    held.release()
    held.release()
    assert slots.wait("agent", 1, within=0.05)


def test_who_waits_in_vain_is_told_what_holds_the_slots(tmp_path: Path) -> None:
    slots = Slots(tmp_path)
    held = slots.take("powershell-w1", 2, "a command in ns/b")
    assert held
    with slots.hold("powershell-w1", 2, 1, "an agent's start in ns/a"):
        words = r"still in use: a command in ns/b for 0 s, an agent's start in ns/a for 0 s"
        with pytest.raises(ProbeBroken, match=words):
            slots.wait("powershell-w1", 2, within=0.05)
    held.release()


def test_another_process_counts_and_its_death_gives_the_slot_back(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from conformance.probe.slots import Slots;"
        "held = Slots(Path(sys.argv[1])).take('agent', 1); print(bool(held), flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(LIB)},
    )  # fmt: skip
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"True\n"
        assert Slots(tmp_path).take("agent", 1) is None
        child.kill()
        child.wait(5)
        assert Slots(tmp_path).take("agent", 1) is not None


def test_a_slot_is_wanted_while_somebody_waits_for_it(tmp_path: Path) -> None:
    slots, seen = Slots(tmp_path), list[bool]()
    with slots.hold("agent", 1, 1.0):
        assert not slots.wanted("agent")
        with pytest.raises(ProbeBroken, match="no slot agent became free within 0 s"):
            slots.wait(
                "agent", 1, 0.2, meanwhile=lambda: seen.append(Slots(tmp_path).wanted("agent"))
            )
    assert seen
    assert all(seen)
    assert not slots.wanted("agent")
