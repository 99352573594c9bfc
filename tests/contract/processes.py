# SPDX-License-Identifier: Apache-2.0
"""Running programs, each in a session and with a folder for temporary files of its own, which are
removed with it.

The started command may not be the program itself: `pwsh` as a package manager of .NET installs it
starts a child, and does not end the child when it dies.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def children_of(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):  # the process may just have ended
            if path.name.isdigit() and parent_of(int(path.name)) == pid:
                found.append(int(path.name))
    return found


class Process:
    """A running command."""

    def __init__(self, argv: Sequence[str], **options: Any) -> None:
        """Start the command. ``options`` are Popen's; ``env`` is added to this process's
        environment."""
        self.folder = tempfile.mkdtemp(prefix="probe-")
        environment = {**os.environ, **options.pop("env", {}), "TMPDIR": self.folder}
        try:
            self.popen = subprocess.Popen(argv, env=environment, start_new_session=True, **options)
        except OSError:
            shutil.rmtree(self.folder)
            raise
        self._pid = 0

    @property
    def pid(self) -> int:
        """Return the program's own pid, once it has written its first line."""
        if not self._pid:
            self._pid = self.popen.pid
            while children := children_of(self._pid):
                self._pid = children[0]
        return self._pid

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def cpu(self) -> float:
        """Return the processor seconds that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def sockets(self) -> int:
        """Return the number of the process's open sockets."""
        count = 0
        for path in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                count += str(path.readlink()).startswith("socket:")
        return count

    def woken(self) -> int:
        """Return how often all threads of the process together were woken after waiting."""
        states = (path.read_text() for path in Path(f"/proc/{self.pid}/task").glob("*/status"))
        return sum(
            int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", state, re.MULTILINE)[0])
            for state in states
        )

    def end(self) -> None:
        """End every process of the session, and remove its temporary files."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(60)  # on a starved machine even SIGKILL takes time
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe and not pipe.closed:
                with contextlib.suppress(OSError):
                    pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def completed(
    argv: Sequence[str], within: float, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, and end every process that it started."""
    process = Process(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    try:
        out, err = process.popen.communicate(timeout=within)
        return subprocess.CompletedProcess(list(argv), process.popen.returncode, out, err)
    finally:
        process.end()


def quiet(process: Process, share: float = 0.03, within: float = 60) -> None:
    """Wait until the process uses less than this share of a core for 3 s, as an idle process
    does."""
    deadline = time.monotonic() + within
    while True:
        begun, used = time.monotonic(), process.cpu()
        time.sleep(3)
        found = (process.cpu() - used) / (time.monotonic() - begun)
        if found < share:
            return
        assert time.monotonic() < deadline, f"it uses {found:.1%} of a core"
