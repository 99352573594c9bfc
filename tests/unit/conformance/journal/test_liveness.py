# SPDX-License-Identifier: Apache-2.0
"""Whether a run is alive is proved by its lock file on this machine; it is never assumed, and
never read from a clock."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from conformance.journal import liveness
from conformance.journal.liveness import Life
from conformance.kube.ownership import PROCESS_ANNOTATION
from conformance.run.directory import RunDirectory


def made_by(value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {PROCESS_ANNOTATION: value}}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The lock file of a run."""
    run, _ = RunDirectory.create(tmp_path)
    run.alive.touch()
    return run.alive


def test_a_held_lock_file_is_life_and_a_free_one_is_death(path: Path) -> None:
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert liveness.process(liveness.sign(path)) is Life.ALIVE
    assert liveness.process(liveness.sign(path)) is Life.DEAD


def test_another_machine_or_a_removed_file_proves_nothing(path: Path) -> None:
    assert liveness.process(f"other-boot:{path}") is Life.UNKNOWN
    path.unlink()
    assert liveness.process(liveness.sign(path)) is Life.UNKNOWN
    assert liveness.process("") is Life.UNKNOWN


def test_what_a_run_made_tells_of_it_and_life_outweighs_death(path: Path, tmp_path: Path) -> None:
    other, _ = RunDirectory.create(tmp_path / "other")
    unknown, dead, living = (
        made_by("other-boot:x"),
        made_by(liveness.sign(path)),
        made_by(liveness.sign(other.alive)),
    )
    with other.alive.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert liveness.of([unknown, dead, living]) is Life.ALIVE
    assert liveness.of([unknown, dead]) is Life.DEAD
    assert liveness.of([unknown]) is liveness.of([]) is Life.UNKNOWN


def test_no_other_file_of_this_machine_is_opened(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "alive"
    elsewhere.touch()
    run = path.parent
    through = f"{run}/../.run/alive"
    opened: list[Any] = []
    real = os.open

    def seen(name: Any, *more: Any, **words: Any) -> int:
        opened.append(name)
        return real(name, *more, **words)

    monkeypatch.setattr(os, "open", seen)
    others = (
        elsewhere,
        run / "epoch",
        "/etc/shadow",
        "/dev/null",
        through,
        f"{path}\n",
        "alive",
        f"/{path}/../x",
    )
    for other in others:
        assert liveness.process(f"{liveness.sign(Path())[:36]}:{other}") is Life.UNKNOWN, other
    assert opened == []


def test_a_folder_that_is_a_link_is_not_followed_and_ones_own_path_is_signed_without_links(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, run = path.parent.parent.parent, path.parent.parent
    (tmp_path / "link").symlink_to(reports)
    linked = tmp_path / "link" / run.name / ".run" / "alive"
    assert liveness.process(liveness.sign(linked)) is Life.DEAD
    boot = liveness.sign(path).partition(":")[0]
    assert liveness.process(f"{boot}:{path}") is Life.DEAD
    assert liveness.process(f"{boot}:{linked}") is Life.UNKNOWN
    assert liveness.process(f"{boot}:{run.parent}/x/../{run.name}/.run/alive") is Life.UNKNOWN
    monkeypatch.chdir(run)
    assert liveness.sign(Path(".run/alive")) == liveness.sign(path)


def test_a_link_or_a_pipe_in_the_place_of_the_lock_file_is_not_followed_and_not_waited_for(
    path: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.touch()
    path.unlink()
    path.symlink_to(target)
    boot = liveness.sign(target).partition(":")[0]
    assert liveness.process(f"{boot}:{path}") is Life.UNKNOWN
    path.unlink()
    os.mkfifo(path)
    assert liveness.process(liveness.sign(path)) is Life.UNKNOWN


RUN = "a1b2c3"


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({"holderIdentity": RUN}, True),
        ({"holderIdentity": f"host/{RUN}"}, True),
        ({"holderIdentity": f"host,{RUN} of somebody"}, True),
        ({"holderIdentity": f"{RUN}4"}, False),
        ({"holderIdentity": "another"}, False),
        ({"holderIdentity": None}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_run_holds_a_lease_whose_holder_has_its_id_as_a_word(spec: Any, held: bool) -> None:
    assert liveness.holds({"spec": spec}, RUN) is held


def test_a_lease_without_a_spec_is_held_by_none() -> None:
    assert not liveness.holds({}, RUN)
