# SPDX-License-Identifier: Apache-2.0
"""A lab that is ended, or loses a process, before it is ready; and a lab that receives two
requests to end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.lab.lab_process import running_lab


@dataclass
class Starting:
    """A lab on its way up."""

    process: subprocess.Popen[str]
    kubeconfig: Path

    def inside(self, count: int) -> list[psutil.Process]:
        """Its processes, once there are so many beside the command."""
        parent = psutil.Process(self.process.pid)
        while self.process.poll() is None:
            children: list[psutil.Process] = parent.children(recursive=True)
            if len(children) >= count:
                return children
            time.sleep(0.005)
        raise RuntimeError(f"the lab ended by itself with {self.process.returncode}")

    def ended(self) -> tuple[int, str]:
        """Exit code and standard error."""
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said


@pytest.fixture
def starting(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starting]:
    kubeconfig, short = (
        tmp_path / "kubeconfig",
        str(tmp_path_factory.getbasetemp()),
    )  # a socket's name has 107 bytes
    process = subprocess.Popen(
        [sys.executable, "-m", "hybridlab", "up", "--profile", "small", "--kubeconfig", str(kubeconfig)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=short),
    )  # fmt: skip
    try:
        yield Starting(process, kubeconfig)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


WHILE_IMPORTING = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "hybridlab.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored in what it runs in the background
sys.meta_path.insert(0, Finder())
from hybridlab.__main__ import command
command()
"""


def test_ctrl_c_before_anything_of_it_is_loaded_ends_it_without_a_word() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHILE_IMPORTING],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.2, 0.3])
def test_a_signal_while_it_starts_ends_it_in_good_order(
    starting: Starting, number: int, seconds: float
) -> None:
    left = starting.inside(1)
    time.sleep(seconds)
    starting.process.send_signal(number)
    code, said = starting.ended()
    assert code == 0, said
    assert "Traceback" not in said
    assert not starting.kubeconfig.exists()
    psutil.wait_procs(left, timeout=5)
    assert [process.pid for process in left if process.is_running()] == []


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.1, 0.15, 0.2, 0.3])
@pytest.mark.parametrize("victim", [0, 1], ids=["waiter", "labd"])
def test_a_process_that_dies_while_it_starts_ends_it_with_one_line(
    starting: Starting, victim: int, seconds: float
) -> None:
    found = starting.inside(victim + 1)
    time.sleep(seconds)
    found[victim].kill()
    code, said = starting.ended()
    lines = [line for line in said.splitlines() if not line.startswith("labd ")]
    assert (code, len(lines)) == (7, 1), said
    assert "hybridlab: labd" in lines[0]
    assert not starting.kubeconfig.exists()


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.1, 0.2])
def test_a_second_ctrl_c_does_not_interrupt_the_end(tmp_path: Path, seconds: float) -> None:
    with running_lab(tmp_path, "--profile", "small") as lab:
        lab.process.send_signal(signal.SIGINT)
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            lab.process.send_signal(signal.SIGINT)
        assert lab.process.wait(timeout=30) == 0
        assert not lab.kubeconfig.exists()
