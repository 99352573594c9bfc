# SPDX-License-Identifier: Apache-2.0
"""Faults of execs, as their user notices them: each fails in its own way, and works again when it
is healed."""

from __future__ import annotations

import re
import threading
import time

import pytest

from tests.lab.faults.town import SETTLED_WITHIN, Town

pytestmark = pytest.mark.xdist_group("exec-faults")


def test_exec_answers_without_output(town: Town) -> None:
    command = ("sh", "-c", "echo spoken; exit 3")
    assert (town.run(*command).stdout, town.run(*command).returncode) == ("spoken\n", 3)
    with town.fault("exec-empty-output"):
        done = town.run(*command)
        assert (done.stdout, done.returncode) == ("", 3)
    assert town.run(*command).stdout == "spoken\n"


def test_exec_loses_the_exit_status(town: Town) -> None:
    command = ("sh", "-c", "echo spoken; exit 3")
    with town.fault("exec-loses-status"):
        done = town.run(*command)
        assert done.stdout == "spoken\n"
        assert done.returncode != 3
    assert town.run(*command).returncode == 3


def test_exec_answers_with_half_of_its_output(town: Town) -> None:
    with town.fault("exec-half-output"):
        assert town.run("sh", "-c", "printf spoken").stdout == "spo"
    assert town.run("sh", "-c", "printf spoken").stdout == "spoken"


def test_exec_hangs_and_goes_on_when_it_is_healed(town: Town) -> None:
    done: list[str] = []
    with town.fault("exec-hangs", namespace="default", pod="client"):
        waiting = threading.Thread(target=lambda: done.append(town.run("echo", "late").stdout))
        waiting.start()
        assert town.run("hostname", pod="near").returncode == 0
        assert not done
    waiting.join(SETTLED_WITHIN)
    assert done == ["late\n"]


def test_an_exec_that_is_cut_has_no_status(town: Town) -> None:
    with town.fault("exec-cut", first="1"):
        cut = town.run("sh", "-c", "echo spoken; sleep 5; exit 3")
        assert (cut.stdout, cut.returncode) == ("", 1)
        assert town.run("sh", "-c", "exit 3").returncode == 3


def test_a_program_is_missing(town: Town) -> None:
    with town.fault("exec-missing-binary", node="linux-1"):
        done = town.run("hostname")
        assert 'exec: "hostname": executable file not found in $PATH' in done.stderr
        assert done.returncode != 0
        assert town.run("hostname", pod="near").returncode == 0
    assert town.run("hostname").returncode == 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "exec-dial-fails",
            r"Internal error occurred: error dialing backend: dial tcp 10\.0\.0\.\d+:10250: i/o timeout",
        ),
        (
            "exec-start-times-out",
            "failed to start exec: hcs::System::CreateProcess [0-9a-f]{64}: The wait operation timed out.: unknown",
        ),
    ],
)
def test_an_exec_fails_after_the_upgrade_once_and_then_works(
    town: Town, fault: str, words: str
) -> None:
    with town.fault(fault, node="windows-2022", first="1"):
        refused = town.run("hostname", pod="windows")
        assert re.search(words, refused.stderr), refused.stderr
        assert refused.returncode == 1
        assert town.run("hostname", pod="windows").returncode == 0, "the next try succeeds"


def test_another_program_answers(town: Town) -> None:
    with town.fault("exec-wrong-binary", program="hostname"):
        done = town.run("sh", "-c", "exit 3")
        assert (done.stdout, done.returncode) == ("client\n", 0)
    assert town.run("sh", "-c", "exit 3").returncode == 3


def test_a_command_is_killed(town: Town) -> None:
    with town.fault("exec-killed"):
        assert town.run("sleep", "60").returncode == 137
    assert "sleep 60" not in town.run("ps").stdout


def test_a_command_starts_late(town: Town) -> None:
    began = time.monotonic()
    with town.fault("exec-slow", seconds="1.5"):
        assert town.run("hostname").stdout == "client\n"
    assert time.monotonic() - began > 1.5


def test_words_of_a_command_arrive_as_others(town: Town) -> None:
    with town.fault("exec-other-words", words="client", instead="somebody"):
        assert town.run("hostname").stdout == "somebody\n"
    assert town.run("hostname").stdout == "client\n"
