# SPDX-License-Identifier: Apache-2.0
"""The commands that start each probe program, and the lab's stand-in for the Windows programs, on
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
    """Return the implementations of a program: the Linux program, the lab's stand-in for the
    Windows program, and the Windows program itself."""
    return {
        "python": (*PYTHON, str(PROGRAMS / python)),
        "emulated": (*EMULATED, str(PROGRAMS / powershell)),
        "pwsh": (*PWSH, str(PROGRAMS / powershell)),
    }


AGENTS = ways("agent.py", "matrix-agent.ps1")
STREAM_AGENTS = ways("stream_agent.py", "stream-agent.ps1")
ECHO_SERVERS = ways("echo_server.py", "echo-server.ps1")
PAIRS = [(stream_agent, other) for stream_agent in STREAM_AGENTS for other in STREAM_AGENTS]
"""All pairs of an agent that opens a stream and an agent that accepts it."""
FAILED = pytest.StashKey[bool]()
"""Set for a test that failed: no other test gets the programs that it used."""
TIMES = {"every_ms": 20, "stall_ms": 250}
STALLING = {"every_ms": 20, "stall_ms": 1500}
"""Times for tests that cause stalls on purpose: a busy machine may stop a program for some hundred
milliseconds, which must not count as a stall."""
PATIENT = {"every_ms": 20, "stall_ms": 60_000}
"""Times with which nothing counts as a stall."""
OTHER = {"opened": "accepted", "accepted": "opened"}


def startable(argv: Sequence[str]) -> list[str]:
    """Return the words of the command; skip the test if this machine has no interpreter for the
    program."""
    if shutil.which(argv[0]) is None:
        pytest.skip(f"no {argv[0]} on the PATH: {Path(argv[-1]).name} was not executed")
    return list(argv)


def options(argv: Sequence[str], *, beat: float, idle: float) -> list[str]:
    """Return the command that starts an agent with other times, in seconds."""
    if argv[-1].endswith(".ps1"):
        return [*argv, "-BeatMs", str(int(beat * 1000)), "-IdleMs", str(int(idle * 1000))]
    return [*argv, "--beat", str(beat), "--idle", str(idle)]
