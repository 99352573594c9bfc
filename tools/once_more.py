# SPDX-License-Identifier: Apache-2.0
"""Run pytest, and run the few tests that fail once more, alone: a busy machine fails no build.

python -m tools.once_more PYTEST-ARGUMENTS...

Tests on a lab exchange real packets, and on a starved machine one of some thousands is late. Such
a test passes when nothing runs beside it; a test of something broken fails again. The first failure
is printed whole in any case, and the last lines name each test that passed only alone: such a test
needs a better wait. Tests below tests/unit have no lab and get no second run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FEW = 3
"""The maximum number of failing tests that get a second run: if more fail, it is no accident."""
TESTS_FAILED = 1


def run_pytest(arguments: list[str], cache: Path) -> int:
    """Run pytest with a cache of its own and return its exit code."""
    command = [sys.executable, "-m", "pytest", *arguments, "-o", f"cache_dir={cache}"]
    return subprocess.run(command, check=False).returncode


def failed_tests(cache: Path) -> list[str]:
    """Return the ids of the tests that failed, without the groups that pytest-xdist adds to ids."""
    file = cache / "v" / "cache" / "lastfailed"
    if not file.exists():
        return []
    ids = []
    for test in json.loads(file.read_text(encoding="utf-8")):
        head, _, group = test.rpartition("@")
        ids.append(head if head and "]" not in group else test)
    return sorted(ids)


def main(arguments: list[str]) -> int:
    """Return the exit code of the first run, or 0 if the tests that failed pass alone."""
    with tempfile.TemporaryDirectory() as folder:
        status = run_pytest(arguments, Path(folder, "first"))
        failed = failed_tests(Path(folder, "first"))
        if status != TESTS_FAILED or not 0 < len(failed) <= FEW:
            return status
        if any(test.startswith("tests/unit/") or "::" not in test for test in failed):
            return status
        print(f"running the failed tests again, alone: {', '.join(failed)}", flush=True)
        status = run_pytest(failed, Path(folder, "second"))
        if status == 0:
            print(f"UNSTABLE: passed only when run alone: {', '.join(failed)}", flush=True)
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
