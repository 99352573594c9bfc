"""Runs with disruptive tests that are killed at many points: ``pytest --restore`` must put everything back.

``python -m tests.reliability.kills --points 50``; what was interrupted goes on where it stopped.  At each point SIGKILL
hits the controller, one worker or all of them, or the API server cannot be reached for a while.  Afterwards the cluster
is compared with what it was before any run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import psutil

from conformance.cluster.detect import detect
from conformance.cluster.journal.book import entries_of, journals
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.plugin.whole import not_whole
from conformance.settings import Settings, load_timings
from tests.lab.lab_process import RunningLab, running_lab
from tests.reliability import snapshot
from tests.reliability.document import write
from tests.reliability.snapshot import Snapshot
from tests.reliability.source import ROOT, source

KEPT = ROOT / "reports" / "reliability"
RUNS = KEPT / "kills.jsonl"
SUITES = ("suites/vxlan/test_vni.py", "suites/resets/test_felix_restart.py")
"""Those that change the cluster: Felix is restarted; nodes get another VNI, are drained, lose their HNS network."""
TIMINGS = Path(__file__).with_name("timings.yaml")
PER_LAB = 10
"""Points after which a new lab is started; a point that leaves anything behind ends its lab at once."""
SETTLED_WITHIN = 60.0
"""Seconds; for controllers to make deleted pods anew."""
RUN_WITHIN = 300.0
"""Seconds; only a run that hangs is caught."""
UNREACHABLE = 20.0
"""Seconds without the API server."""
STARTING = 1 / 5
"""Share of points before the first change is journalled."""

WHOLE = "pods of both operating systems reach each other in all directions"
"""What --restore says when it has put something back and then looked."""

Victim = Literal["controller", "worker", "all", "api"]
VICTIMS: tuple[Victim, ...] = (
    "controller",
    "worker",
    "all",
    "all",
    "worker",
    "controller",
    "api",
    "controller",
    "all",
    "worker",
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """When a run is hit, and what."""

    number: int
    victim: Victim
    changed: bool
    """Counted from the first journalled change; else from the run's start."""
    after: float
    """Seconds."""


@dataclass(frozen=True, kw_only=True)
class Kill:
    """What came of one point."""

    number: int
    source: str
    victim: Victim
    changed: bool
    after: float
    open_at_hit: int
    """Changes that were journalled and not closed when it hit."""
    open_entries: int
    """Those that were still when the run had ended: a run of which something lives puts its own back."""
    restored: int
    """Lines of --restore that say that something was put back."""
    exit_code: int
    """Of --restore."""
    seconds: float
    """--restore took."""
    left: tuple[str, ...]
    """Differences to the state before, and what is wrong with the network."""


