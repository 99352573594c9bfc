"""What a run leaves on a cluster."""

from __future__ import annotations

import pytest

from conformance.run.choice import Choice
from conformance.run.run import Run
from conformance.settings import Settings


@pytest.mark.parametrize(
    ("how", "keep", "stays"),
    [("lab", False, True), ("kubeconfig", True, True), ("kubeconfig", False, False), ("in-cluster", False, False)],
)
def test_what_a_run_made_is_removed_but_where_it_is_kept_or_goes_with_the_runs_own_lab(
    how: str, keep: bool, stays: bool
) -> None:
    run = Run(choice=Choice(how=how, why="by the test"), settings=Settings(keep=keep), directory=None)  # type: ignore[arg-type]
    assert run.stays is stays
