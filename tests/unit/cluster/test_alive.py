"""Whether a run is alive: proved by its lock file on this machine, by a fresh lease on any; never assumed."""

from __future__ import annotations

import datetime
import fcntl
from pathlib import Path
from typing import Any

from conformance.cluster import alive
from conformance.cluster.alive import Life
from conformance.kube.ownership import PROCESS_ANNOTATION

NOW = datetime.datetime(2026, 3, 1, 12, 0, 30, tzinfo=datetime.UTC)


def lease(holder: str, renewed: str = "2026-03-01T12:00:00.000000Z", seconds: int = 60) -> dict[str, Any]:
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": seconds}}


def made_by(value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {PROCESS_ANNOTATION: value}}}


def test_a_held_lock_file_is_life_and_a_free_one_is_death(tmp_path: Path) -> None:
    path = tmp_path / "alive"
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert alive.process(alive.sign(path)) is Life.ALIVE
    assert alive.process(alive.sign(path)) is Life.DEAD


def test_another_machine_or_a_removed_file_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "alive"
    path.touch()
    assert alive.process(f"other-boot:{path}") is Life.UNKNOWN
    assert alive.process(alive.sign(tmp_path / "gone")) is Life.UNKNOWN
    assert alive.process("") is Life.UNKNOWN


def test_a_fresh_lease_is_life_and_a_stale_or_foreign_one_is_nothing() -> None:
    assert alive.of("abc", [], [lease("abc user@host")], NOW) is Life.ALIVE
    assert alive.of("abc", [], [lease("abc user@host", seconds=10)], NOW) is Life.UNKNOWN
    assert alive.of("abc", [], [lease("abcd user@host")], NOW) is Life.UNKNOWN


def test_a_lease_that_was_fresh_when_its_run_was_killed_does_not_keep_the_run_alive(tmp_path: Path) -> None:
    path = tmp_path / "alive"
    path.touch()
    assert alive.of("abc", [made_by(alive.sign(path))], [lease("abc user@host")], NOW) is Life.DEAD
