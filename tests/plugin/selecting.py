# SPDX-License-Identifier: Apache-2.0
"""The tests that each ``-k WORD`` selects, by a new collection; ``python -m
tests.plugin.selecting`` writes docs/selecting.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "selecting.md"
ROW = re.compile(
    r"^\| `(?P<word>[\w-]+)` \| (?P<what>[^|]+) \| (?P<count>\d+) \| (?P<claims>[A-Z0-9, -]+) \|$",
    re.MULTILINE,
)
COLLECT = """
import os, sys, pytest
from conformance.plugin.judge.stash import PLANNED

class Claims:
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config):
        for word in sys.argv[1:]:
            child = os.fork()  # what is collected is the same for every word
            if not child:
                config.option.keyword = word
                return (yield)
            os.waitpid(child, 0)
        os._exit(0)

    def pytest_collection_finish(self, session):
        # `make new-claim` begins tests that are skipped
        written = [item for item in session.items if not item.get_closest_marker("skip")]
        claims = sorted({part.claim for item in written for part in item.stash[PLANNED].parts})
        print("\\nselected", len(written), *claims, flush=True)
        os._exit(0)

pytest.main(["--collect-only", "-q", "-s", "-p", "no:cacheprovider"], plugins=[Claims()])
"""


def selected(*words: str) -> list[tuple[int, list[str]]]:
    """Return, for each word, the number of selected tests and the claims that they decide."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    told = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("selected ")]
    if len(told) != len(words):
        raise RuntimeError(f"{len(words)} words, {len(told)} answers:\n{done.stdout}{done.stderr}")
    return [(int(count), claims) for count, *claims in told]


def page() -> str:
    """Return the page with the present figures."""
    words = [found["word"] for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))]
    told = dict(zip(words, selected(*words), strict=True))

    def row(found: re.Match[str]) -> str:
        count, claims = told[found["word"]]
        return f"| `{found['word']}` | {found['what']} | {count} | {', '.join(claims)} |"

    return ROW.sub(row, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
