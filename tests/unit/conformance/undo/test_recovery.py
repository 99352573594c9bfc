# SPDX-License-Identifier: Apache-2.0
"""Only changes of a dead run are restored; a run that may be alive is named and left alone."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.journal.liveness import Life
from conformance.journal.restore import Outcome, Restored
from conformance.settings import load_timings
from conformance.undo import recovery
from conformance.undo.leftovers import Leftovers
from conformance.undo.recovery import Recovered, Recovery

TIMINGS = load_timings()
OLD = TIMINGS.run.abandoned + 60.0
MARK: Any = (("a node", "mark"),)


def a_run(run: str, life: Life = Life.UNKNOWN, *, age: float = 60.0, **fields: Any) -> Leftovers:
    """The leftovers of a run that began so many seconds ago."""
    now = datetime.datetime.now(datetime.UTC)
    return Leftovers(run=run, life=life, since=now - datetime.timedelta(seconds=age), **fields)


class Watching(Recovery):
    """A recovery that watches no lease: a run is silent if its name says so."""

    watched: list[tuple[str, float]]

    def _is_silent(self, run: str, at_least: float) -> bool:
        self.watched.append((run, at_least))
        return run.startswith("silent")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return which of these runs are dead, the lines about the others, and which were watched."""

    def of(*left: Leftovers, holder: str = "", **which: str) -> Any:
        monkeypatch.setattr(recovery, "leftovers", lambda kube, now, prefix: list(left))
        monkeypatch.setattr(
            recovery, "held_by", lambda kube, run: {"held": run} if run == holder else None
        )
        watching = Watching(None, {}, TIMINGS, tell=lambda line: None)  # type: ignore[arg-type]
        watching.watched = []
        dead, lines = watching.dead(**which)
        return [each.run for each in dead], lines, watching.watched

    return of


ALIVE = "run {} is alive: nothing of it is touched"


@pytest.mark.parametrize(
    ("left", "dead", "line", "watched"),
    [
        pytest.param(a_run("a", Life.DEAD), True, "", False, id="dead on this machine"),
        pytest.param(a_run("a", Life.ALIVE, age=OLD), False, ALIVE, False, id="alive on it"),
        # the minutes are not compared: the run is made when tests are collected
        pytest.param(a_run("a"), False, "min ago on another machine", False, id="young"),
        pytest.param(a_run("a", age=OLD), False, ALIVE, True, id="old, and renews its lease"),
        pytest.param(a_run("silent", age=OLD), True, "", True, id="old, and does not"),
        pytest.param(a_run("silent", marks=MARK), True, "", True, id="young, with a change"),
        pytest.param(a_run("a", marks=MARK), False, ALIVE, True, id="with a change, renewing"),
        pytest.param(a_run("silent", refused=("x",)), True, "", True, id="with doubts alone"),
    ],
)  # fmt: skip
def test_a_run_is_dead_by_its_lock_file_or_by_its_silence(
    found: Any, left: Leftovers, dead: bool, line: str, watched: bool
) -> None:
    runs, lines, asked = found(left)
    assert runs == ([left.run] if dead else [])
    assert (line.format(left.run) in "".join(lines)) is bool(line) or not lines
    assert len(lines) == bool(line)
    assert asked == ([(left.run, 0.0)] if watched else [])


def test_the_own_run_is_no_leftover(found: Any) -> None:
    assert found(a_run("a", Life.DEAD), a_run("b", Life.DEAD), own="a")[0] == ["b"]


def test_a_named_run_is_watched_longer_and_alone(found: Any) -> None:
    left = (a_run("silent", age=OLD), a_run("b", Life.DEAD))
    assert found(*left, named="silent") == (["silent"], [], [("silent", TIMINGS.run.named_dead)])


def test_a_young_named_run_is_watched_only_if_it_holds_a_lock(found: Any) -> None:
    assert found(a_run("silent"), named="silent")[0] == []
    assert found(a_run("silent"), named="silent", holder="silent")[0] == ["silent"]


def test_a_name_of_no_run_is_refused_with_the_names_there_are(found: Any) -> None:
    with pytest.raises(UsageProblem, match=r"--run c: this run left nothing .*something: a, b"):
        found(a_run("a"), a_run("b"), named="c")
    with pytest.raises(UsageProblem, match="runs that left something: none"):
        found(named="c")


def restored(*outcomes: Outcome) -> Recovered:
    entry: Any = None
    return Recovered(restored=[Restored(entry, outcome, "a line") for outcome in outcomes])


@pytest.mark.parametrize(
    ("outcome", "changed", "acted", "whole"),
    [
        (Outcome.RESTORED, True, True, True),
        (Outcome.UNCHANGED, False, True, True),
        (Outcome.CONFLICT, False, True, False),
        (Outcome.FAILED, False, True, False),
        (Outcome.REFUSED, False, False, False),
    ],
)
def test_what_a_recovery_did_follows_from_its_entries(
    outcome: Outcome, changed: bool, acted: bool, whole: bool
) -> None:
    done = restored(outcome)
    assert (done.changed, done.acted, done.whole, done.anything) == (changed, acted, whole, True)


def test_what_is_left_or_unreadable_makes_a_recovery_incomplete() -> None:
    nothing = Recovered()
    assert (nothing.anything, nothing.whole, nothing.acted) == (False, True, False)
    assert (Recovered(lines=["x"]).anything, Recovered(lines=["x"]).whole) == (True, True)
    for some in (Recovered(left=["x"]), Recovered(unreadable=["x"])):
        assert (some.anything, some.whole) == (True, False)
    both = restored(Outcome.RESTORED, Outcome.FAILED)
    assert (both.changed, both.whole) == (True, False)
