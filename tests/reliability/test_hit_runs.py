# SPDX-License-Identifier: Apache-2.0
"""A killed run counts only if it was hit, a hang counts as something left behind, and seconds
are those of real restoring."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.reliability import bystander, hit_run, kills, snapshot
from tests.reliability.bystander import Bystander
from tests.reliability.hit_run import ENDED, NO_DRAIN, NO_WORKER, Harness, Point, Strike, Victim
from tests.reliability.kills import TRIES, Kill, known, one_point, pending, summary
from tests.reliability.snapshot import Snapshot
from tests.reliability.source import ROOT, source

NOTHING = Snapshot(objects={}, pods=Counter(), problems=(), ours=())
SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]
HAS_A_CHILD = [sys.executable, "-c", f"import subprocess; subprocess.run({SLEEPS!r})"]


@dataclass
class Played:
    """A harness without a lab: its run is a process that sleeps."""

    strike: Strike
    restored: tuple[int, str, float] = (0, "", 1.0)
    bystander: None = None

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(SLEEPS)

    def hit(self, point: Point, run: subprocess.Popen[bytes]) -> Strike:
        return self.strike

    def open_entries(self) -> int:
        return 1

    def keys_left(self) -> int:
        return 0

    def restore(self) -> tuple[int, str, float]:
        return self.restored

    def left(self, before: Snapshot, *, seen_whole: bool = False) -> list[str]:
        return []


class Idle(Harness):
    """A harness of which every command sleeps."""

    def command(self, *arguments: str) -> list[str]:
        return SLEEPS


def idle() -> Harness:
    return Idle(None, None, Path(), Path.cwd(), (), 0.0)  # type: ignore[arg-type]


def point(victim: Victim = "controller", *, changed: bool = True) -> Point:
    return Point(number=0, victim=victim, changed=changed, after=4.0)


def kill(number: int = 0, victim: Victim = "all", **more: Any) -> Kill:
    plain = {"source": "abc", "bystander": "plain", "changed": True, "after": 4.0, "exit_code": 0}
    return Kill(number=number, victim=victim, **{**plain, **more})


# --- what hangs -------------------------------------------------------------------------------------------------------


def test_a_run_that_hangs_is_something_left_behind() -> None:
    found = one_point(Played(Strike(problem=("the run hung",))), point(), NOTHING)  # type: ignore[arg-type]
    assert found.left == ("the run hung",)
    assert found.failed


def test_a_restore_that_hangs_is_something_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hit_run, "RUN_WITHIN", 0.1)
    restored = idle().restore()
    assert restored[:2] == (-1, "hung: it had not ended after 0.1 s")
    found = one_point(Played(Strike(), restored), point(), NOTHING)  # type: ignore[arg-type]
    assert found.left == ("--restore said: hung: it had not ended after 0.1 s",)


def test_processes_that_outlive_their_run_are_said_and_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hit_run, "RUN_WITHIN", 0.1)
    run = subprocess.Popen(HAS_A_CHILD)
    while len(members := hit_run._members(run.pid)) < 2:
        pass
    run.kill()
    assert ["outlived it" in line for line in hit_run._ended(run, members)] == [True]
    psutil.wait_procs(members)
    assert not any(member.is_running() for member in members)


def test_whatever_breaks_a_point_is_written_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> Kill:
        raise OSError("no route")

    monkeypatch.setattr(kills, "RUNS", tmp_path / "kills.jsonl")
    monkeypatch.setattr(kills, "one_point", broken)
    kills.take([point()], Played(Strike()), NOTHING, threading.Event())  # type: ignore[arg-type]
    assert [item.left for item in known(tmp_path / "kills.jsonl")] == [
        ("broke: OSError: no route",)
    ]


# --- what hits nothing ------------------------------------------------------------------------------------------------


def test_a_run_that_has_ended_is_not_hit() -> None:
    run = subprocess.Popen(["true"])
    run.wait()
    assert [
        idle()._strike(point(victim), run, []) for victim in ("controller", "worker", "all", "api")
    ] == [ENDED] * 4


def test_a_run_without_workers_is_not_hit_in_one() -> None:
    run = subprocess.Popen(SLEEPS)
    try:
        assert idle()._strike(point("worker"), run, hit_run._members(run.pid)) == NO_WORKER
    finally:
        hit_run.end_all(run)


def test_a_worker_of_a_run_is_found_and_killed(tmp_path: Path) -> None:
    (tmp_path / "test_waits.py").write_text(
        "import time\n\n\ndef test_waits():\n    time.sleep(60)\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "1",
        "-p",
        "no:cacheprovider",
        "-q",
        str(tmp_path),
    ]
    run = subprocess.Popen(
        command, cwd=tmp_path, env=hit_run.environment(tmp_path), stdout=subprocess.DEVNULL
    )
    try:
        while not (
            workers := [
                member for member in hit_run._members(run.pid) if hit_run._is_worker(member)
            ]
        ):
            assert run.poll() is None
        assert idle()._strike(point("worker"), run, workers) == ""
        assert psutil.wait_procs(workers)[1] == []
    finally:
        hit_run.end_all(run)


def test_a_point_that_hit_nothing_is_tried_at_another_moment_and_not_for_ever() -> None:
    started, changed = point("worker", changed=False), point()
    assert [item.after for item in pending([started], [kill(missed=NO_WORKER)])] == [5.0]
    assert [item.after for item in pending([changed], [kill(missed=ENDED)] * 2)] == [1.0]
    assert pending([changed], [kill(missed=ENDED)] * TRIES) == []
    assert pending([changed], [kill(missed=ENDED), kill()]) == []


def test_a_point_in_a_procedure_that_was_not_carried_out_so_often_is_tried_in_an_earlier_one() -> (
    None
):
    drained = Point(number=0, victim="all", changed=True, after=1.0, drained=3)
    missed = [kill(missed=NO_DRAIN)] * 2
    assert [(item.drained, item.after) for item in pending([drained], missed)] == [(1, 1.0)]


@pytest.mark.parametrize(("count", "draining"), [(50, 10), (33, 10), (20, 10), (6, 3), (1, 0)])
def test_beside_a_plain_bystander_ten_points_are_in_the_procedure_and_its_healer(
    count: int, draining: int
) -> None:
    found = kills.plan(count, 40.0, "plain")
    assert [item.number for item in found] == list(range(count))
    assert sum(item.drained > 0 for item in found) == draining
    assert {item.drained for item in found if item.drained} == set(
        range(1, min(draining, kills.DRAINS) + 1)
    )
    assert len({(item.drained, item.after) for item in found if item.drained}) == draining
    assert not any(item.drained for item in kills.plan(count, 40.0, "blanket"))


def test_what_a_run_is_at_is_known_by_its_entries_and_its_marks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def entry(procedure: str = "", kind: str = "") -> SimpleNamespace:
        return SimpleNamespace(
            open=True, procedure=procedure, target=SimpleNamespace(kind=kind) if kind else None
        )

    opened: list[SimpleNamespace] = []
    cordoned: set[str] = set()
    monkeypatch.setattr(hit_run, "journals", lambda kube: [None])
    monkeypatch.setattr(hit_run, "entries_of", lambda book: opened)
    monkeypatch.setattr(Idle, "_cordoned", lambda self: cordoned)
    assert idle().phase() == hit_run.UNTOUCHED
    opened.append(entry("felix-restart"))
    assert idle().phase() == hit_run.FELIX
    opened[:] = [entry("hns-network"), entry(kind="FelixConfiguration")]
    assert idle().phase() == hit_run.VNI
    cordoned.add("w1")
    assert idle().phase() == hit_run.HEALER
    opened.append(entry(kind="Node"))
    assert idle().phase() == hit_run.PROCEDURE


def test_a_bystander_without_traffic_is_something_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways = {"linux to windows by pod": True, "windows to linux by name": True}
    one = Bystander(None, "blanket", dict(ways), {"u1"})  # type: ignore[arg-type]
    monkeypatch.setattr(hit_run, "SETTLED_WITHIN", 0.0)
    monkeypatch.setattr(bystander, "WELL_WITHIN", 0.0)
    monkeypatch.setattr(snapshot, "take", lambda _: NOTHING)
    monkeypatch.setattr(Bystander, "ways", lambda self: ways | {"linux to windows by pod": False})
    monkeypatch.setattr(Bystander, "pods", lambda self: {"u2": "w1"})
    harness = Idle(None, None, Path(), Path.cwd(), (), 0.0, one)  # type: ignore[arg-type]
    assert harness.left(NOTHING, seen_whole=True) == [
        "bystander (blanket): 1 pods are not those of before",
        "bystander (blanket): no traffic linux to windows by pod",
    ]


def test_keys_that_killed_runs_leave_are_counted(tmp_path: Path) -> None:
    (tmp_path / "tmp" / "a").mkdir(parents=True)
    (tmp_path / "tmp" / "a" / "key").write_text("-----BEGIN RSA PRIVATE KEY-----")
    (tmp_path / "tmp" / "ca").write_text("-----BEGIN CERTIFICATE-----")
    assert Idle(None, None, tmp_path, Path.cwd(), (), 0.0).keys_left() == 1  # type: ignore[arg-type]


# --- what a signal ends -----------------------------------------------------------------------------------------------

MEASURES = """
import subprocess, sys, time
from tests.reliability import clean_runs, ending
ending.end_on_sigterm()
with ending.scratch("measures-") as folder, clean_runs.load(2):
    run = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    print(folder, flush=True)
    time.sleep(60)
