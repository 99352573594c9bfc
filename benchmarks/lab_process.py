# SPDX-License-Identifier: Apache-2.0
"""A lab for one benchmark, started as users start it and ended with the benchmark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Lab:
    """A running lab."""

    process: subprocess.Popen[bytes]
    kubeconfig: Path
    ready_seconds: float
    """The seconds from the start of the process to its ready line."""


@contextmanager
def lab(profile: str = "default", overrides: Sequence[str] = ()) -> Iterator[Lab]:
    """Start ``hybridlab up`` and wait for its ready line; end it when the block ends."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        kubeconfig = Path(directory) / "kubeconfig"
        reader, writer = os.pipe()
        command = [
            sys.executable,
            "-m",
            "hybridlab",
            "up",
            "--profile",
            profile,
            "--kubeconfig",
            str(kubeconfig),
        ]
        command += [part for override in overrides for part in ("--set", override)]
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--ready-fd", str(writer)], pass_fds=[writer], stdout=subprocess.DEVNULL
        )
        os.close(writer)
        with os.fdopen(reader) as ready:
            line = ready.readline()
        seconds = time.perf_counter() - started
        if not line:
            raise SystemExit(f"the lab did not become ready, it ended with {process.wait()}")
        try:
            yield Lab(process, kubeconfig, seconds)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
