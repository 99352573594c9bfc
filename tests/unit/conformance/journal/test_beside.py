# SPDX-License-Identifier: Apache-2.0
"""A part of a run does not begin beside another run on the same nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.journal import liveness
from conformance.journal.other_runs import beside
from conformance.kube.ownership import MANAGED_BY, PROCESS_ANNOTATION, RUN_LABEL
from conformance.run.directory import RunDirectory


class Kube:
    def __init__(self, *pods: Any) -> None:
        self.pods = pods

    def objects(self, api: str, kind: str, *, labels: str) -> list[Any]:
        assert labels == RUN_LABEL
        return list(self.pods)


def pod(run: str, node: str, process: str = "", **labels: str) -> dict[str, Any]:
    own = {RUN_LABEL: run, MANAGED_BY[0]: MANAGED_BY[1]}
    meta = {"labels": {**own, **labels}, "annotations": {PROCESS_ANNOTATION: process}}
    return {"metadata": meta, "spec": {"nodeName": node}}


def found(*pods: Any, nodes: tuple[str, ...] = ("w-1", "l-1")) -> list[str]:
    kube: Any = Kube(*pods)
    return beside(kube, "mine", nodes)


def test_a_run_on_the_same_nodes_is_named_with_them() -> None:
    (line,) = found(pod("other", "w-1"), pod("other", "w-2"), pod("other", "l-1"))
    assert line.startswith("run other has pods on l-1, w-1: let parts of a run follow one another")
    assert line.endswith("pytest --restore --run=other")


def test_other_nodes_own_pods_and_what_only_looks_like_a_run_are_no_hindrance() -> None:
    assert found(pod("other", "w-2"), pod("mine", "w-1")) == []
    assert found(pod("other", "w-1", **{MANAGED_BY[0]: "somebody"})) == []
    assert found({"metadata": {"labels": {RUN_LABEL: "x"}}, "spec": {}}) == []


def test_a_run_that_is_known_to_be_dead_is_no_hindrance(tmp_path: Path) -> None:
    directory, run = RunDirectory.create(tmp_path)
    directory.hold()
    signed = liveness.sign(directory.alive)
    assert len(found(pod(run, "w-1", signed))) == 1
    assert directory._held
    directory._held.close()
    assert found(pod(run, "w-1", signed)) == []
