# SPDX-License-Identifier: Apache-2.0
"""The commands that were run in pods, kept for the report: a record for each exec, also for those
that failed."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ExecRecord:
    """An exec that ended (or a long-lived exec that was closed)."""

    at: float
    """The time of the request, in Unix seconds on the suite's clock."""
    seconds: float
    namespace: str
    pod: str
    container: str
    argv: tuple[str, ...]
    exit_code: int | None
    """None if the exit status never arrived."""
    stdout: bytes
    stderr: bytes
    problem: str = ""
    """The fault, if there was any."""


Transcript = Callable[[ExecRecord], None]
"""A function that is called once for every exec, from the thread that ran it. It must be quick and
thread-safe."""


def forget(record: ExecRecord) -> None:
    """Discard a record. Callers that need no transcript pass this function."""