@dataclass(frozen=True)
class Bench:
    """One lab, and how suites are run on it."""

    lab: RunningLab
    kube: Kube
    folder: Path
    project: Path
    suites: tuple[str, ...]
    unreachable: float

    def command(self, *arguments: str) -> list[str]:
        """``pytest ...`` on the lab."""
        return [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"--kubeconfig={self.lab.kubeconfig}",
            f"--timings={TIMINGS}", f"--report-dir={self.folder / 'reports'}", *arguments,
        ]  # fmt: skip

    def start(self) -> subprocess.Popen[bytes]:
        """A run with two workers."""
        with (self.folder / "run.log").open("wb") as log:
            return subprocess.Popen(
                self.command(*self.suites, "-n", "2", "--allow-disruptive"),
                cwd=self.project, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def hit(self, point: Point, run: subprocess.Popen[bytes]) -> int:
        """Wait for the point, hit the victim, and wait until no process of the run is left.

        A point after the first change waits on until a change is open, so that there is something to lose; returns how
        many were open when it hit.
        """
        deadline = time.monotonic() + RUN_WITHIN
        while point.changed and not self.open_entries():
            if time.monotonic() > deadline or run.poll() is not None:
                raise RuntimeError(f"nothing was journalled: {(self.folder / 'run.log').read_text(errors='replace')}")
            time.sleep(0.05)
        time.sleep(point.after)
        while point.changed and not self.open_entries() and run.poll() is None:
            time.sleep(0.02)
        at_hit = self.open_entries()
        members = _members(run.pid)
        match point.victim:
            case "controller":
                run.kill()
            case "worker":
                workers = [one for one in members if one.pid != run.pid and _is_worker(one)]
                if workers:
                    workers[point.number % len(workers)].kill()
            case "all":
                for one in members:
                    _kill(one)
            case "api":
                self.lab.hybridlab(
                    "faults", "--kubeconfig", str(self.lab.kubeconfig), "inject", "api-unreachable",
                    f"seconds={self.unreachable}",
                )  # fmt: skip
                time.sleep(self.unreachable)
        run.wait(RUN_WITHIN)
        _, alive = psutil.wait_procs(members, RUN_WITHIN)
        if alive:
            raise RuntimeError(f"processes of the run outlived it: {alive}")
        return at_hit

    def open_entries(self) -> int:
        """How many changes are journalled and not closed."""
        return sum(entry.open for book in journals(self.kube) for entry in entries_of(book))

    def restore(self) -> tuple[int, str, float]:
        """``pytest --restore``: exit code, output, seconds."""
        begun = time.monotonic()
        done = subprocess.run(
            self.command("--restore"), cwd=self.project, env=environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=RUN_WITHIN, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr, time.monotonic() - begun

    def left(self, before: Snapshot, *, seen_whole: bool = False) -> list[str]:
        """What differs from before, once controllers have done their work; and whether pods reach each other."""
        deadline = time.monotonic() + SETTLED_WITHIN
        while (found := snapshot.differences(before, snapshot.take(self.kube))) and time.monotonic() < deadline:
            time.sleep(0.5)
        if seen_whole:
            return found
        timings = load_timings(TIMINGS)
        trouble = not_whole(self.kube, detect(self.kube, evidence="lab"), Settings(timings=timings, run_id="kills"))
        return found + ([trouble] if trouble else [])


def one_point(bench: Bench, point: Point, before: Snapshot) -> Kill:
    """Hit one run, restore, compare."""
    run = bench.start()
    try:
        at_hit = bench.hit(point, run)
    finally:
        for one in _members(run.pid):
            _kill(one)
        run.wait()
    entries = bench.open_entries()
    code, output, seconds = bench.restore()
    left = bench.left(before, seen_whole=WHOLE in output)
    if left or code:
        (bench.folder / "restore.log").write_text(output, encoding="utf-8")
        left += [f"--restore said: {line}" for line in output.splitlines()[-6:]]
    return Kill(
        number=point.number,
        source=source(),
        victim=point.victim,
        changed=point.changed,
        after=round(point.after, 2),
        open_at_hit=at_hit,
        open_entries=entries,
        restored=sum(": restored: " in line for line in output.splitlines()),
        exit_code=code,
        seconds=round(seconds, 2),
        left=tuple(left),
    )


def points(count: int, lasting: float) -> list[Point]:
    """So many points over a run whose disruptive tests last so many seconds."""
    starting = round(count * STARTING)
    found = []
    for number in range(count):
        changed = number >= starting
        share = (number - starting) / max(1, count - starting) if changed else (number + 1) / starting
        found.append(
            Point(
                number=number, victim=VICTIMS[number % len(VICTIMS)], changed=changed,
                after=share * lasting if changed else 0.5 + 3 * share,
            )
        )  # fmt: skip
    return found


@contextmanager
def bench(profile: str, suites: tuple[str, ...] = SUITES, *, unreachable: float = UNREACHABLE) -> Iterator[Bench]:
    """A lab of its own; without ``suites`` the suite beside this file is run, in a project of its own."""
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        project = ROOT if suites else _project(folder / "project")
        with running_lab(folder, "--profile", profile) as lab:
            kube = Kube(from_kubeconfig(lab.kubeconfig))
            yield Bench(lab, kube, folder, project, suites, unreachable)
            kube.close()


def _project(path: Path) -> Path:
    (path / "suites").mkdir(parents=True)
    (path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\ntestpaths = ["suites"]\naddopts = ["--import-mode=importlib"]\n'
    )
    (path / "conftest.py").write_text('pytest_plugins = ["conformance.plugin"]\n')
    suite = Path(__file__).with_name("disruptive_suite.py").read_text(encoding="utf-8")
    (path / "suites" / "test_disruptive.py").write_text(suite)
    return path


def environment() -> dict[str, str]:
    """Ours, without what belongs to a pytest that runs this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    return {**kept, "PYTHONPATH": str(ROOT / "lib")}


def _members(pid: int) -> list[psutil.Process]:
    """A run's processes."""
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any("execnet" in word for word in process.cmdline())
    except psutil.Error:
        return False


def _kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return


def lasting(profile: str) -> float:
    """Seconds that a whole run's changes last, and that such a run leaves nothing behind (RuntimeError)."""
    with bench(profile) as one:
        before = snapshot.take(one.kube)
        run = one.start()
        while not one.open_entries() and run.poll() is None:
            time.sleep(0.1)
        begun = time.monotonic()
        run.wait(RUN_WITHIN)
        seconds = time.monotonic() - begun
        one.restore()
        left = one.left(before)
        if left:
            raise RuntimeError(f"a run that was not killed left: {left}")
        return seconds


def known(path: Path = RUNS) -> list[Kill]:
    """Points of the present source."""
    if not path.exists():
        return []
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [Kill(**{**entry, "left": tuple(entry["left"])}) for entry in entries]
    return [one for one in found if one.source == source()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is missing; 1 when something was left behind."""
    parser = argparse.ArgumentParser(description="Kill runs at many points, restore, compare.")
    parser.add_argument("--points", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--profile", default="default", help="of the labs (default: %(default)s)")
    options = parser.parse_args(arguments)
    KEPT.mkdir(parents=True, exist_ok=True)
    done = {one.number for one in known()}
    if any(number not in done for number in range(options.points)):
        todo = [one for one in points(options.points, lasting(options.profile)) if one.number not in done]
        while todo:
            todo = _on_one_lab(todo, options.profile)
    kills = [one for one in known() if one.number < options.points]
    write("killed runs", summary(kills))
    left = sum(bool(one.left or one.exit_code) for one in kills)
    print(f"{len(kills)} points, {left} with something left behind")
    return 1 if left else 0


def _on_one_lab(todo: list[Point], profile: str) -> list[Point]:
    """Take points on one lab; returns the rest."""
    with bench(profile) as one:
        before = snapshot.take(one.kube)
        for taken, point in enumerate(todo[:PER_LAB], 1):
            kill = one_point(one, point, before)
            with RUNS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(kill)) + "\n")
            state = f"LEFT {'; '.join(kill.left)}" if kill.left else f"{kill.restored} put back, nothing left"
            print(f"point {kill.number + 1}: {kill.victim}, {kill.seconds:.1f} s: {state}", flush=True)
            if kill.left or kill.exit_code:
                return todo[taken:]
    return todo[PER_LAB:]


def summary(kills: Sequence[Kill]) -> list[str]:
    """As lines of the document."""
    lines = [
        "| what was hit | points | with open changes | left to `--restore` | put back by it | something left | "
        "`--restore`, seconds: median | slowest |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    names = {
        "controller": "controller, SIGKILL", "worker": "one worker, SIGKILL", "all": "all processes, SIGKILL",
        "api": f"API server, unreachable for {UNREACHABLE:g} s",
    }  # fmt: skip
    for victim, name in names.items():
        some = sorted((one for one in kills if one.victim == victim), key=lambda one: one.seconds)
        if some:
            lines.append(
                f"| {name} | {len(some)} | {sum(one.open_at_hit > 0 for one in some)} | "
                f"{sum(one.open_entries > 0 for one in some)} | "
                f"{sum(one.restored for one in some)} | {sum(bool(one.left or one.exit_code) for one in some)} | "
                f"{some[len(some) // 2].seconds:.1f} | {some[-1].seconds:.1f} |"
            )
    lines += [f"- point {one.number} ({one.victim}): {line}" for one in kills for line in one.left]
    return [*lines, "", f"Suites: {', '.join(SUITES)}, 2 workers, a new lab for every {PER_LAB} points."]


if __name__ == "__main__":
    sys.exit(main())
