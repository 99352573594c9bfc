# SPDX-License-Identifier: Apache-2.0
"""An interrupted run ends with exit code 2 and its report, whatever it is still waiting for."""

from __future__ import annotations

import os
import signal

import pytest

from tests.plugin.waiting import MANY, assert_all_outputs_know, heard_within, verdicts, wait_for

from .conftest import Project


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interruption_is_2_and_leaves_the_rest_not_run(project: Project, workers: str) -> None:
    project.suite(MANY % "open('here', 'w').close(); time.sleep(30)")
    process = project.start("-n", workers)
    wait_for(project.path / "here")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    run = project.finish(process)
    assert run.code == 2
    assert verdicts(run)["3"] == "NOT_RUN"
    assert run.verdict("CONN-1") == "NOT_RUN"
    assert run.claim("CONN-1")["missing_parts"]
    assert_all_outputs_know(run, 8)


def test_a_cancelled_run_clears_up_as_after_ctrl_c_and_says_what_was_left(project: Project) -> None:
    project.suite(MANY % "open('here', 'w').close(); time.sleep(30)")
    process = project.start("--kubeconfig", "lane", STAND_IN='{"left": ["Namespace x was left"]}')
    wait_for(project.path / "here")
    os.kill(process.pid, signal.SIGTERM)  # as CI systems cancel
    run = project.finish(process)
    assert run.code == 2
    assert "Namespace x was left" in run.out
    assert (project.path / "cluster.log").read_text().split()[-2:] == ["clean_up", "close"]


WAITING = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
ended = threading.Event()

@pytest.fixture(scope="session")
def pulled(cluster):
    with ThreadPoolExecutor(2) as pool:
        work = pool.submit(wait)
        open("here", "w").close()
        work.result()

def wait():
    import pathlib
    while "interrupt" not in pathlib.Path("cluster.log").read_text():
        time.sleep(0.05)

@verifies("CONN-1")
def test_it(pulled): pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_is_waited_for_in_other_threads_too(
    project: Project, number: int
) -> None:
    """Otherwise the run would wait for them without end."""
    project.suite(WAITING)
    process = project.start()
    wait_for(project.path / "here")
    os.kill(process.pid, number)
    while not heard_within(15, project.path / "cluster.log"):
        os.kill(
            process.pid, number
        )  # one that comes just before a thread begins to wait is heard with the next
    run = project.finish(process)
    assert run.code == 2
    assert run.verdict("CONN-1") == "NOT_RUN"
    assert "interrupt 20" in (project.path / "cluster.log").read_text()


def test_a_thread_that_waits_on_after_a_signal_keeps_neither_the_report_nor_the_process(
    project: Project,
) -> None:
    """Neither the thread nor the test would ever end."""
    project.suite(
        "import threading\n"
        '@verifies("CONN-1")\n'
        "def test_it():\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    open('here', 'w').close()\n"
        "    threading.Event().wait()\n"
    )
    process = project.start()
    wait_for(project.path / "here")
    os.kill(process.pid, signal.SIGTERM)
    run = project.finish(process)
    assert run.code == 2
    assert run.verdict("CONN-1") == "NOT_RUN"
    assert (project.path / "cluster.log").read_text().split()[-1] == "close"
