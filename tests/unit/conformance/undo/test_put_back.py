# SPDX-License-Identifier: Apache-2.0
"""A worker's changes count as restored when none is left, no foreign value prevents it, and
traffic flows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import ClusterUnusable, EnvironmentBroken
from conformance.journal import Entry, Outcome, Restored
from conformance.journal.fields import touched
from conformance.journal.liveness import Life
from conformance.model.change import ObjectRef
from conformance.settings import Settings, load_timings
from conformance.undo import dead_runs
from conformance.undo.leftovers import Leftovers
from conformance.undo.recovery import Recovered

NODE = ObjectRef(api_version="v1", kind="Node", name="w1")
FIELDS = touched({}, {"spec": {"unschedulable": True}})
ENTRY = Entry(
    key="1-gw0", run="r", act="patch", why="", worker="gw0", target=NODE, uid="u", fields=FIELDS
)
FORGED = replace(ENTRY, target=replace(NODE, kind="Namespace"))
CUT_OFF = "not every pod reaches every other pod: a does not reach b"


@pytest.mark.parametrize(
    ("worker", "outcome", "traffic", "problem"),
    [
        ("gw0", Outcome.RESTORED, "", ""),
        ("gw0", Outcome.UNCHANGED, CUT_OFF, ""),
        ("gw0", Outcome.RESTORED, CUT_OFF, CUT_OFF),
        ("gw0", Outcome.RESTORED, EnvironmentBroken("no pod"), "it is not known whether pods reach each other: no pod"),
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


class BeforeARun:
    """A cluster on which a run died, and a run that begins there."""

    def __init__(self, *dead: Any, **settings: Any) -> None:
        self.dead = list(dead)
        self.settings = Settings(timings=load_timings(), **settings)
        self.recovered = Recovered()
        self.cut_off = ""
        self.locked: list[str] = []
        self.taken: Exception | None = None
        self.asked = 0
        self.told: list[str] = []
        self.kube = None
        self.life = None

    def recover(self, dead: Any, check: Any) -> Recovered:
        assert self.locked == ["acquire"]
        return self.recovered

    def acquire(self) -> None:
        self.locked.append("acquire")
        if self.taken:
            raise self.taken

    def connectivity_problem(self, *_: Any, **__: Any) -> str:
        self.asked += 1
        return self.cut_off

    def begins(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Return why the run cannot begin."""
        lock = SimpleNamespace(
            acquire=self.acquire, release=lambda: self.locked.append("release"), check=None
        )
        stand_ins = {
            "recovery_of": lambda *_: self,
            "_unrestored": lambda *_: self.dead,
            "RunLock": lambda *_, **__: lock,
            "detect": lambda *_, **__: None,
            "connectivity_problem": self.connectivity_problem,
        }
        for name, one in stand_ins.items():
            monkeypatch.setattr(dead_runs, name, one)
        kube: Any = None
        return dead_runs.before_a_run(
            kube, kube, self.settings, process="", named_by=("--lab=small",), tell=self.told.append
        )


LEFT: Any = Leftovers(run="old", life=Life.DEAD, since=datetime(2026, 3, 1, 7, 5), entries=(ENTRY,))
WHO = "run old, begun 2026-03-01 07:05 UTC, died"
PUT_BACK = "pytest --lab=small --restore"


@pytest.mark.parametrize(
    ("outcome", "asks"),
    [(Outcome.RESTORED, True), (Outcome.UNCHANGED, False), (Outcome.REFUSED, False)],
)
def test_traffic_is_asked_for_once_something_outside_the_runs_namespaces_was_restored(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome, asks: bool
) -> None:
    there = BeforeARun(LEFT, disruptive=True)
    there.cut_off = CUT_OFF
    there.recovered = Recovered(restored=[Restored(ENTRY, outcome, "the VNI")])
    left = f"leftovers of a dead run are not cleared up: {CUT_OFF} (to clear up: {PUT_BACK})"
    assert there.begins(monkeypatch) == ([left] if asks else [])
    assert (there.asked, there.told) == ((1, [CUT_OFF]) if asks else (0, []))
    assert there.locked == ["acquire", "release"]


def test_each_leftover_that_stays_is_a_reason_once(monkeypatch: pytest.MonkeyPatch) -> None:
    there = BeforeARun(LEFT, disruptive=True)
    failed = Restored(ENTRY, Outcome.FAILED, "the VNI")
    there.recovered = Recovered(restored=[failed, failed], left=["node w1 is cordoned"])
    assert there.begins(monkeypatch) == [
        f"leftovers of a dead run are not cleared up: {line} (to clear up: {PUT_BACK})"
        for line in ("not restored: the VNI", "node w1 is cordoned")
    ]


def test_a_lock_that_is_not_granted_ends_the_run_and_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = BeforeARun(LEFT, disruptive=True)
    there.taken = ClusterUnusable(["run r2 disrupts", "for 3 min"])
    assert there.begins(monkeypatch) == ["run r2 disrupts", "for 3 min"]
    assert there.locked == ["acquire", "release"]


