# SPDX-License-Identifier: Apache-2.0
"""Many runs of the suites on healthy labs, half of them on a busy machine: none may raise a false
alarm.

``python -m tests.reliability.clean_runs --runs 200``; an interrupted measurement continues where it
stopped. A false alarm is any verdict that differs from the clean verdicts of tests/detection/rows,
or an exit code other than 0. For each run, its decisions are counted: closed paths, open paths, and
streams through a change.

A workload of another owner (``tests.reliability.bystander``) exists during each run, and its
traffic must be the same afterwards. With ``--bystander blanket`` its pods would come back to a
cordoned node, so no node may be drained. With ``--beside 8``, this number of computing processes,
far more than there are cores, runs instead. Then only a violation is a false alarm, and a run with
more than one part in twenty INCONCLUSIVE.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tests.detection.table import Table, read
from tests.lab.lab_process import RunningLab, running_lab
from tests.reliability.bystander import TOLERATIONS, Bystander, Kind
from tests.reliability.document import write
from tests.reliability.ending import end_on_sigterm, scratch
from tests.reliability.source import ROOT, source

KEPT = ROOT / "reports" / "reliability"
RUNS = KEPT / "clean-runs.jsonl"
SUITES = ("suites",)
WORKERS = 2
LABS = {"default": (), "ten-nodes": ("--every-node",)}
"""Maps the profile of each lab to the additional options of its runs. With ``--every-node`` a run
makes many times as many decisions."""
STREAMS = ("RST-", "XPOL-16")
"""The beginnings of ids of claims whose decisions are about streams that survived or broke."""
OUTSIDE = re.compile(r"\boutside host (?P<address>[0-9.:]+)")
"""Matches the host outside the cluster in a lab's ready line."""
TIMINGS = ROOT / "lib" / "conformance" / "settings" / "lab.yaml"
"""The timings of a run on a lab that it started itself."""
REFUSED: dict[Kind, tuple[str, ...]] = {
    "plain": (),
    "blanket": ("VXLAN-9", "VXLAN-10", "VXLAN-11", "VXLAN-12", "XVX-3", "XVX-4"),
}
"""The claims that are NOT_RUN beside each kind of workload, because they would drain nodes."""
UNDECIDED = 0.05
"""The maximum share of a run's parts that may be INCONCLUSIVE beside more processes than cores."""
RUN_WITHIN = {False: 1200.0, True: 3600.0}
"""s. The time limits of a run, alone and beside many processes. Only a hanging run exceeds them,
and counts as a false alarm."""
ENDS_WITHIN = 120.0
"""s. The time that an interrupted run has to remove its pods and its lab."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run."""

    number: int
    source: str
    """The source that ran: a hash of lib, suites and manifests."""
    loaded: bool
    """True if other processes kept all cores busy."""
    exit_code: int
    seconds: float
    tests: int
    suites: tuple[str, ...]
    profile: str
    """The profile of its lab."""
    closed: int
    """The number of closed paths that were decided, as pairs of nodes of each test."""
    opened: int
    """The number of open paths that were decided."""
    streams: int
    """The number of streams that were decided through a change."""
    alarms: tuple[str, ...]
    """The claims whose verdict is not that of a healthy lab, each with the first line of its
    reason."""
    beside: int = 0
    """The number of processes that computed beside it; 0: none, or as many as there are cores
    (``loaded``)."""
    parts: int = 0
    """The number of parts of claims that its tests had to decide."""
    undecided: int = 0
    """The number of these parts that are INCONCLUSIVE."""
    bystander: Kind = "plain"
    """The kind of workload beside it."""

    @property
    def false_alarm(self) -> bool:
        """Return whether the run reported anything wrong."""
        if self.beside:
            too_many = self.undecided > UNDECIDED * self.parts
            return bool(self.alarms) or too_many or self.exit_code not in (0, 6)
        return bool(self.alarms) or self.exit_code != 0


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Start this many processes that only compute.

    Each has its own session. Linux divides the cores among sessions first (sched_autogroup), so
    several processes in one session would leave most of the cores to the lab. They end with this
    process in every case.
    """
    spin = [
        sys.executable,
        "-c",
        f"import os\nwhile os.getppid() == {os.getpid()}:\n    sum(range(100_000))",
    ]
    spinning = [subprocess.Popen(spin, start_new_session=True) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def one_run(
    number: int, suites: tuple[str, ...], table: Table, beside: int, bystander: Kind = "plain"
) -> Run:
    """Run these suites once. Every second run is on a busy machine, and each lab has two runs in
    turn.

    ``beside``: use only the default lab, with this number of processes beside each run.
    """
    busy, profile = number % 2 == 1, list(LABS)[0 if beside else number // 2 % len(LABS)]
    processes = beside or ((busy and os.cpu_count()) or 0)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_"))
    }
    with (
        scratch("clean-run-") as folder,
        running_lab(folder, "--profile", profile) as lab,
        load(processes),
    ):
        others = Bystander(lab, bystander)
        others.deploy()
        reports = folder / "reports"
        command = [
            sys.executable, "-m", "pytest", *suites, "-q", "-n", str(WORKERS), "-p", "no:cacheprovider",
            f"--report-dir={reports}", *_on(lab), *LABS[profile],
        ]  # fmt: skip
        begun = time.monotonic()
        code, output = _ended(
            command, {**kept, "PYTHONPATH": str(ROOT / "lib")}, RUN_WITHIN[beside > 0]
        )
        seconds = time.monotonic() - begun
        report = reports / "latest" / "conformance.json"
        said = (
            json.loads(report.read_text(encoding="utf-8"))
            if report.exists()
            else {"claims": [], "tests": []}
        )
        alarms = (
            _alarms(said, table, profile, beside, REFUSED[bystander])
            if said["tests"]
            else (f"no report: {output[-300:]}",)
        )
        alarms += tuple(others.lost())
        if alarms or code:
            _keep(number, reports, output)
    return Run(
        number=number,
        source=source(),
        loaded=processes > 0,
        beside=beside,
        exit_code=code,
        seconds=round(seconds, 2),
        tests=len(said["tests"]),
        suites=suites,
        profile=profile,
        **decided(said),
        alarms=alarms,
        bystander=bystander,
    )


def _on(lab: RunningLab) -> list[str]:
    """Return the options by which a run uses a lab as if it had started the lab itself."""
    outside = OUTSIDE.search(lab.ready_line)
    target = [f"--external-target={outside['address']}"] if outside else []
    return [
        f"--kubeconfig={lab.kubeconfig}",
        "--allow-cluster-disruptive",
        f"--timings={TIMINGS}",
        *target,
    ]


def _ended(command: Sequence[str], environment: dict[str, str], within: float) -> tuple[int, str]:
    """Return the exit code (-1: it hung) and the output. A hanging run is interrupted as a user
    would do, and killed if necessary."""
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    ) as run:  # fmt: skip
        try:
            output = run.communicate(timeout=within)[0]
            return run.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGINT)
        try:
            output = run.communicate(timeout=ENDS_WITHIN)[0]
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            output = run.communicate()[0]
        return -1, f"hung for {within:g} s\n{output}"


def decided(said: dict[str, Any]) -> dict[str, int]:
    """Return the number of a report's decisions about closed paths, open paths and streams, and of
    its undecided parts."""
    found = [
        (claim["id"], decision["halves"])
        for claim in said["claims"]
        for result in claim["results"]
        for decision in result["decisions"]
    ]
    verdicts = [result.get("verdict") for claim in said["claims"] for result in claim["results"]]
    return {
        "parts": len(verdicts),
        "undecided": verdicts.count("INCONCLUSIVE"),
        "closed": sum("closed" in halves for _, halves in found),
        "opened": sum("open" in halves for _, halves in found),
        "streams": sum(claim.startswith(STREAMS) for claim, _ in found),
    }


def _alarms(
    said: dict[str, Any], table: Table, profile: str, beside: int = 0, refused: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the differences from a healthy lab on which these claims are ``refused``; ``beside``
    too many processes, return only the violations."""
    return tuple(
        f"{claim['id']}: {claim['verdict']}: {claim['reason'].partition(chr(10))[0]}"
        for claim in said["claims"]
        if claim["results"]
        and (not beside or claim["verdict"] == "VIOLATED")
        and (
            claim["id"] not in table.clean
            or claim["verdict"]
            not in (("NOT_RUN",) if claim["id"] in refused else table.healthy(claim["id"], profile))
        )
    )


