# SPDX-License-Identifier: Apache-2.0
"""The run's own lab: a process that the controller starts, waits for and ends. The run reaches the
lab like any cluster, by its kubeconfig, and knows nothing else about it.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from conformance.errors import ClusterUnusable, UsageProblem
from conformance.settings import RunTimings
from conformance.timing import Deadline

_USAGE = 4
_ENVIRONMENT = 7
SOURCES = str(Path(__file__).parents[2])
"""The path of the lab's package, needed if nothing is installed and only pytest knows the source
root."""
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """Ask the kernel for SIGTERM when pytest dies, even by kill -9. Called in the child process,
    before it becomes the lab."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class LabProcess:
    """``python -m hybridlab up`` with its kubeconfig and log in the run's directory."""

    def __init__(
        self,
        folder: Path,
        profile: str | None,
        timings: RunTimings,
        powershell: str | None = None,
    ) -> None:
        if sys.platform != "linux":
            raise ClusterUnusable(
                [
                    "a lab needs Linux, and this system is not Linux: name a cluster by "
                    "--kubeconfig=FILE"
                ]
            )
        folder.mkdir(parents=True, exist_ok=True)
        self.kubeconfig = folder / "kubeconfig"
        self.log = folder / "lab.log"
        self._timings = timings
        reading, writing = os.pipe()
        self._ready = reading
        command = [sys.executable, "-m", "hybridlab", "up", "--kubeconfig", str(self.kubeconfig)]
        command += ["--ready-fd", str(writing), *(["--profile", profile] if profile else [])]
        command += [f"--powershell={powershell}"] if powershell else []
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTEST_", "COV_"))
        }
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [SOURCES, environment.get("PYTHONPATH", "")])
        )
        try:
            with self.log.open("wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(writing,),
                    env=environment,
                    start_new_session=True,  # Ctrl-C is for pytest, which ends the lab after its last test
                    preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call; no other thread runs yet
                )
        finally:
            os.close(writing)

    def wait(self) -> str:
        """Wait until the lab is ready; return its output. Raise UsageProblem (profile) or
        ClusterUnusable."""
        deadline = Deadline(self._timings.lab_ready)
        output = b""
        while not output.endswith(b"\n"):
            readable, _, _ = select.select([self._ready], [], [], deadline.remaining)
            if not readable:
                raise ClusterUnusable(
                    [
                        f"the lab was not ready after {self._timings.lab_ready:g} s; its log: {self.log}"
                    ]
                )
            data = os.read(self._ready, 65536)
            if not data:
                self._raise_ended()
            output += data
        return output.decode(errors="replace")

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL if it takes too long; harmless if the lab has ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(self._timings.lab_end)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._ready >= 0:
            os.close(self._ready)
            self._ready = -1

    def watch(self, lost: Callable[[str], object]) -> None:
        """From now on, report in one line if the lab ends by itself because the lab or this machine
        lacks a resource."""

        def wait() -> None:
            if self._process.wait() == _ENVIRONMENT:
                lost(f"the lab ended: {self._last_words()}")

        threading.Thread(target=wait, daemon=True).start()

    def _last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        begins = max(
            (at for at, line in enumerate(lines) if line.startswith("hybridlab: ")), default=-1
        )
        return (
            " ".join(map(str.strip, lines[begins:])) or "it printed nothing"
        )  # the lab prints a line for each missing resource

    def _raise_ended(self) -> None:
        status = self._process.wait(self._timings.lab_end)
        last = self._last_words()
        if status == _USAGE:
            raise UsageProblem(f"the lab refused: {last}")
        raise ClusterUnusable(
            [
                f"the lab ended with exit status {status} before it was ready: {last}; log: {self.log}"
            ]
        )
