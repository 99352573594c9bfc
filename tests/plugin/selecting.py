"""What ``-k WORD`` selects, collected anew; ``python -m tests.plugin.selecting`` writes docs/selecting.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "selecting.md"
ROW = re.compile(
    r"^\| `(?P<word>[\w-]+)` \| (?P<what>[^|]+) \| (?P<count>\d+) \| (?P<claims>[A-Z0-9, -]+) \|$", re.MULTILINE
)
COLLECT = """
import sys, pytest
from conformance.plugin.judge import PLANNED

class Claims:
    def pytest_collection_finish(self, session):
        # `make new-claim` begins tests that are skipped
        written = [item for item in session.items if not item.get_closest_marker("skip")]
        print("tests", len(written))
        print("claims", *sorted({part.claim for item in written for part in item.stash[PLANNED].parts}))

pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "-k", sys.argv[1]], plugins=[Claims()])
"""


def selected(word: str) -> tuple[int, list[str]]:
    """How many tests a word selects, and which claims they decide."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, word], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    told = dict(line.partition(" ")[::2] for line in done.stdout.splitlines() if line.startswith(("tests ", "claims ")))
    return int(told["tests"]), told["claims"].split()


def page() -> str:
    """The page with the figures as they are."""

    def row(found: re.Match[str]) -> str:
        count, claims = selected(found["word"])
        return f"| `{found['word']}` | {found['what']} | {count} | {', '.join(claims)} |"

    return ROW.sub(row, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
