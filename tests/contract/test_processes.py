# SPDX-License-Identifier: Apache-2.0
"""A program that another command started is found, receives signals, and ends with its session."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.contract.processes import Process, completed

WRAPPER = ["sh", "-c", "python3 -c 'import time; print(1, flush=True); time.sleep(600)'; true"]
"""As `pwsh` of a package manager of .NET: it waits for the program, and passes no signal on."""


def state(pid: int) -> str:
    """One letter, `Z` of what has ended; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return ""


def test_the_program_behind_a_command_gets_the_signals_and_ends_with_it() -> None:
    process = Process(WRAPPER, stdout=subprocess.PIPE)
    assert process.popen.stdout
    process.popen.stdout.readline()
    pid = process.pid
    assert pid != process.popen.pid
    assert "time.sleep" in Path(f"/proc/{pid}/cmdline").read_text()
    process.signal(signal.SIGSTOP)
    while state(pid) != "T":
        time.sleep(0.01)
    process.end()
    deadline = time.monotonic() + 10
    while state(pid) not in ("", "Z"):
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.01)
    assert not Path(process.folder).exists()


def test_what_is_too_slow_is_ended_with_all_that_it_started() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        completed(WRAPPER, within=0.5)


def test_a_program_that_is_not_there_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(FileNotFoundError):
        Process(["no-such-program"])
    assert list(tmp_path.iterdir()) == []
