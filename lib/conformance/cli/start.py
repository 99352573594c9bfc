# SPDX-License-Identifier: Apache-2.0
"""Commands that replace the process by pytest: run, rerun."""

import argparse
import itertools
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from conformance import product
from conformance.catalog import digest
from conformance.qualify import again
from conformance.qualify.stored import read


def run(rest: Sequence[str]) -> NoReturn:
    """Replace this process by pytest, so that signals and the exit code are pytest's own. The
    command works from any folder, like ``pytest`` in a checkout."""
    program = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(product.root() / "pyproject.toml"),
        str(product.root() / "suites"),
    ]
    named = any(word.partition("=")[0] == "--report-dir" for word in rest)
    here = [] if named else [f"--report-dir={Path.cwd() / 'reports'}"]
    if _caches(rest):  # without its cache plugin, pytest rejects cache_dir
        here += ["-o", f"cache_dir={Path.cwd() / '.pytest_cache'}"]
    sys.stdout.flush()
    os.execv(sys.executable, [*program, *here, *rest])


def _caches(rest: Sequence[str]) -> bool:
    """Return whether pytest keeps its cache, according to these options and the options in
    PYTEST_ADDOPTS."""
    every = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *rest]
    return "-pno:cacheprovider" not in every and (
        "-p",
        "no:cacheprovider",
    ) not in itertools.pairwise(every)


def rerun(options: argparse.Namespace) -> NoReturn:
    """Run pytest as ``run`` does, for the tests of an earlier report. The new report is written
    next to the other reports."""
    again.to_run_again(read(options.report), digest())
    run([f"--rerun-of={options.report}", *options.rest])
