# SPDX-License-Identifier: Apache-2.0
"""The commands that start each probe program, and the lab's stand-in for a Windows program, on
this machine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[2] / "manifests" / "probes"
PWSH = ("pwsh", "-NoLogo", "-NoProfile", "-NonInteractive", "-File")
PYTHON = (sys.executable, "-I", "-S", "-u")
EMULATED = (sys.executable, "-m", "tests.contract.emulated")


def ways(python: str, powershell: str) -> dict[str, tuple[str, ...]]:
    """A program's implementations: for Linux, the lab's stand-in for the Windows one, and that
    itself."""
    return {
        "python": (*PYTHON, str(PROGRAMS / python)),
        "emulated": (*EMULATED, str(PROGRAMS / powershell)),
        "pwsh": (*PWSH, str(PROGRAMS / powershell)),
    }


AGENTS = ways("agent.py", "matrix-agent.ps1")
STREAM_AGENTS = ways("stream_agent.py", "stream-agent.ps1")
ECHO_SERVERS = ways("echo_server.py", "echo-server.ps1")
PAIRS = [(stream_agent, other) for stream_agent in STREAM_AGENTS for other in STREAM_AGENTS]
"""Who opens a stream, and who accepts it."""
FAILED = pytest.StashKey[bool]()
"""Set for a test that failed: what it shared is given to no other."""
TIMES = {"every_ms": 20, "stall_ms": 250}
STALLING = {"every_ms": 20, "stall_ms": 1500}
"""Where only what a test does is a stall: a machine that others use stops a program for some
hundred milliseconds."""
PATIENT = {"every_ms": 20, "stall_ms": 60_000}
"""Where nothing is."""
OTHER = {"opened": "accepted", "accepted": "opened"}


def startable(argv: Sequence[str]) -> list[str]:
    """The same words; skips the test where the program has no interpreter here."""
    if shutil.which(argv[0]) is None:
        pytest.skip(f"no {argv[0]} on the PATH: {Path(argv[-1]).name} was not executed")
    return list(argv)


def options(argv: Sequence[str], *, beat: float, idle: float) -> list[str]:
    """The words that start an agent with other times, in seconds."""
    if argv[-1].endswith(".ps1"):
        return [*argv, "-BeatMs", str(int(beat * 1000)), "-IdleMs", str(int(idle * 1000))]
    return [*argv, "--beat", str(beat), "--idle", str(idle)]
