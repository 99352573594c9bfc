# SPDX-License-Identifier: Apache-2.0
"""What a run leaves on a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.errors import UsageProblem
from conformance.run.choice import Choice
from conformance.run.run import Run, check_selector
from conformance.settings import Settings
from tests.plugin.stand_in_cluster import facts, node


@pytest.mark.parametrize(
    ("how", "keep", "stays"),
    [
        ("lab", False, True),
        ("kubeconfig", True, True),
        ("kubeconfig", False, False),
        ("in-cluster", False, False),
    ],
)
def test_what_a_run_made_is_removed_but_where_it_is_kept_or_goes_with_the_runs_own_lab(
    how: str, keep: bool, stays: bool
) -> None:
    run = Run(
        choice=Choice(how=how, why="by the test"),  # type: ignore[arg-type]
        settings=Settings(keep=keep),
        directory=None,
    )
    assert run.stays is stays


def test_a_node_selector_that_no_node_has_is_refused_with_the_labels_that_there_are() -> None:
    labelled = replace(node("linux-1", "linux"), labels={"pool": "blue"})
    cluster = replace(facts(), nodes=(labelled, node("linux-2", "linux")))
    check_selector("pool=blue", cluster)
    check_selector("", cluster)
    with pytest.raises(
        UsageProblem,
        match="--node-selector pool=bleu: no node of this cluster has these labels; of ",
    ):
        check_selector("pool=bleu", cluster)
