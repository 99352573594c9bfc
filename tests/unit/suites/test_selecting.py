"""docs/selecting.md says what ``-k WORD`` selects, as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "selecting.md"
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| (\d+) \| ([A-Z0-9, -]+) \|$", re.MULTILINE)
COLLECT = """
import sys, pytest
from conformance.plugin.judge import PLANNED

class Claims:
    def pytest_collection_finish(self, session):
        print("tests", len(session.items))
        print("claims", *sorted({part.claim for item in session.items for part in item.stash[PLANNED].parts}))

pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "-k", sys.argv[1]], plugins=[Claims()])
"""
WORDS = {"vxlan", "dns", "service", "policy", "windows", "demo", "ipam"}


def rows() -> dict[str, tuple[int, set[str]]]:
    return {word: (int(count), set(claims.split(", "))) for word, count, claims in ROW.findall(PAGE.read_text())}


def test_the_table_has_a_row_for_every_subject() -> None:
    assert set(rows()) >= WORDS


def test_the_readme_has_the_same_words_and_counts() -> None:
    short = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\d+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert {word: int(count) for word, count in short} == {word: count for word, (count, _) in rows().items()}


@pytest.mark.parametrize("word", sorted(WORDS))
def test_the_row_of_a_word_is_what_it_selects(word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, word], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    told = dict(line.partition(" ")[::2] for line in done.stdout.splitlines() if line.startswith(("tests ", "claims ")))
    count, claims = rows()[word]
    assert (count, sorted(claims)) == (int(told["tests"]), told["claims"].split()), (
        f"in docs/selecting.md write: | `{word}` | ... | {told['tests']} | {', '.join(told['claims'].split())} |"
    )
