# SPDX-License-Identifier: Apache-2.0
"""The run's own lab is waited for, its end is explained, and it never outlives the run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.errors import ClusterUnusable, UsageProblem
from conformance.run import lab
from conformance.run.lab import LabProcess
from conformance.settings import load_timings
from conformance.timing import until

TIMINGS = load_timings().run

READY = """
import os, pathlib, signal, sys, time
arguments = sys.argv[1:]
assert arguments[0] == "up"
def value(name): return arguments[arguments.index(name) + 1]
profile = value("--profile") if "--profile" in arguments else "none"
pathlib.Path(value("--kubeconfig")).write_text("profile " + profile)
"""
SAY = 'os.write(int(value("--ready-fd")), b"ready\\n"); os.close(int(value("--ready-fd")))\n'


@pytest.fixture
def hybridlab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the lab's name that does what a test writes into it."""
    (tmp_path / "hybridlab").mkdir()
    (tmp_path / "hybridlab" / "__init__.py").touch()
    monkeypatch.setattr(lab, "SOURCES", str(tmp_path))
    return tmp_path / "hybridlab" / "__main__.py"


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_it_is_ready_when_it_says_so_and_ends_on_sigterm(hybridlab: Path, tmp_path: Path) -> None:
    hybridlab.write_text(READY + SAY + "time.sleep(60)\n")
    process = LabProcess(tmp_path / "lab", "bgp", TIMINGS)
    process.wait()
    assert process.kubeconfig.read_text() == "profile bgp"
    process.stop()
    assert gone(process._process.pid)
    process.stop()  # twice is harmless


def test_the_powershell_that_a_user_names_is_handed_on(hybridlab: Path, tmp_path: Path) -> None:
    hybridlab.write_text(READY + 'assert "--powershell=a pwsh" in arguments\n' + SAY)
    process = LabProcess(tmp_path / "lab", "bgp", TIMINGS, "a pwsh")
    process.wait()
    process.stop()


def test_one_that_will_not_end_is_killed(hybridlab: Path, tmp_path: Path) -> None:
    hybridlab.write_text(
        READY + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SAY + "time.sleep(60)\n"
    )
    process = LabProcess(tmp_path / "lab", None, replace(TIMINGS, lab_end=0.2))
    process.wait()
    process.stop()
    assert gone(process._process.pid)


def test_its_last_words_are_the_reason_when_it_ends_early(hybridlab: Path, tmp_path: Path) -> None:
    said = "hybridlab: this machine cannot run a lab:\\n  veth: no\\n  vxlan: no"
    hybridlab.write_text(f'import sys\nprint("a warning")\nprint("{said}")\nsys.exit(7)\n')
    process = LabProcess(tmp_path / "lab", None, TIMINGS)
    with pytest.raises(
        ClusterUnusable, match=r"exit status 7 .*: hybridlab: .* a lab: veth: no vxlan: no; log"
    ):
        process.wait()
    process.stop()


def test_a_lab_that_ends_for_a_lack_while_it_is_used_says_which(
    hybridlab: Path, tmp_path: Path
) -> None:
    hybridlab.write_text(
        READY
        + SAY
        + 'time.sleep(0.3)\nprint("noise")\nprint("hybridlab: lacks files")\nsys.exit(7)\n'
    )
    process = LabProcess(tmp_path / "lab", None, TIMINGS)
    process.wait()
    lost: list[str] = []
    process.watch(lost.append)
    assert until(lambda: lost, bool, within=10, every=0.02, description="the lab ends").converged
    assert lost == ["the lab ended: hybridlab: lacks files"]
    process.stop()


@pytest.mark.parametrize("ends", ["time.sleep(60)", "time.sleep(0.3)\nsys.exit(1)"])
def test_a_lab_that_is_stopped_or_killed_lacks_nothing(
    hybridlab: Path, tmp_path: Path, ends: str
) -> None:
    hybridlab.write_text(READY + SAY + f"{ends}\n")
    process = LabProcess(tmp_path / "lab", None, TIMINGS)
    process.wait()
    lost: list[str] = []
    process.watch(lost.append)
    if "60" not in ends:
        process._process.wait(10)
    process.stop()
    time.sleep(0.2)
    assert lost == []


def test_a_refused_profile_is_a_usage_problem(hybridlab: Path, tmp_path: Path) -> None:
    hybridlab.write_text('import sys\nprint("hybridlab: no profile dual-stack")\nsys.exit(4)\n')
    process = LabProcess(tmp_path / "lab", "dual-stack", TIMINGS)
    with pytest.raises(UsageProblem, match="the lab refused: hybridlab: no profile dual-stack"):
        process.wait()
    process.stop()


def test_one_that_never_gets_ready_is_given_up_with_its_log(
    hybridlab: Path, tmp_path: Path
) -> None:
    hybridlab.write_text("import time\ntime.sleep(60)\n")
    process = LabProcess(tmp_path / "lab", None, replace(TIMINGS, lab_ready=0.3))
    with pytest.raises(ClusterUnusable, match=r"not ready after 0.3 s; its log: .*lab.log"):
        process.wait()
    process.stop()
    assert gone(process._process.pid)


def test_it_ends_when_the_run_is_killed(hybridlab: Path, tmp_path: Path) -> None:
    hybridlab.write_text(READY + SAY + "time.sleep(60)\n")
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED_RUN, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert run.stdout
    lab_pid = int(run.stdout.readline())
    assert not gone(lab_pid)
    run.kill()
    run.wait()
    assert until(
        lambda: ended(lab_pid), bool, within=5, every=0.02, description="the lab ends"
    ).converged


KILLED_RUN = """
import pathlib, sys, time
from conformance.run import lab
from conformance.settings import load_timings
lab.SOURCES = sys.argv[1]
process = lab.LabProcess(pathlib.Path(sys.argv[1]) / "lab", None, load_timings().run)
process.wait()
print(process._process.pid, flush=True)
time.sleep(60)
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4] / "lib")}


def ended(pid: int) -> bool:
    """Gone, or waiting for whoever inherited it to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_another_system_than_linux_is_told_to_name_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(
        ClusterUnusable, match=r"needs Linux, .*: name a cluster by --kubeconfig=FILE"
    ):
        LabProcess(tmp_path / "lab", None, TIMINGS)
