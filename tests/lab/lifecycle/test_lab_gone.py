# SPDX-License-Identifier: Apache-2.0
"""A run whose lab dies, or that is cancelled, ends soon: with a report of its decisions so far,
and without processes."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import left_by_a_run

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.whole_run


class Running:
    """A conformance run in a process group of its own."""

    def __init__(self, reports: Path, *words: str) -> None:
        self.reports = reports
        command = [
            sys.executable,
            "-m",
            "pytest",
            "suites",
            "-p",
            "no:cacheprovider",
            f"--report-dir={reports}",
            *words,
        ]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip

    @property
    def folder(self) -> Path:
        return (self.reports / "latest").resolve()

    def until_a_test_probes(self) -> None:
        """Until a pod's agent has been asked something."""
        for _ in range(1200):
            if list(self.folder.glob(".run/slots/agent.0")):
                return
            assert self.process.poll() is None, (
                self.process.stdout.read() if self.process.stdout else ""
            )
            time.sleep(0.05)
        raise AssertionError("no agent was started")

    def lab(self) -> int:
        """The lab's process, the run's own."""
        children = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        )
        return next(
            int(child)
            for child in children
            if "hybridlab" in Path(f"/proc/{child}/cmdline").read_text()
        )

    def end(self, within: float) -> str:
        out, _ = self.process.communicate(timeout=within)
        return out

    def mine(self) -> list[str]:
        """Processes that belong to the run: those that name its directory."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.reports) in words:
                found.append(words)
        return found


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    one = Running(tmp_path / "reports", "-n", "2", "-k", "dns or demo", "--no-disruptive")
    yield one
    if one.process.poll() is None:
        os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()


def test_a_lab_that_dies_ends_the_run_with_everything_left_inconclusive(running: Running) -> None:
    running.until_a_test_probes()
    begun = time.monotonic()
    os.kill(running.lab(), signal.SIGKILL)
    out = running.end(90)
    assert running.process.returncode in (6, 7), out[-3000:]
    report = json.loads((running.folder / "conformance.json").read_text())
    verdicts = [test["verdict"] for test in report["tests"]]
    assert "INCONCLUSIVE" in verdicts
    assert "VIOLATED" not in verdicts, [
        test for test in report["tests"] if test["verdict"] == "VIOLATED"
    ]
    assert "the API server has not answered for" in out
    assert running.mine() == []
    print(f"ended after {time.monotonic() - begun:.1f} s")


def test_a_lab_that_can_open_no_more_files_ends_the_run_at_once_with_exit_code_7(
    running: Running,
) -> None:
    running.until_a_test_probes()
    lab, begun = running.lab(), time.monotonic()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.prlimit(
        lab, resource.RLIMIT_NOFILE, (len(list(Path(f"/proc/{lab}/fd").iterdir())), hard)
    )
    out = running.end(60)
    assert running.process.returncode == 7, out[-3000:]
    report = json.loads((running.folder / "conformance.json").read_text())
    assert "VIOLATED" not in {test["verdict"] for test in report["tests"]}
    assert (
        out.count(
            "note: the run ended: the lab ended: "
            "hybridlab: this machine allows too few open files: a process has all "
        )
        == 1
    )
    log = (running.folder / "lab" / "lab.log").read_text()
    assert [line.split(":")[0] for line in log.splitlines() if "files" in line] == ["hybridlab"], (
        "it says so once"
    )
    assert running.mine() == []
    print(f"ended after {time.monotonic() - begun:.1f} s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_within_30_s_with_a_report_and_no_process(
    running: Running, number: int
) -> None:
    running.until_a_test_probes()
    begun = time.monotonic()
    os.kill(running.process.pid, number)
    out = running.end(30)
    assert running.process.returncode == 2, out[-3000:]
    assert json.loads((running.folder / "conformance.json").read_text())["tests"]
    assert left_by_a_run.untold(running.folder) == []
    assert list(running.folder.glob("transcript-*.txt"))
    assert running.mine() == []
    print(f"ended after {time.monotonic() - begun:.1f} s")