"""


def sleeping(started: Sequence[psutil.Process]) -> psutil.Process:
    """Return the process that stands for a run, once it has become the program that it is to be."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = [one for one in started if "time.sleep" in " ".join(one.cmdline())]
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"none of these sleeps: {[one.cmdline() for one in started]}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_no_process_that_computes_behind(
    number: signal.Signals, tmp_path: Path
) -> None:
    environment = {**hit_run.environment(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'lib'}"}
    measure = subprocess.Popen(
        [sys.executable, "-c", MEASURES],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert measure.stdout
    folder = Path(measure.stdout.readline().strip())
    assert folder.parent == tmp_path
    started = psutil.Process(measure.pid).children(recursive=True)
    assert len(started) == 3
    run = sleeping(started)
    measure.send_signal(number)
    assert measure.wait(30) == (143 if number is signal.SIGTERM else -9)
    measure.stdout.close()
    if number is signal.SIGKILL:  # nobody is left who could end the run
        run.kill()
    assert psutil.wait_procs(started, 10)[1] == []
    assert folder.exists() == (number is signal.SIGKILL)


def test_a_try_of_which_nobody_knows_whether_it_hit_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "kills.jsonl"
    entry = asdict(kill(source=source()))
    path.write_text(
        json.dumps(entry)
        + "\n"
        + json.dumps({k: v for k, v in entry.items() if k != "missed"})
        + "\n"
    )
    assert len(known(path)) == 1


# --- what is said -----------------------------------------------------------------------------------------------------


def test_seconds_are_those_of_points_with_something_to_restore() -> None:
    some = [kill(0, seconds=1.0), kill(1, open_at_hit=2, open_entries=2, restored=2, seconds=5.0)]
    assert "| all processes, SIGKILL | 2 | 1 | 1 | 2 | 0 | 5.0 | 5.0 |" in summary(some)
    assert "| all processes, SIGKILL | 1 | 0 | 0 | 0 | 0 | - | - |" in summary(some[:1])


def test_what_was_not_hit_is_said_and_not_counted_but_what_it_left_is_listed() -> None:
    lines = summary(
        [kill(0), kill(1, missed=ENDED, left=("left over: a",)), kill(1), kill(2, missed=NO_WORKER)]
    )
    assert "| all processes, SIGKILL | 2 | 0 | 0 | 0 | 0 | - | - |" in lines
    assert "- point 1 (all, not hit: the run had ended): left over: a" in lines
    told = " ".join(lines)
    assert (
        "Not counted: 2 tries that hit nothing (the run had ended: 1, there was no worker: 1)."
        in told
    )
    assert "Points that no try hit: 1." in told


def test_every_point_is_taken_once_on_labs_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextlib.contextmanager
    def played(_: str, *, bystander: str) -> Iterator[Played]:
        yield Played(Strike())

    monkeypatch.setattr(kills, "RUNS", tmp_path / "kills.jsonl")
    monkeypatch.setattr(kills, "harness", played)
    monkeypatch.setattr(Played, "kube", None, raising=False)
    monkeypatch.setattr(snapshot, "take", lambda _: NOTHING)
    plan = kills.points(25, 10.0)
    kills.take_all(plan, "default", 3)
    assert sorted(item.number for item in known(tmp_path / "kills.jsonl")) == list(range(25))
