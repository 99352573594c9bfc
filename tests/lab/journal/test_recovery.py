# SPDX-License-Identifier: Apache-2.0
"""The process that holds the run lock restores the changes of dead runs; otherwise no run
begins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.procedure import HNS_NETWORK
from conformance.errors import UsageProblem
from conformance.facts.detect import detect
from conformance.journal import Journal, Journalled, lease, liveness
from conformance.journal.lease import RunLock
from conformance.journal.liveness import Life
from conformance.journal.record import Entry
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import PROCESS_ANNOTATION, Ownership
from conformance.model.change import ObjectRef
from conformance.plugin import recover
from conformance.run.directory import RunDirectory
from conformance.settings import Settings, load_timings
from conformance.undo import dead_runs, healers
from conformance.undo.recovery import Recovery
from tests.lab.journal.locks import lock_timings

pytestmark = pytest.mark.usefixtures("more_rows")
FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
OTHER = Ownership("other")
SHORT = lock_timings(stale=1.0, wait=10.0, poll_every=0.05)
USUAL = load_timings()
TIMINGS = replace(
    USUAL,
    windows=replace(USUAL.windows, delete=10.0),
    run=replace(USUAL.run, journal=5.0, abandoned=3600.0, named_dead=1.5, lock_poll=0.05),
)


@pytest.fixture
def other(kube: Kube) -> Iterator[RunLock]:
    """The run lock of a run of another machine that has changed something."""
    lock = RunLock(kube, OTHER, SHORT, tell=print)
    lock.acquire()
    journal = Journal(kube, OTHER, within=5.0)
    change = Journalled(Changes(kube, OTHER), journal, {}, lambda: None)
    change.patch(FELIX, {"spec": {"logSeverityScreen": "Debug"}}, "a test")
    yield lock
    change.restore()
    journal.remove()
    lock.release()


def silence(lock: RunLock) -> None:
    """As a run that was killed: it renews nothing, and gives nothing back."""
    lock._stop.set()
    lock._mine = None


def severity(kube: Kube) -> Any:
    return kube.get(FELIX.api_version, FELIX.kind, FELIX.name)["spec"].get("logSeverityScreen")


@pytest.fixture
def begin(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return the reason why a run that may disrupt does not begin."""
    monkeypatch.setattr(
        dead_runs,
        "connectivity_problem",
        lambda *_, **__: "not every pod reaches every other pod: one",
    )

    def begin(wait: float = 10.0) -> list[str]:
        timings = load_timings(lab=True)
        timings = replace(
            timings, run=replace(timings.run, lock_wait=wait, lock_stale=1.0, lock_poll=0.05)
        )
        settings = Settings(timings=timings, disruptive=True, run_id="later")
        facts = detect(kube, evidence="lab")
        return dead_runs.before_a_run(
            kube, facts, settings, process="", named_by=["--kubeconfig=k"], tell=print
        )

    return begin


