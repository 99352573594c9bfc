# SPDX-License-Identifier: Apache-2.0
"""A worker's changes count as restored when none is left, no foreign value prevents it, and
traffic flows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.journal import Entry, Outcome, Restored
from conformance.journal.fields import touched
from conformance.model.change import ObjectRef
from conformance.settings import Settings, load_timings
from conformance.undo import dead_runs
from conformance.undo.recovery import Recovered

NODE = ObjectRef(api_version="v1", kind="Node", name="w1")
FIELDS = touched({}, {"spec": {"unschedulable": True}})
ENTRY = Entry(
    key="1-gw0", run="r", act="patch", why="", worker="gw0", target=NODE, uid="u", fields=FIELDS
)
FORGED = replace(ENTRY, target=replace(NODE, kind="Namespace"))
CUT_OFF = "not every pod reaches every other: a does not reach b"


@pytest.mark.parametrize(
    ("worker", "outcome", "traffic", "problem"),
    [
        ("gw0", Outcome.RESTORED, "", ""),
        ("gw0", Outcome.UNCHANGED, CUT_OFF, ""),
        ("gw0", Outcome.RESTORED, CUT_OFF, CUT_OFF),
        ("gw0", Outcome.RESTORED, EnvironmentBroken("no pod"), "not known whether pods reach each other: no pod"),
        ("gw0", Outcome.CONFLICT, "", "conflict: the VNI"),
        ("gw0", Outcome.FAILED, "", "not restored: the VNI"),
        ("gw0", Outcome.REFUSED, "", "refused: the VNI"),
        ("", Outcome.RESTORED, CUT_OFF, ""),
        ("gw1", Outcome.FAILED, CUT_OFF, ""),
    ],
)  # fmt: skip
def test_whether_it_is_put_back(
    monkeypatch: pytest.MonkeyPatch, worker: str, outcome: Outcome, traffic: Any, problem: str
) -> None:
    def connectivity_problem(*_: Any, **__: Any) -> str:
        if isinstance(traffic, Exception):
            raise traffic
        return str(traffic)

    stand_ins = {
        "Journal": lambda *_, **__: SimpleNamespace(entries=lambda unreadable: [ENTRY]),
        "restore": lambda *_, only: [
            Restored(entry=entry, outcome=outcome, text="the VNI")
            for entry in filter(only, [ENTRY])
        ],
        "recovery_of": lambda *_: SimpleNamespace(take_marks=lambda *_: Recovered()),
        "detect": lambda *_, **__: None,
        "connectivity_problem": connectivity_problem,
    }
    for name, one in stand_ins.items():
        monkeypatch.setattr(dead_runs, name, one)
    kube: Any = None
    done = dead_runs.of_a_worker(kube, kube, Settings(timings=load_timings()), worker, process="")
    assert done.problem == problem
    how = (
        ["1 change of the cluster not put back; put back by: pytest --restore"]
        if outcome is Outcome.FAILED
        else []
    )
    told = [] if worker == "gw1" else [f"{outcome}: the VNI", *how]
    assert list(done.lines) == [*told, *({problem} - {"", *told})]


def test_an_entry_that_no_process_of_the_run_can_have_written_is_no_problem_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = [Restored(entry=FORGED, outcome=Outcome.REFUSED, text="labels")]
    monkeypatch.setattr(
        dead_runs, "Journal", lambda *_, **__: SimpleNamespace(entries=lambda unreadable: [FORGED])
    )
    monkeypatch.setattr(dead_runs, "restore", lambda *_, **__: done)
    recovery = SimpleNamespace(take_marks=lambda *_: Recovered())
    monkeypatch.setattr(dead_runs, "recovery_of", lambda *_: recovery)
    kube: Any = None
    told = dead_runs.of_a_worker(kube, kube, Settings(timings=load_timings()), "", process="")
    assert (told.lines, told.problem) == (("refused: labels",), "")
