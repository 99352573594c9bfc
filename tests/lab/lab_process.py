# SPDX-License-Identifier: Apache-2.0
"""A lab of one test, started as users start it and ended with the test.

This module shares no code with the suite's own way of starting a lab, because it tests that way.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_WITHIN = 30.0
"""s. Far longer than a start takes, so that only a hanging lab exceeds it."""


SETTLED_WITHIN = 15.0
"""s. Every action of a lab is done within this time, also on a busy machine."""


@dataclass
class RunningLab:
    """A lab that has printed its ready line."""

    process: subprocess.Popen[str]
    kubeconfig: Path
    ready_line: str

    def kubectl(
        self, *arguments: str, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl on the lab; with ``check``, a failure is an error with kubectl's message.

        kubectl loses data of a stream that arrives before it has registered the stream, and reports
        this. Such a command is run once more.
        """
        done = self._kubectl(arguments, stdin)
        if "Unknown stream id" in done.stderr:
            done = self._kubectl(arguments, stdin)
        if check and done.returncode:
            raise RuntimeError(
                f"kubectl {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done

    def _kubectl(
        self, arguments: Sequence[str], stdin: str | None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def hybridlab(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the lab's own command on this lab."""
        return hybridlab(*arguments)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the lab by a signal and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=30)


def hybridlab(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m hybridlab`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "hybridlab", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def running_lab(
    directory: Path,
    *arguments: str,
    launcher: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> Iterator[RunningLab]:
    """Start ``hybridlab up`` and wait for the ready line; end it when the block ends."""
    kubeconfig = directory / "kubeconfig"
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [
            *(launcher or [sys.executable]), "-m", "hybridlab", "up",
            "--kubeconfig", str(kubeconfig), "--ready-fd", str(writer), *arguments,
        ],
        pass_fds=[writer], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    os.close(writer)
    try:
        yield RunningLab(process, kubeconfig, _ready_line(reader, process))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stderr:
            process.stderr.close()


def _ready_line(reader: int, process: subprocess.Popen[str]) -> str:
    line = b""
    deadline = time.monotonic() + READY_WITHIN
    try:
        while not line.endswith(b"\n"):
            if not select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise RuntimeError(f"the lab was not ready within {READY_WITHIN:.0f} s")
            chunk = os.read(reader, 4096)
            if not chunk:
                said = process.stderr.read() if process.stderr else ""
                raise RuntimeError(
                    f"the lab ended with {process.wait(timeout=10)} before it was ready: {said}"
                )
            line += chunk
    finally:
        os.close(reader)
    return line.decode().strip()


def until(test: Callable[[], Any]) -> None:
    """Wait until the test is true, for as long as a busy machine may need."""
    deadline = time.monotonic() + SETTLED_WITHIN
    while not test():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)