def _keep(number: int, folder: Path, output: str) -> None:
    """Keep the run's directory and its output as evidence of the cause."""
    target = KEPT / f"alarm-{number}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, symlinks=True)
    (target / "output.txt").write_text(output, encoding="utf-8")


def known(
    suites: tuple[str, ...], path: Path = RUNS, *, beside: int = 0, bystander: Kind = "plain"
) -> list[Run]:
    """Return the runs of these suites in the present source, beside this number of processes and
    this kind of workload."""
    if not path.exists():
        return []
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    now = [
        entry
        for entry in entries
        if entry["source"] == source() and tuple(entry.get("suites", ())) == suites
        and entry.get("beside", 0) == beside and entry.get("bystander") == bystander
    ]  # fmt: skip
    return [Run(**{**entry, "alarms": tuple(entry["alarms"]), "suites": suites}) for entry in now]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing runs; return 1 if there was a false alarm."""
    parser = argparse.ArgumentParser(
        description="Count false alarms over many runs on healthy labs."
    )
    parser.add_argument("--runs", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--no-page", action="store_true", help="leave docs/reliability.md as it is")
    parser.add_argument("--suites", nargs="+", default=list(SUITES), help="default: all of them")
    parser.add_argument(
        "--beside",
        type=int,
        default=0,
        metavar="N",
        help="each run beside N processes that compute",
    )
    parser.add_argument(
        "--bystander", choices=list(TOLERATIONS), default="plain", help="default: %(default)s"
    )
    options = parser.parse_args(arguments)
    end_on_sigterm()
    KEPT.mkdir(parents=True, exist_ok=True)
    suites, kind = tuple(options.suites), options.bystander
    table, done = (
        read(),
        {run.number for run in known(suites, beside=options.beside, bystander=kind)},
    )
    for number in range(options.runs):
        if number in done:
            continue
        run = one_run(number, suites, table, options.beside, kind)
        with RUNS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(run)) + "\n")
        state = f"FALSE ALARM {'; '.join(run.alarms)}" if run.false_alarm else "clean"
        print(
            f"run {number + 1} of {options.runs}: {state}, {_counted([run])}, {run.seconds:.1f} s"
            f" on {run.profile}{', busy' if run.loaded else ''}, {run.undecided} of {run.parts} parts INCONCLUSIVE",
            flush=True,
        )
    runs = [
        run
        for run in known(suites, beside=options.beside, bystander=kind)
        if run.number < options.runs
    ]
    if not options.no_page and not options.beside and kind == "plain":
        write("clean runs", summary(runs))
    alarms = sum(run.false_alarm for run in runs)
    print(f"{len(runs)} runs, {_counted(runs)}, {alarms} false alarms")
    return 1 if alarms else 0


def _counted(runs: Sequence[Run]) -> str:
    closed, opened, streams = (
        sum(getattr(run, what) for run in runs) for what in ("closed", "opened", "streams")
    )
    return f"{closed} closed paths, {opened} open ones, {streams} streams"


def summary(runs: Sequence[Run]) -> list[str]:
    """Return the lines of the document."""
    lines = [
        "| lab | machine | runs | tests | closed paths | open | streams | false alarms | seconds: median | slowest |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for profile, busy in product(LABS, (False, True)):
        some = sorted(
            (run for run in runs if (run.profile, run.loaded) == (profile, busy)),
            key=lambda run: run.seconds,
        )
        if some:
            machine = "all cores kept busy by others" if busy else "as it is"
            alarms, tests = sum(run.false_alarm for run in some), min(run.tests for run in some)
            median, slowest = some[len(some) // 2].seconds, some[-1].seconds
            decided = " | ".join(
                str(sum(getattr(run, what) for run in some))
                for what in ("closed", "opened", "streams")
            )
            counts = f"{len(some)} | {tests} | {decided} | {alarms} | {median:.1f} | {slowest:.1f}"
            lines.append(f"| {profile} | {machine} | {counts} |")
    lines += [f"- run {run.number}: {alarm}" for run in runs for alarm in run.alarms]
    suites = sorted({suite for run in runs for suite in run.suites})
    lines += [
        "", f"Suites: {', '.join(suites)}, {WORKERS} workers, a lab of its own for each run, with somebody else's",
        "workload beside it, whose traffic passes after the run as before.",
    ]  # fmt: skip
    return lines


if __name__ == "__main__":
    sys.exit(main())
