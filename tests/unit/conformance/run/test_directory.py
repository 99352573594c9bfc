# SPDX-License-Identifier: Apache-2.0
"""Work that several processes of a run share and that must be done only once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.errors import EnvironmentBroken
from conformance.run.directory import RunDirectory


def test_the_first_does_it_and_the_others_do_not(tmp_path: Path) -> None:
    run, _ = RunDirectory.create(tmp_path)
    done: list[str] = []
    run.once("prepull", lambda: done.append("first"))
    RunDirectory(run.path).once("prepull", lambda: done.append("second"))
    assert done == ["first"]


def test_a_failure_is_shared_and_not_repeated(tmp_path: Path) -> None:
    run, _ = RunDirectory.create(tmp_path)

    def fail() -> None:
        raise EnvironmentBroken("image x cannot be pulled")

    with pytest.raises(EnvironmentBroken):
        run.once("prepull", fail)
    with pytest.raises(EnvironmentBroken, match="image x cannot be pulled"):
        RunDirectory(run.path).once("prepull", lambda: pytest.fail("tried again"))


def test_several_processes_may_write_the_same_fact_at_once(tmp_path: Path) -> None:
    directory, _ = RunDirectory.create(tmp_path)
    children = []
    for worker in range(2):
        if not (child := os.fork()):
            try:
                for number in range(200):
                    directory.write_node_fact("update", "windows-1", [worker, number])
            except BaseException:
                os._exit(1)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert directory.read_node_facts("update")["windows-1"][1] == 199
