"""What several processes of a run do once."""

from __future__ import annotations

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
