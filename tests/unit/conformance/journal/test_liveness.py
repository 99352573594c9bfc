"""Whether a run is alive: proved by its lock file on this machine; never assumed, and never read from a clock."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

from conformance.journal import liveness
from conformance.journal.liveness import Life
from conformance.kube.ownership import PROCESS_ANNOTATION


def made_by(value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {PROCESS_ANNOTATION: value}}}


def test_a_held_lock_file_is_life_and_a_free_one_is_death(tmp_path: Path) -> None:
    path = tmp_path / "alive"
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert liveness.process(liveness.sign(path)) is Life.ALIVE
    assert liveness.process(liveness.sign(path)) is Life.DEAD


def test_another_machine_or_a_removed_file_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "alive"
    path.touch()
    assert liveness.process(f"other-boot:{path}") is Life.UNKNOWN
    assert liveness.process(liveness.sign(tmp_path / "gone")) is Life.UNKNOWN
    assert liveness.process("") is Life.UNKNOWN


def test_what_a_run_made_tells_of_it_and_life_outweighs_death(tmp_path: Path) -> None:
    path, held = tmp_path / "dead", tmp_path / "held"
    path.touch()
    unknown, dead, living = made_by("other-boot:x"), made_by(liveness.sign(path)), made_by(liveness.sign(held))
    with held.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert liveness.of([unknown, dead, living]) is Life.ALIVE
    assert liveness.of([unknown, dead]) is Life.DEAD
    assert liveness.of([unknown]) is liveness.of([]) is Life.UNKNOWN
