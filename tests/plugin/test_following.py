# SPDX-License-Identifier: Apache-2.0
"""A run prints and writes failures when they happen, causes that they share, and every test."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from tests.golden import schema

from .conftest import Project, Run
from .test_hostile_words import FAILS, demand_harmless

EVENTS = schema.FILE.with_name("events.schema.json")
FALLEN = """
from conformance.model.explanation import Explanation

def failing(claim, where):
    cause = "Felix does not run on windows-2019"
    text = Explanation(
        claims=(claim,), path="a -> b", expected="TIMED_OUT", observed="CONNECTED", cause=cause,
        where=where,
    )
    raise Nonconformance(text)

@verifies("DEMO-5")
def test_first(record):
    failing("DEMO-5", "a")

@verifies("DEMO-7")
def test_second(record):
    failing("DEMO-7", "b")

@verifies("CONN-1")
def test_sound(record):
    record.touched(["windows"])

@verifies("CONN-3")
def test_broken(record):
    raise ValueError("no agent")
"""


def events(project: Project) -> list[dict[str, Any]]:
    lines = (project.path / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def told(run: Run, begins: str) -> list[str]:
    running = run.out.partition("= FAILURES =")[0].partition("= ERRORS =")[0]
    return [line for line in running.splitlines() if line.startswith(begins)]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_failure_is_told_when_it_happens_with_the_cause_that_it_shares(
    project: Project, workers: str
) -> None:
    project.suite(FALLEN)
    run = project.run("-n", workers, "--events=events.jsonl")
    assert run.code == 1, run.out
    cause = "Felix does not run on windows-2019"
    violated = sorted(told(run, "VIOLATED "))
    assert len(violated) == 2, run.out
    assert all(cause in line for line in violated)
    (shared,) = [line for line in violated if "same cause as DEMO-" in line]
    assert shared.endswith(", 2 tests so far")
    assert told(run, "INCONCLUSIVE ") == ["INCONCLUSIVE CONN-3: ValueError: no agent"]
    written = events(project)
    for event in written:
        jsonschema.validate(event, json.loads(EVENTS.read_text()))
    kinds = [event["event"] for event in written]
    assert (kinds[0], kinds[-1]) == ("run_begun", "run_ended")
    assert (written[0]["tests"], written[-1]["exit_code"]) == (4, 1)
    assert kinds.count("test_begun") == kinds.count("test_ended") == 4
    assert [event["tests"] for event in written if event["event"] == "cause"] == [1, 2]
    ended = {event["test"].partition("::")[2]: event for event in written if "worker" in event}
    assert ended["test_first"]["verdict"] == "VIOLATED"
    assert ended["test_sound"]["claims"] == [
        {"claim": "CONN-1", "part": "", "verdict": "CONFIRMED"}
    ]
    notes = [event["text"] for event in written if event["event"] == "note"]
    assert notes == run.report["run"]["notes"]


def test_events_hold_no_command_and_no_secret(project: Project) -> None:
    secret = "token: abcdefgh12345678"
    project.suite(FAILS.replace("ValueError(WORDS)", f"ValueError(WORDS + {secret!r})"))
    run = project.run("--events", "events.jsonl")
    demand_harmless(run)
    text = (project.path / "events.jsonl").read_text()
    demand_harmless(Run(0, text, None))
    assert "hostile" in text
    assert "abcdefgh12345678" not in text


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_touched(
    project: Project,
) -> None:
    project.suite(FALLEN)
    run = project.run("--events=/none/events.jsonl")
    assert run.code == 4
    assert "ERROR: --events=/none/events.jsonl: cannot be written: No such file" in run.out
    assert run.folder is None


SLOW = """
import time

@verifies("CONN-1")
def test_one(record):
    time.sleep(2)
    record.touched(["windows"])

@verifies("CONN-3")
def test_two(record):
    time.sleep(2)
    record.touched(["windows"])
"""


def test_every_running_test_is_named(project: Project) -> None:
    (project.path / "timings.yaml").write_text("run:\n  progress_every: 200 ms\n")
    project.suite(SLOW)
    run = project.run("-n", "2", "--kubeconfig=lane", "--timings=timings.yaml")
    both = r"^\[\d+ s\] \S+::test_(one|two) is running\n\[\d+ s\] \S+::test_(one|two) is running$"
    pairs = re.findall(both, run.out, re.MULTILINE)
    assert pairs, run.out
    assert all(first != second for first, second in pairs)
