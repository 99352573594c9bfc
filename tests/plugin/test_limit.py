# SPDX-License-Identifier: Apache-2.0
"""A test that does not end is interrupted: its changes are restored first, it is INCONCLUSIVE,
and all stacks are printed."""

from __future__ import annotations

import re

import pytest

from .conftest import Project, Run

LIMITS = """
run:
  test_limit: 600 ms
  exclusive_limit: 600 ms
  put_back: {put_back}
  silent: 400 ms
  progress_every: 200 ms
"""
HANGS = """
import os, select, socket, threading, time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

def log(text):
    with open("log", "a") as file:
        file.write(text + chr(10))

@pytest.fixture
def changed():
    log("changed")
    yield
    time.sleep(1.2)
    log("put back")

def spins():
    while True:
        pass

def queues():
    quiet, other = socket.socketpair()
    with quiet, other:
        quiet.recv(1)

def waits():
    try:
        threading.Event().wait()
    except Exception as swallowed:
        log(f"swallowed {swallowed!r}")

BLOCKS = {
    "sleep": lambda: time.sleep(60),
    "lock": threading.Semaphore(0).acquire,
    "socket": queues,
    "select": lambda: select.select([], [], [], 60),
    "future": lambda: Future().result(),
    "loop": spins,
    "event": waits,
}

def blocks_in_a_thread(name="other"):
    threading.Thread(target=time.sleep, args=(60,), name=name, daemon=True).start()
"""
BODY = """
@pytest.mark.parametrize("how", BLOCKS)
@verifies("VXLAN-10", part="{how}")
def test_hangs(how, changed):
    blocks_in_a_thread()
    BLOCKS[how]()

@verifies("CONN-1")
def test_after():
    log("after")
"""
SETUP = """
@pytest.fixture
def hangs(changed):
    time.sleep(60)

@verifies("VXLAN-10")
def test_hangs(hangs):
    log("never")
"""
NEVER = """
@verifies("VXLAN-10")
def test_hangs(changed):
    try:
        time.sleep(60)
    finally:
        log("cannot be left")
        threading.Event().wait()

@verifies("CONN-1")
def test_after():
    log("after")
"""


def ran(
    project: Project, body: str, *options: str, put_back: str = "30 s"
) -> tuple[Run, list[str]]:
    """Run tests under tiny limits; return the run, and the lines that its tests wrote."""
    (project.path / "timings.yaml").write_text(LIMITS.format(put_back=put_back))
    project.suite(HANGS + body)
    run = project.run("--timings=timings.yaml", *options)
    return run, (project.path / "log").read_text().splitlines()


@pytest.mark.parametrize("options", [("-n", "0"), ("-n", "1")], ids=" ".join)
def test_whatever_it_blocks_in_is_interrupted_and_put_back_before_the_next_test(
    project: Project, options: tuple[str, ...]
) -> None:
    run, log = ran(project, BODY, *options)
    assert run.code == 6, run.out
    results = run.claim("VXLAN-10")["results"]
    assert {result["verdict"] for result in results} == {"INCONCLUSIVE"}
    assert len(results) == 7
    for result in results:
        assert result["reason"].startswith("the test has not ended within its limit"), result
        assert re.search(r"interrupted in \w+\.py:\d+", result["reason"]), result["reason"]
    assert log.count("changed") == log.count("put back") == 7
    assert [line for line in log if line != "after"] == ["changed", "put back"] * 7
    assert run.verdict("CONN-1") == "CONFIRMED", "its worker lives on"
    assert run.folder
    stacks = [path.read_text() for path in run.folder.glob("attachments/*hangs*/stacks*")]
    assert len(stacks) == 7
    assert all(text.count("most recent call first") >= 2 for text in stacks), "of each thread"
    assert "test_it.py" in stacks[0]


def test_a_set_up_that_hangs_is_interrupted_too(project: Project) -> None:
    run, log = ran(project, SETUP, "-n", "0")
    assert log == ["changed", "put back"]
    (result,) = run.claim("VXLAN-10")["results"]
    assert (result["verdict"], run.code) == ("INCONCLUSIVE", 6)
    assert "in set-up: the test has not ended within its limit" in result["reason"]


def test_a_worker_that_cannot_be_interrupted_is_ended_after_the_time_for_putting_back(
    project: Project,
) -> None:
    run, log = ran(project, NEVER, "-n", "1", put_back="2 s")
    assert log.count("cannot be left") == 1
    (result,) = run.claim("VXLAN-10")["results"]
    assert (result["verdict"], run.code) == ("INCONCLUSIVE", 6)
    assert "its changes were not restored in time, so its worker is killed" in run.out
    assert "after" in log, "another worker goes on"
    assert "put back" in (project.path / "cluster.log").read_text(), "by the user's process"


@pytest.mark.parametrize("options", [("-n", "0"), ("-n", "1")], ids=" ".join)
def test_a_test_without_news_is_named_once_in_a_while(
    project: Project, options: tuple[str, ...]
) -> None:
    run, _ = ran(project, SETUP, *options)
    named = re.findall(
        r"^no report about suites/test_it.py::test_hangs for (\d+) s: .* since \d\d:\d\d:\d\dZ$",
        run.out,
        re.MULTILINE,
    )
    assert 1 <= len(named) <= 5, run.out


def test_a_test_in_time_says_nothing_of_limits(project: Project) -> None:
    run, log = ran(project, '@verifies("CONN-1")\ndef test_quick(changed): log("quick")', "-n", "0")
    assert log == ["changed", "quick", "put back"], "what puts back may take longer"
    assert run.verdict("CONN-1") == "CONFIRMED"
    assert "has not ended within" not in run.out