def test_who_renews_its_lock_is_alive_whatever_its_clock_says(
    kube: Kube, other: RunLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals = itertools.count()
    monkeypatch.setattr(lease, "_now", lambda: f"2020-01-01T00:00:00.{next(renewals):06}Z")
    other.renew()
    dead, lines = Recovery(kube, {}, TIMINGS, tell=print).dead()
    assert dead == []
    assert lines == ["run other is alive: nothing of it is touched"]


def test_who_does_not_renew_it_while_one_watches_is_dead(kube: Kube, other: RunLock) -> None:
    silence(other)
    told: list[str] = []
    recovery = Recovery(kube, {}, TIMINGS, tell=told.append)
    dead, lines = recovery.dead()
    assert ([leftovers.run for leftovers in dead], lines) == (["other"], [])
    assert told == [
        "run other was started on another machine: watching for 1 s whether that run renews its "
        "run lock"
    ]
    lock = RunLock(
        kube, Ownership("later"), replace(SHORT, lock_wait=0.0), tell=print, life=recovery.life
    )
    lock.acquire()  # at once: it was watched already
    lock.release()


@pytest.fixture
def left(kube: Kube) -> Iterator[ObjectRef]:
    """A namespace of a run of another machine."""
    target = ObjectRef(api_version="v1", kind="Namespace", name="calico-demo-other-main")
    Changes(kube, OTHER).namespace(target.name, why="a test")
    yield target
    Changes(kube, OTHER).delete_and_wait(target, "a test", within=10.0)


@pytest.mark.usefixtures("left")
def test_a_named_run_that_left_nothing_changed_is_dead_once_its_lock_was_watched(
    kube: Kube,
) -> None:
    lock = RunLock(kube, OTHER, SHORT, tell=print)
    lock.acquire()
    told: list[str] = []
    recovery = Recovery(kube, {}, TIMINGS, tell=told.append)
    young = "on another machine, and whether it has ended is not known: nothing of it is touched until the run is 1 h old"
    assert (recovery.dead()[0], young in recovery.dead()[1][0]) == ([], True)
    assert recovery.dead(named="other") == ([], ["run other is alive: nothing of it is touched"])
    silence(lock)
    assert [leftovers.run for leftovers in recovery.dead(named="other")[0]] == ["other"]
    assert (
        told[-1]
        == "run other was started on another machine: watching for 1.5 s whether that run renews "
        "its run lock"
    )
    taken = RunLock(kube, Ownership("later"), SHORT, tell=print, life=recovery.life)
    taken.acquire()
    again, _ = recovery.dead(own="later", named="other")
    assert [leftovers.run for leftovers in again] == ["other"]  # its lock is another's by now
    taken.release()


@pytest.mark.usefixtures("left")
def test_a_named_run_without_a_lock_is_named_and_left_alone_until_it_is_old(kube: Kube) -> None:
    recovery = Recovery(kube, {}, TIMINGS, tell=print)
    dead, (line,) = recovery.dead(named="other")
    assert dead == []
    assert line.startswith(
        "run other began 0 min ago on another machine, and whether it has ended is not known"
    )
    old = Recovery(kube, {}, replace(TIMINGS, run=replace(TIMINGS.run, abandoned=-1.0)), tell=print)
    assert [leftovers.run for leftovers in old.dead(named="other")[0]] == ["other"]
    with pytest.raises(UsageProblem, match=r"--run othre: .*; runs that left something: other"):
        recovery.dead(named="othre")


@pytest.mark.parametrize("says", ["nothing", "that it is dead"])
def test_a_forged_journal_makes_no_run_dead(
    kube: Kube, left: ObjectRef, tmp_path: Path, says: str
) -> None:
    free, _ = RunDirectory.create(tmp_path)
    free.alive.touch()
    forger = Ownership("other", process=liveness.sign(free.alive) if says != "nothing" else "")
    Changes(kube, OTHER).patch(
        left, {"metadata": {"annotations": {PROCESS_ANNOTATION: "boot:/of/another/machine"}}}, ""
    )
    journal = Journal(kube, forger, within=5.0)
    journal.write(Entry(key="1", run="other", act="patch", why="x", target=left))
    try:
        dead, lines = Recovery(kube, {}, TIMINGS, tell=print).dead()
    finally:
        Changes(kube, forger).delete(journal.ref, "a test", foreign=True)
    assert dead == []
    assert lines[0].startswith(
        "run other: refused: patch Namespace calico-demo-other-main (v1): x: this suite makes no"
    )
    assert lines[1].startswith(
        "run other began 0 min ago on another machine, and whether it has ended is not known"
    )


def test_marks_that_no_journal_speaks_of_are_taken_away_or_named(kube: Kube) -> None:
    """Of a node at once: its procedure had not begun, or was over.  Elsewhere somebody has to look."""
    node = ObjectRef(
        api_version="v1", kind="Node", name=kube.objects("v1", "Node")[0]["metadata"]["name"]
    )
    name = "calico-conformance/change-1-gw0"
    for target in (node, FELIX):
        Changes(kube, OTHER).patch(
            target, {"metadata": {"annotations": {name: "other 0"}}}, "a test", foreign=True
        )
    recovery = Recovery(kube, {}, TIMINGS, tell=print)
    (dead,), _ = recovery.dead()
    assert (dead.run, dead.changed) == ("other", True)
    result = recovery.recover([dead])
    assert result.lines == [
        f"{node.label} bears mark {name} of run other, whose change is over: the mark is removed"
    ]
    (line,) = result.left
    assert line.endswith(f"kubectl annotate felixconfiguration default {name}-")
    assert not result.whole
    Changes(kube, OTHER).patch(
        FELIX, {"metadata": {"annotations": {name: None}}}, "a test", foreign=True
    )
    assert recovery.dead() == ([], [])


def test_only_the_named_run_is_looked_at(kube: Kube, other: RunLock) -> None:
    silence(other)
    third = Ownership("third")
    target = ObjectRef(api_version="v1", kind="Namespace", name="calico-demo-third-main")
    Changes(kube, third).namespace(target.name, why="a test")
    dead, lines = Recovery(kube, {}, TIMINGS, tell=print).dead(named="third")
    Changes(kube, third).delete_and_wait(target, "a test", within=10.0)
    assert (dead, len(lines)) == ([], 1)


def test_a_run_whose_predecessor_cannot_be_put_back_wholly_does_not_begin(
    kube: Kube, other: RunLock, begin: Callable[..., list[str]]
) -> None:
    before = severity(kube)
    silence(other)
    (reason,) = begin()
    assert (before, severity(kube)) == ("Debug", "Info")
    assert reason == (
        "leftovers of a dead run are not cleared up: not every pod reaches every other pod: one "
        "(to clear up: pytest --kubeconfig=k --restore)"
    )
    assert (
        kube.find("coordination.k8s.io/v1", "Lease", "run-lock", "calico-conformance-system")
        is None
    )


def test_two_do_not_put_back_at_once(
    kube: Kube, other: RunLock, begin: Callable[..., list[str]]
) -> None:
    silence(other)
    healer = RunLock(kube, Ownership("healer"), SHORT, tell=print, life=lambda lease: Life.DEAD)
    healer.acquire()
    (reason,) = begin(wait=1.5)
    assert reason.startswith("run healer of ")
    assert severity(kube) == "Debug"
    healer.release()


def test_what_a_healer_makes_says_whose_process_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Seen(Exception): ...

    def pods(kube: Any, changes: Changes, *_: Any) -> None:
        raise Seen(changes.run.process)

    facts = SimpleNamespace(nodes=[SimpleNamespace(name="win-1")])
    monkeypatch.setattr(healers, "Pods", pods)
    changes = Changes(None, Ownership("r", process="boot:/file"))  # type: ignore[arg-type]
    name = HNS_NETWORK.name
    heal = healers.healers_of(changes, facts, Settings())[name]  # type: ignore[arg-type]
    with pytest.raises(Seen, match=r"^boot:/file$"):
        heal("dead", {"node": "win-1"})


def test_a_restoring_process_can_be_told_dead_by_what_it_made() -> None:
    with recover._signature() as process:
        assert liveness.process(process) is Life.ALIVE
    assert not Path(process.partition(":")[2]).exists()
