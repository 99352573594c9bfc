# SPDX-License-Identifier: Apache-2.0
"""Hand-written documents stay short, and their commands stay on lines of their own."""

import re
from pathlib import Path

from tests.plugin.selecting import ROW

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
GENERATED = {"detection.md", "faults.md", "modes-table.md", "platforms.md", "wrong-verdicts.md"}
GENERATED_PART = re.compile(
    r"<!-- (?P<name>[a-z ]+?)(?:: begin[^>]*)? -->.*?<!-- (?:end of )?(?P=name)(?:: end)? -->",
    re.DOTALL,
)
FENCED = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SECOND_COMMAND = re.compile(
    r"^(?!\w+=).*[\w.)] (?:pytest -|(?:calico-conformance|hybridlab) (?!calico)[a-z]).*$", re.M
)
LIMIT = 40_000
"""Words, as ``wc -w`` counts them."""


def by_hand(page: Path) -> str:
    """Return the text of a page without the parts that a program writes."""
    text = page.read_text(encoding="utf-8")
    return ROW.sub(r"\g<word> \g<what>", GENERATED_PART.sub("", text))


def run_together(text: str) -> list[str]:
    """Return the lines in fenced blocks that hold a second command, which nobody can paste."""
    return [found[0] for block in FENCED.findall(text) for found in SECOND_COMMAND.finditer(block)]


def test_what_people_write_by_hand_has_at_most_forty_thousand_words() -> None:
    words = {page: len(by_hand(page).split()) for page in PAGES if page.name not in GENERATED}
    longest = [page.name for page in sorted(words, key=words.__getitem__)[-5:]]
    assert sum(words.values()) <= LIMIT, f"{sum(words.values())} words; longest: {longest}"


def test_generated_parts_are_not_counted() -> None:
    page = ROOT / "docs" / "reliability.md"
    assert "<!-- killed runs -->" in page.read_text(encoding="utf-8")
    assert "killed runs -->" not in by_hand(page)
    assert "probing: begin" not in by_hand(ROOT / "docs" / "performance.md")
    assert "VXLAN-10, VXLAN-2" not in by_hand(ROOT / "docs" / "selecting.md")


def test_each_command_has_a_line_of_its_own() -> None:
    found = {
        page: lines for page in PAGES if (lines := run_together(page.read_text(encoding="utf-8")))
    }
    assert not found


def test_commands_that_were_wrapped_into_one_paragraph_are_noticed() -> None:
    wrapped = (
        "```\n"
        "make suite && . .venv/bin/activate pytest -n auto      # everything\n"
        "pytest -k vxlan      # one subject pytest --claim DEMO-7\n"
        "```\n"
    )
    assert len(run_together(wrapped)) == 2
