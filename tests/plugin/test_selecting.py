# SPDX-License-Identifier: Apache-2.0
"""docs/selecting.md says what ``-k WORD`` selects, and the README names the same words."""

from __future__ import annotations

import re

from tests.plugin.selecting import PAGE, ROOT, ROW, page, selected

WORDS = {"vxlan", "dns", "service", "policy", "windows", "demo", "ipam", "snat", "disruptive",
         "isolation", "limitations", "pod-to-pod", "node-to-pod"}  # fmt: skip


def rows() -> dict[str, str]:
    return {
        found["word"]: found["what"] for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))
    }


def test_the_table_has_a_row_for_every_subject() -> None:
    assert set(rows()) >= WORDS


def test_the_readme_names_every_word() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    words = re.search(r"\[Words for `-k`\]\(docs/selecting.md\): ([^.]+)\.", text)
    assert words
    assert re.findall(r"`([\w-]+)`", words[1]) == list(rows())


def test_what_changes_the_cluster_is_left_out_by_not_disruptive() -> None:
    everything, quiet, loud, disruptive = selected(
        "vxlan", "vxlan and not disruptive", "vxlan and disruptive", "disruptive"
    )
    assert quiet[0] + loud[0] == everything[0]
    assert "VXLAN-10" not in quiet[1]
    assert set(disruptive[1]) >= {"VXLAN-9", "VXLAN-10", "RST-3"}


def test_the_rows_are_what_the_words_select() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(), "write docs/selecting.md anew: python -m tests.plugin.selecting"
