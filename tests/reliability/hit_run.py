# SPDX-License-Identifier: Apache-2.0
"""A lab, and runs with disruptive tests that are hit at a given moment and restored. Then the
cluster is compared with its state before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
from execnet.gateway_io import popen_bootstrapline

from conformance.facts.detect import detect
from conformance.journal.cordon import cordoned_by
from conformance.journal.store import entries_of, journals
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.settings import Settings, load_timings
from conformance.undo.verify_connectivity import connectivity_problem
from tests.lab.lab_process import RunningLab, running_lab
from tests.reliability import snapshot
from tests.reliability.bystander import Bystander, Kind
from tests.reliability.ending import scratch
from tests.reliability.snapshot import Snapshot
from tests.reliability.source import ROOT

SUITES = ("suites/vxlan/test_vni.py", "suites/resets/test_felix_restart.py")
"""The suites that change the cluster: they restart Felix, change the VNI of nodes, drain nodes, and
remove HNS networks."""
TIMINGS = Path(__file__).with_name("timings.yaml")
SETTLED_WITHIN = 60.0
"""s. The time limit within which controllers replace deleted pods."""
RUN_WITHIN = 300.0
"""s. A limit that only a hanging run exceeds; a hanging run counts as something left behind."""
UNREACHABLE = 20.0
"""s. The time for which the API server cannot be reached."""
ENDED = "the run had ended"
NO_WORKER = "there was no worker"
NO_DRAIN = "no node was drained so often"
UNTOUCHED, FELIX, VNI, PROCEDURE, HEALER = (
    "nothing changed yet", "restart of Felix", "another VNI", "new HNS network (VXLAN-10)", "its healer",
)  # fmt: skip
"""The possible phases of a run when it is hit."""
KEY = b"PRIVATE KEY"

Victim = Literal["controller", "worker", "all", "api"]


@dataclass(frozen=True, kw_only=True)
class Point:
    """The moment at which a run is hit, and the process that is hit."""

    number: int
    victim: Victim
    changed: bool
    """True: the time counts from the first journalled change; False: from the run's start."""
    after: float
    """The time until the hit, in seconds."""
    drained: int = 0
    """If this is not 0, the time counts from the n-th time that the run cordons a node, by the
    procedure or its healer."""


@dataclass(frozen=True, kw_only=True)
class Strike:
    """The result of hitting a run."""

    missed: str = ""
    open: int = 0
    """The number of changes that were open at that moment."""
    phase: str = ""
    """The phase of the run."""
    problem: tuple[str, ...] = ()
    """Faults of the run itself: it hung, left processes, or changed nothing."""