@pytest.mark.parametrize(
    ("settings", "dead", "reasons", "told"),
    [
        pytest.param({"disruptive": True}, [], [], [], id="nothing is left"),
        pytest.param(
            {},
            [LEFT],
            [
                f"{WHO} and left 1 change of the cluster ({ENTRY.label}); restore the cluster "
                "first: "
                f"{PUT_BACK}  (a run with --allow-disruptive does so by itself)"
            ],
            [],
            id="a run that may not disrupt",
        ),
        pytest.param(
            {},
            [replace(LEFT, entries=(), marks=((NODE, "m-gw0"),))],
            [f"{WHO} and left its mark on Node w1 (v1), which it may have changed: {PUT_BACK}"],
            [],
            id="only a mark is left",
        ),
        pytest.param(
            {"disruptive": True, "dry_run": True},
            [LEFT],
            [],
            [
                f"leftovers: {WHO}; "
                "a run with --allow-disruptive puts the following back before its first test:",
                f"  run old: to put back: {ENTRY.label}",
            ],
            id="a dry run",
        ),
        pytest.param({"plan": True}, [], [], [], id="a plan"),
    ],
)
def test_only_a_run_that_may_disrupt_takes_the_lock(
    *,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, bool],
    dead: list[Leftovers],
    reasons: list[str],
    told: list[str],
) -> None:
    there = BeforeARun(*dead, **settings)
    assert (there.begins(monkeypatch), there.told, there.locked) == (reasons, told, [])


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (Recovered(), ""),
        (Recovered(lines=["a", "b"]), "2 leftovers removed"),
        (Recovered(lines=["a"], left=["b"]), "1 leftover removed, 1 left to do"),
        (
            Recovered(
                restored=[
                    Restored(ENTRY, outcome, "")
                    for outcome in (Outcome.RESTORED, Outcome.FAILED, Outcome.RESTORED)
                ]
            ),
            "2 restored, 1 not restored",
        ),
    ],
)
def test_a_recovery_is_summed_up_in_a_line(result: Recovered, line: str) -> None:
    assert dead_runs.summary(result) == line


@pytest.mark.parametrize(
    ("result", "problem", "named_lives", "code", "printed"),
    [
        (Recovered(), "", False, 0, "nothing was left by dead runs\n"),
        (Recovered(), "", True, 6, "nothing was touched\n"),
        (Recovered(lines=["a"]), "", False, 0, "1 leftover removed\n"),
        (Recovered(left=["a"]), "", False, 6, "1 left to do\n"),
        (
            Recovered(restored=[Restored(ENTRY, Outcome.RESTORED, "")]),
            "",
            False,
            0,
            "pods of both operating systems reach each other in all directions\n1 restored\n",
        ),
        (
            Recovered(restored=[Restored(ENTRY, Outcome.RESTORED, "")]),
            CUT_OFF,
            False,
            6,
            f"{CUT_OFF}\n1 restored, 1 left to do\n",
        ),
    ],
)
def test_a_recovery_by_command_ends_with_zero_only_if_nothing_is_left(
    *,
    result: Recovered,
    problem: str,
    named_lives: bool,
    code: int,
    printed: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = replace(result, left=[*result.left])
    assert dead_runs._report(result, problem, named_lives=named_lives) == code
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, []),
        (
            {"entries": (ENTRY, replace(ENTRY, why="later"))},
            [f"to put back: {replace(ENTRY, why='later').label}", f"to put back: {ENTRY.label}"],
        ),
        ({"nodes": ("w1",)}, ["node w1 is cordoned"]),
        ({"marks": ((NODE, "m-gw0"),)}, ["mark m-gw0 on Node w1 (v1)"]),
        ({"refused": ("forged",)}, ["refused: forged"]),
        ({"unreadable": ("7",)}, ["its journal: 7"]),
        ({"journal": True}, ["its journal, which lists nothing more to put back"]),
        ({"journal": True, "unreadable": ("7",)}, ["its journal: 7"]),
    ],
)
def test_what_a_dead_run_left_is_listed_the_newest_change_first(
    fields: dict[str, Any], lines: list[str]
) -> None:
    left = Leftovers(run="old", life=Life.DEAD, since=datetime(2026, 3, 1, 7, 5), **fields)
    assert left.lines() == [f"run old: {line}" for line in lines]


@pytest.mark.parametrize(
    ("fields", "shared", "changed", "only_doubts"),
    [
        ({}, False, False, False),
        ({"entries": (ENTRY,)}, True, True, False),
        ({"marks": ((NODE, "m"),)}, True, True, False),
        ({"journal": True}, True, False, False),
        ({"nodes": ("w1",)}, True, False, False),
        ({"leases": (NODE,)}, True, False, False),
        ({"objects": (NODE,)}, False, False, False),
        ({"refused": ("x",), "journal": True}, True, False, True),
        ({"refused": ("x",), "objects": (NODE,)}, False, False, False),
        ({"unreadable": ("x",), "entries": (ENTRY,)}, True, True, False),
    ],
)
def test_what_other_runs_share_needs_the_lock_and_doubts_alone_may_be_nobody_s(
    fields: dict[str, Any], shared: bool, changed: bool, only_doubts: bool
) -> None:
    left = Leftovers(run="old", life=Life.DEAD, since=datetime(2026, 3, 1, 7, 5), **fields)
    assert (left.shared, left.changed, left.only_doubts) == (shared, changed, only_doubts)
