# SPDX-License-Identifier: Apache-2.0
"""Felix that does not run on a node is the first line of what fails there, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from conformance.errors import EnvironmentBroken, Nonconformance, ProbeBroken
from conformance.evidence.felix_cause import name_felix, nodes_of
from conformance.expect.explain import message
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload

NAMES = ["linux-1", "windows-1", "windows-10"]
SERVER = a_workload("server", "windows")
PATH = Attempt(source=a_workload("client"), target=SERVER.tcp(80), kind=Kind.TCP, give_up_after=1.0)
CAUSE = "Felix does not run on windows-1"


def down(nodes: Sequence[str]) -> Mapping[str, str]:
    return {node: "felix CrashLoopBackOff, 3 restarts" for node in nodes if node == "windows-1"}


def test_an_expectation_begins_with_it_and_has_the_path_below() -> None:
    told = message.explanation(
        ["DEMO-5"],
        PATH,
        expected="CONNECTED",
        because="x",
        observations=[],
        seconds=1.0,
        further={"do": "see CONN-3"},
    )
    error = ProbeBroken(message.of_control(told, "before the change"))
    error.paths = [PATH]
    assert name_felix(error, NAMES, down) == CAUSE
    lines = str(error).splitlines()
    assert lines[0].startswith(
        f"DEMO-5: {CAUSE}: control before the change failed: expected CONNECTED"
    )
    assert lines[1].split() == ["path", *PATH.label.split()]
    assert "kubectl get pods" in lines[-1], "what to do is about Felix, not about paths"


def test_other_messages_begin_with_it_too() -> None:
    error = EnvironmentBroken("pod ns/web on node windows-1 is not Ready")
    assert name_felix(error, NAMES, down) == CAUSE
    assert str(error).startswith(
        f"{CAUSE} (felix CrashLoopBackOff, 3 restarts); affected: pod ns/web"
    )
    assert name_felix(error, NAMES, down) == CAUSE, "raised again for another test"
    assert str(error).count(CAUSE) == 1


@pytest.mark.parametrize(
    "text", ["node windows-10 is wrong", "node linux-1 is wrong", "nothing is known"]
)
def test_nothing_is_said_of_other_nodes(text: str) -> None:
    error = Nonconformance(text)
    assert name_felix(error, NAMES, down) == ""
    assert str(error) == text


def test_a_failure_of_one_path_is_about_its_ends_and_of_several_about_what_it_names() -> None:
    seen = [Observation(attempt=PATH, verdict=Verdict.TIMED_OUT, seconds=1.0, at=0.0)] * 2
    assert nodes_of(Nonconformance("Service web", observations=seen), NAMES) == [
        "linux-1",
        "windows-1",
    ]
    other = replace(seen[0], attempt=replace(PATH, target=SERVER.tcp(81)))
    assert nodes_of(Nonconformance("Service web", observations=[*seen, other]), NAMES) == []


def test_the_ends_of_wrong_paths_count_before_names_in_the_text() -> None:
    error = Nonconformance("windows-1 is well")
    error.paths = [replace(PATH, target=replace(SERVER, node="windows-10").tcp(80))]
    assert nodes_of(error, NAMES) == ["linux-1", "windows-10"]