@dataclass(frozen=True)
class Harness:
    """A lab, and the way in which suites run on it."""

    lab: RunningLab
    kube: Kube
    folder: Path
    project: Path
    suites: tuple[str, ...]
    unreachable: float
    bystander: Bystander | None = None

    def command(self, *arguments: str) -> list[str]:
        """Return the command ``pytest ...`` on the lab."""
        return [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"--kubeconfig={self.lab.kubeconfig}",
            f"--timings={TIMINGS}", f"--report-dir={self.folder / 'reports'}", *arguments,
        ]  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of processes that use the lab."""
        return environment(self.folder / "tmp")

    def start(self) -> subprocess.Popen[bytes]:
        """Start a run with two workers."""
        with (self.folder / "run.log").open("wb") as log:
            return subprocess.Popen(
                self.command(*self.suites, "-n", "2", "--allow-cluster-disruptive"),
                cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def hit(self, point: Point, run: subprocess.Popen[bytes]) -> Strike:
        """Wait for the point, hit the victim, and wait until all processes of the run have ended.

        A point after the first change also waits until a change is open, so that the hit can leave
        something behind.
        """
        deadline = time.monotonic() + RUN_WITHIN
        if point.drained and not self._drained(point.drained, run, deadline):
            return Strike(missed=NO_DRAIN, problem=_ended(run, _members(run.pid)))
        while point.changed and not self.open_entries():
            if time.monotonic() > deadline or run.poll() is not None:
                said = (self.folder / "run.log").read_text(errors="replace").splitlines()[-3:]
                return Strike(problem=(f"the run changed nothing: {' / '.join(said)}",))
            time.sleep(0.05)
        time.sleep(point.after)
        while point.changed and not self.open_entries() and run.poll() is None:
            if time.monotonic() > deadline:
                return Strike(problem=(f"the run hung: it had not ended after {RUN_WITHIN:g} s",))
            time.sleep(0.02)
        at_hit, phase, members = self.open_entries(), self.phase(), _members(run.pid)
        missed = self._strike(point, run, members)
        problem = _ended(run, members)
        if (
            not missed
            and point.victim in ("controller", "all")
            and run.returncode != -signal.SIGKILL
        ):
            missed = ENDED  # the run ended by itself just before
        return Strike(missed=missed, open=at_hit, phase=phase, problem=problem)

    def _drained(self, times: int, run: subprocess.Popen[bytes], deadline: float) -> bool:
        """Wait until a run has cordoned nodes this many times; return whether it has."""
        seen, before = 0, set[str]()
        while seen < times:
            if time.monotonic() > deadline or run.poll() is not None:
                return False
            now = self._cordoned()
            seen, before = seen + len(now - before), now
            time.sleep(0.02)
        return True

    def _cordoned(self) -> set[str]:
        """Return the nodes that a run has cordoned."""
        return {
            node["metadata"]["name"]
            for node in self.kube.objects("v1", "Node")
            if cordoned_by(node)
        }

    def phase(self) -> str:
        """Return the phase of a run. It follows from the journal and from the run's marks on nodes,
        because a healer cordons nodes without a journal entry."""
        opened = [entry for book in journals(self.kube) for entry in entries_of(book) if entry.open]
        if self._cordoned():
            return (
                PROCEDURE
                if any(entry.target and entry.target.kind == "Node" for entry in opened)
                else HEALER
            )
        if any(entry.procedure == "hns-network" for entry in opened):
            return VNI
        return FELIX if opened else UNTOUCHED

    def _strike(
        self, point: Point, run: subprocess.Popen[bytes], members: Sequence[psutil.Process]
    ) -> str:
        """Hit the victim; return the reason if that was not possible, otherwise an empty text."""
        if run.poll() is not None:
            return ENDED
        match point.victim:
            case "controller":
                run.kill()
            case "worker":
                workers = [
                    member for member in members if member.pid != run.pid and _is_worker(member)
                ]
                if not workers or not _kill(workers[point.number % len(workers)]):
                    return NO_WORKER
            case "all":
                for member in members:
                    _kill(member)
            case "api":
                done = self.lab.hybridlab(
                    "faults", "--kubeconfig", str(self.lab.kubeconfig), "inject", "api-unreachable",
                    f"seconds={self.unreachable}",
                )  # fmt: skip
                if done.returncode:
                    return f"the API server stayed reachable: {done.stdout}{done.stderr}".strip()
                time.sleep(self.unreachable)
        return ""

    def open_entries(self) -> int:
        """Return the number of changes that are journalled and not closed."""
        return sum(entry.open for book in journals(self.kube) for entry in entries_of(book))

    def restore(self) -> tuple[int, str, float]:
        """Run ``pytest --restore``; return its exit code (-1: it hung), output and seconds."""
        begun = time.monotonic()
        try:
            done = subprocess.run(
                self.command("--restore"), cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=RUN_WITHIN, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return -1, f"hung: it had not ended after {RUN_WITHIN:g} s", time.monotonic() - begun
        return done.returncode, done.stdout + done.stderr, time.monotonic() - begun

    def left(self, before: Snapshot, *, seen_whole: bool = False) -> list[str]:
        """Return the differences from the state before, once controllers have done their work, and
        whether pods reach each other."""
        deadline = time.monotonic() + SETTLED_WITHIN
        while (
            found := snapshot.differences(before, snapshot.take(self.kube))
        ) and time.monotonic() < deadline:
            time.sleep(0.5)
        found += self._bystander_lost()
        if seen_whole:
            return found
        timings = load_timings(TIMINGS)
        problem = connectivity_problem(
            self.kube, detect(self.kube, evidence="lab"), Settings(timings=timings, run_id="kills")
        )
        return found + ([problem] if problem else [])

    def _bystander_lost(self) -> list[str]:
        """Return the losses of the other owner's workload: its traffic and, if no node may be
        drained, its pods."""
        if self.bystander is None:
            return []
        gone = (
            self.bystander.were_there - self.bystander.pods().keys()
            if self.bystander.kind == "blanket"
            else set()
        )
        evicted = [f"bystander (blanket): {len(gone)} pods are not those of before"] if gone else []
        return [*evicted, *self.bystander.lost()]

    def keys_left(self) -> int:
        """Return the number of files with a private key that runs have left behind."""
        files = [path for path in (self.folder / "tmp").rglob("*") if path.is_file()]
        return sum(KEY in path.read_bytes() for path in files)

    def verdicts(self) -> dict[str, str]:
        """Map each claim that the last run decided to its verdict."""
        report = self.folder / "reports" / "latest" / "conformance.json"
        said = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {"claims": []}
        return {claim["id"]: claim["verdict"] for claim in said["claims"] if claim["results"]}


@contextmanager
def harness(
    profile: str,
    suites: tuple[str, ...] = SUITES,
    *,
    unreachable: float = UNREACHABLE,
    bystander: Kind | None = None,
) -> Iterator[Harness]:
    """Run a lab. Without ``suites``, the suite beside this file is run in its own project.

    ``bystander``: a workload of another owner, of this kind, exists with traffic.
    """
    with scratch("kills-") as folder:
        (folder / "tmp").mkdir()
        project = ROOT if suites else _project(folder / "project")
        with running_lab(folder, "--profile", profile) as lab:
            beside = Bystander(lab, bystander) if bystander else None
            if beside:
                beside.deploy()
            kube = Kube(from_kubeconfig(lab.kubeconfig))
            yield Harness(lab, kube, folder, project, suites, unreachable, beside)
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


def environment(scratch: Path) -> dict[str, str]:
    """Return this process's environment without the variables of a pytest that runs it. TMPDIR is a
    folder for the files that killed processes leave."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_"))
    }
    return {**kept, "PYTHONPATH": str(ROOT / "lib"), "TMPDIR": str(scratch)}


def end_all(run: subprocess.Popen[bytes]) -> None:
    """Kill all living processes of a run."""
    for member in _members(run.pid):
        _kill(member)
    run.wait()


def _members(pid: int) -> list[psutil.Process]:
    """Return the processes of a run."""
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _is_worker(process: psutil.Process) -> bool:
    try:
        # this line is all that the command line of an xdist worker shows
        return popen_bootstrapline in process.cmdline()
    except psutil.Error:
        return False


def _kill(process: psutil.Process) -> bool:
    """Kill a process; return whether it existed."""
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return False
    return True


def _ended(run: subprocess.Popen[bytes], members: Sequence[psutil.Process]) -> tuple[str, ...]:
    """Wait until all processes of a run have ended; kill and return those that hang."""
    try:
        run.wait(RUN_WITHIN)
    except subprocess.TimeoutExpired:
        return (f"the run hung: it had not ended {RUN_WITHIN:g} s after it was hit",)
    _, alive = psutil.wait_procs(members, RUN_WITHIN)
    for item in alive:
        _kill(item)
    return tuple(f"the run hung: {item} outlived it by {RUN_WITHIN:g} s" for item in alive)
