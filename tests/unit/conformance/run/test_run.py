# SPDX-License-Identifier: Apache-2.0
"""What a run leaves on a cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.errors import UsageProblem
from conformance.report import provenance
from conformance.run.choice import Choice
from conformance.run.directory import RunDirectory
from conformance.run.run import Run, check_selector, check_timings
from conformance.settings import Settings, load_timings
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
        match="--node-selector pool=bleu: no node of this cluster has these labels; "
        "nodes have pool=blue with these keys",
    ):
        check_selector("pool=bleu", cluster)


@pytest.mark.parametrize("measured_on", ["lab", "field"])
def test_what_was_measured_on_emulated_nodes_does_not_time_a_run_on_real_ones(
    tmp_path: Path, measured_on: str
) -> None:
    kind = "calico-conformance calibration"
    document = {"kind": kind, "schema": 1, "evidence": measured_on, "measurements": []}
    (tmp_path / "calibration.json").write_text(json.dumps(document))
    timings = load_timings(tmp_path / "calibration.json")
    assert provenance.changed(timings) == {}, "a report names what was measured, and nothing was"
    check_timings(timings, replace(facts(), evidence="lab"))
    if measured_on == "field":
        check_timings(timings, replace(facts(), evidence="field"))
        return
    with pytest.raises(
        UsageProblem, match=r"--timings .*: these timings were measured on the emulated nodes"
    ):
        check_timings(timings, replace(facts(), evidence="field"))


def test_a_last_look_that_breaks_is_a_note_and_ends_no_run() -> None:
    class Broken:
        def last_look(self, *_: object) -> list[str]:
            raise KeyError("namespace")

    run = Run(
        choice=Choice(how="kubeconfig", why="by the test"), settings=Settings(), directory=None
    )
    run.provider, run.connection = Broken(), object()  # type: ignore[assignment]
    assert run.last_look(["w1"]) == [
        "last look at logs: the logs could not be read: KeyError: 'namespace'"
    ]


def test_a_folder_without_links_takes_the_results_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(self))

    monkeypatch.setattr(Path, "symlink_to", refuse)  # as SMB mounts answer
    directory, run_id = RunDirectory.create(tmp_path)
    directory.hold()
    assert [path.name for path in tmp_path.iterdir()] == [directory.path.name]
    assert directory.path.name.endswith(run_id)
    directory.discard()
    assert list(tmp_path.iterdir()) == []
