# SPDX-License-Identifier: Apache-2.0
"""What was run in which pod, kept for the report: one record per exec, failed ones too."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ExecRecord:
    """One exec that ended (or one long-lived exec that was closed)."""

    at: float
    """Unix seconds on the suite's clock when it was asked for."""
    seconds: float
    namespace: str
    pod: str
    container: str
    argv: tuple[str, ...]
    exit_code: int | None
    """None: the exit status never arrived."""
    stdout: bytes
    stderr: bytes
    problem: str = ""
    """What broke, when something did."""


Transcript = Callable[[ExecRecord], None]
"""Called once for every exec, from the thread that ran it: must be quick and thread-safe."""


def forget(record: ExecRecord) -> None:
    """The transcript that keeps nothing."""
