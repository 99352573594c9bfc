# SPDX-License-Identifier: Apache-2.0
"""Labs of one user side by side: each keeps its directory."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from hybridlab.cluster import rundir
from hybridlab.cluster.exits import Stop


@pytest.fixture(autouse=True)
def own_base(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    short = tmp_path_factory.mktemp("r")  # a socket's name has to fit
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    return short


def test_a_new_lab_removes_what_dead_labs_left_and_nothing_else() -> None:
    alive, dead = rundir.create(), rundir.create()
    os.close(dead.lock)
    third = rundir.create()
    assert [path for path, _ in rundir.labs()] == sorted([alive.path, third.path])
    alive.remove()
    third.remove()
    assert rundir.labs() == []


def test_nobody_cleans_up_between_the_making_of_a_directory_and_its_locking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    mkdtemp = tempfile.mkdtemp

    def watched(*, prefix: str, dir: Path) -> str:
        made.append(mkdtemp(prefix=prefix, dir=dir))
        other = os.open(dir / "turn", os.O_RDWR)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(other)
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", watched)
    lab = rundir.create()
    assert made == [str(lab.path)]
    lab.remove()


def test_a_folder_with_too_long_a_name_is_refused_in_one_line_and_nothing_is_left(
    own_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = own_base / ("so-long-a-name" * 6)
    long.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with pytest.raises(
        Stop,
        match=r"hybridlab is too long a path for a socket: set TMPDIR to a shorter path$",
    ):
        rundir.create()
    assert rundir.labs() == []
