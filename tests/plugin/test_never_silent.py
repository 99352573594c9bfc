# SPDX-License-Identifier: Apache-2.0
"""Whatever takes long, the output names it: the cluster, collection, one long test, Ctrl-C, the
end."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from .conftest import WITHIN, Project
from .waiting import wait_for, wait_for_line

PATIENCE = "run:\n  progress_every: 200 ms\n"
"""In the place of the ten seconds that a user is left without a word at most."""
IMPORTED_SLOWLY = """
import time
time.sleep(1)
"""
SLOW = """
import pathlib, time

@pytest.fixture
def made():
    time.sleep(1)

@verifies("CONN-1")
def test_made(made, record):
    record.touched(["windows"])

@verifies("CONN-3")
def test_slow(record):
    record.touched(["windows"])
    pathlib.Path("here").touch()
    time.sleep(2.5)
"""
TAKES = json.dumps({"opening takes": 1, "inspecting takes": 1, "cleaning up takes": 1})


def told(out: str, what: str) -> list[int]:
    """The seconds with which it was told that something goes on."""
    return [
        int(seconds)
        for seconds in re.findall(rf"^\[(\d+) s\] {re.escape(what)}$", out, re.MULTILINE)
    ]


@pytest.fixture
def slow(project: Project) -> Project:
    (project.path / "timings.yaml").write_text(PATIENCE)
    project.suite(IMPORTED_SLOWLY + SLOW)
    return project


@pytest.mark.parametrize(
    "options", [["-n", "0"], ["-n", "2"], ["-n", "0", "-q", "-s"]], ids=" ".join
)
def test_everything_that_takes_its_time_is_told_of(slow: Project, options: list[str]) -> None:
    run = slow.run(*options, "--kubeconfig=lane", "--timings=timings.yaml", STAND_IN=TAKES)
    assert run.code == 0, run.out
    # With two workers the set-up of one test may go untold, since the other test runs meanwhile.
    alone = ("suites/test_it.py::test_made is running",) if "2" not in options else ()
    heard = {
        what: len(told(run.out, what))
        for what in (
            "reading the cluster",
            "collecting tests",
            *alone,
            "suites/test_it.py::test_slow is running",
            "removing the run's objects and writing reports",
        )
    }
    assert [what for what, times in heard.items() if not times] == [], run.out
    assert heard["reading the cluster"] >= 2, "both halves of it"


def test_a_lab_of_one_s_own_is_told_of_as_a_lab(slow: Project) -> None:
    run = slow.run("--timings=timings.yaml", STAND_IN=TAKES)
    assert told(run.out, "starting the lab"), run.out
    assert not told(run.out, "reading the cluster")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_ctrl_c_is_answered_at_once_and_what_follows_is_told_of(
    slow: Project, workers: str
) -> None:
    process = slow.start(
        "-n", workers, "--kubeconfig=lane", "--timings=timings.yaml", STAND_IN=TAKES
    )
    wait_for(slow.path / "here")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    run = slow.finish(process)
    assert run.code == 2, run.out
    after = run.out.partition("interrupted: removing the objects of the run\n")[2]
    assert told(after, "removing the run's objects and writing reports"), run.out
    assert not [line for line in after.splitlines() if line.endswith(" is running")]


AGAIN = (
    "interrupted again: there is no report, and objects of the run may be left: "
    "pytest --janitor removes them"
)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_ctrl_c_twice_ends_at_once_with_one_line_that_says_what_may_be_left(
    slow: Project, workers: str
) -> None:
    takes = json.dumps({"cleaning up takes": 2 * WITHIN})
    process = slow.start(
        "-n", workers, "--kubeconfig=lane", "--timings=timings.yaml", STAND_IN=takes
    )
    wait_for(slow.path / "here")
    os.killpg(process.pid, signal.SIGINT)
    wait_for_line(slow.path / "cluster.log", "clean_up")
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=WITHIN)
    assert process.returncode == 2, out
    assert out.splitlines().count(AGAIN) == 1, out
    assert "Traceback" not in out


def test_a_second_ctrl_c_before_the_cleanup_begins_lets_it_not_begin(project: Project) -> None:
    """Pytest begins to end a session even if a second Ctrl-C was raised while the first went up."""
    strike = (
        "import os, signal\n\n\n"
        "def pytest_keyboard_interrupt():\n    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    conftest = project.path / "conftest.py"
    conftest.write_text(f"{conftest.read_text()}\n{strike}")
    project.suite(
        'import os, signal\n\n@verifies("CONN-1")\ndef test_it(record):\n'
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    run = project.run("-n", "0", "--kubeconfig=lane")
    assert run.code == 2, run.out
    assert run.out.splitlines().count(AGAIN) == 1, run.out
    assert "clean_up" not in (project.path / "cluster.log").read_text(), run.out


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_is_over_is_not_told_of_any_more(slow: Project, workers: str) -> None:
    run = slow.run("-n", workers, "--timings=timings.yaml", "--kubeconfig=lane", STAND_IN=TAKES)
    summary = run.out.partition("= claims =")[2]
    assert set(re.findall(r"^\[\d+ s\] (.*)$", summary, re.MULTILINE)) <= {"ending the run"}
    assert not told(run.out.partition("[100%]")[2], "waiting for the next test"), run.out


def test_who_looks_at_a_test_by_hand_is_not_told_that_it_runs(project: Project) -> None:
    (project.path / "timings.yaml").write_text(PATIENCE)
    (project.path / ".pdbrc").write_text(
        "import time\ntime.sleep(4)\nq\n"
    )  # what a user does there
    project.suite('@verifies("CONN-1")\ndef test_it(record):\n    raise Nonconformance("refused")')
    run = project.finish(project.start("-n", "0", "--pdb", "--timings=timings.yaml"))
    assert "Quitting debugger" in run.out, run.out
    assert max(told(run.out, "suites/test_it.py::test_it is running"), default=0) < 4, (
        "what was told before that is no more"
    )


def test_an_interruption_where_python_knows_no_line_is_one_like_any_other(project: Project) -> None:
    project.suite(
        '@verifies("CONN-1")\n'
        "def test_it(record):\n"
        "    def strike():\n"
        "        raise KeyboardInterrupt\n"
        '    strike.__code__ = strike.__code__.replace(co_linetable=b"")\n'
        "    strike()\n"
    )
    run = project.run("-n", "0", "--kubeconfig=lane")
    assert run.code == 2, run.out
    assert "Traceback" not in run.out


@pytest.mark.parametrize("moment", ["workers end", "the run is cleared up"])
def test_an_interruption_after_the_last_test_ends_with_a_report(
    project: Project, moment: str
) -> None:
    strike = (
        "def pytest_sessionfinish():\n    raise KeyboardInterrupt\n"
        if moment == "workers end"
        else "from conformance.run.run import Run\n"
        "clean_up = Run.clean_up\n"
        "def strike(self):\n"
        "    Run.clean_up = clean_up\n"
        "    raise KeyboardInterrupt\n"
        "Run.clean_up = strike\n"
    )
    conftest = project.path / "conftest.py"
    conftest.write_text(f"{conftest.read_text()}\n{strike}")
    project.suite('@verifies("CONN-1")\ndef test_it(record):\n    record("a")\n')
    run = project.run("-n", "0", "--kubeconfig=lane")
    assert run.code == 2, run.out
    assert "Traceback" not in run.out
    assert run.report["run"]["exit_code"] == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_while_only_reports_are_left_lets_them_be_written(
    project: Project, number: signal.Signals
) -> None:
    strike = (
        "import os\n"
        "from conformance.plugin.qualification import Qualification\n"
        "apply = Qualification.apply\n"
        "def strike(self, *args, **more):\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    return apply(self, *args, **more)\n"
        "Qualification.apply = strike\n"
    )
    conftest = project.path / "conftest.py"
    conftest.write_text(f"{conftest.read_text()}\n{strike}")
    project.suite('@verifies("CONN-1")\ndef test_it(record):\n    record(a=1)\n')
    run = project.run("-n", "0", "--kubeconfig=lane")
    assert run.code == 0, run.out
    assert "Traceback" not in run.out
    assert run.report["run"]["exit_code"] == 0
    assert "= claims =" in run.out
