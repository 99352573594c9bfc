# SPDX-License-Identifier: Apache-2.0
"""Runs of pytest in forked processes. They are forked from a process that has imported pytest, its
plugins and the judge.

Most of the time of an empty suite is spent on imports. A forked run has everything that a run in a
new process has: its own arguments, folder, environment, output, signals and exit code. Runs that
end in a special way, by signals or with threads left, are started as new processes instead
(``Project.start``).
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
from collections.abc import Mapping
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(
    arguments: list[str], folder: Path, environment: Mapping[str, str], out: Path, within: float
) -> int:
    """Run ``python -m pytest ARGUMENTS`` with its output in a file, and return its exit code. Raise
    TimeoutError."""
    process = _context().Process(
        target=_pytest, args=(arguments, str(folder), dict(environment), str(out))
    )
    process.start()
    process.join(within)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(
            f"pytest {' '.join(arguments)} did not end within {within:g} s:\n{out.read_text()}"
        )
    return process.exitcode


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.plugin.warmed"])
    before = os.environ.get("PYTHONPATH")
    # the fork server searches for modules there
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT / "lib"), str(ROOT)))
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    return context


def _pytest(arguments: list[str], folder: str, environment: dict[str, str], out: str) -> None:
    """Run pytest in the forked process, as a shell would."""
    os.setsid()
    with Path(out).open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[:] = [folder, *environment["PYTHONPATH"].split(os.pathsep), *_of_python()]
    sys.argv[:] = ["pytest", *arguments]
    random.seed()
    if "-n" in arguments:
        from tests.plugin import forked_workers

        forked_workers.use()
    import pytest

    sys.exit(pytest.console_main())


def _of_python() -> list[str]:
    """Return the search path without the entries of the run that this process is forked from."""
    return [entry for entry in sys.path if entry and Path(entry) not in {ROOT, ROOT / "lib"}]
