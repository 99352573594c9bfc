# SPDX-License-Identifier: Apache-2.0
"""A lab of a test's own, started as a user starts it and ended with the test.

It is separate from the suite's own code for starting a lab on purpose, since this code is under
test.
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
"""Seconds; far above what it takes, so that only a lab that hangs is caught."""


SETTLED_WITHIN = 15.0
"""s.  What a lab does is done within this, also on a busy machine."""


@dataclass
class RunningLab:
    """A lab that printed its ready line."""

    process: subprocess.Popen[str]
    kubeconfig: Path
    ready_line: str

    def kubectl(
        self, *arguments: str, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl on it; with ``check`` a failure is an error that shows what kubectl said.

        kubectl throws away what comes by a stream before it has noted that the stream is there, and says so; a command
        that this happened to is run once more.
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
        """Run the lab's own command."""
        return hybridlab(*arguments)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal and return its exit code."""
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
    """Start ``hybridlab up``, wait for the ready line, end it on leaving."""
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
    """Wait until the test is true, with what a busy machine needs for it."""
    deadline = time.monotonic() + SETTLED_WITHIN
    while not test():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)
