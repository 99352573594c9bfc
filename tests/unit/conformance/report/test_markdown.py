# SPDX-License-Identifier: Apache-2.0
"""No name from a cluster or from a foreign report becomes markup, a link, a picture or a mention
in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from conformance.model.markdown import cell
from conformance.report import causes, runs
from conformance.report.markdown import issue, summary
from tests.unit.conformance.qualify.reports import NEW, OLD, a_gate, decided
from tests.unit.conformance.report.pages import plain

WORDS = (
    "hostile\n# big\n\n```\n</details><script>alert(1)</script><img src=x onerror=alert(1)>`|[x]"
    "(javascript:alert(1)) ![p](http://h.example/p.png) **bold** _em_ ~~gone~~ @org/team (@who) "
    "<http://h.example>\n~~~\n| a | b |\n- item\n\\| \\[y](http://h.example)"
)
OWN_HTML = {"<br>", "<details><summary>", "</summary>", "</details>"}


def hostile(value: Any, *, kept: tuple[str, ...] = ()) -> Any:
    """A value of JSON all of whose texts are hostile but those of some fields."""
    if isinstance(value, dict):
        return {
            name: each if name in kept else hostile(each, kept=kept) for name, each in value.items()
        }
    if isinstance(value, list):
        return [hostile(each, kept=kept) for each in value]
    return WORDS if isinstance(value, str) and value else value


KEPT = ("verdict", "id", "kind", "modality", "claims", "expect", "area", "evidence", "test")


def a_report() -> dict[str, Any]:
    """A report of a violated claim all of whose other texts are hostile."""
    whole = plain(decided("DEMO-7", {OLD: "VIOLATED", NEW: "CONFIRMED"}), notes=["x"], command="x")
    (result,) = [result for claim in whole["claims"] for result in claim["results"]]
    explanation = {
        "claims": ["DEMO-7"], "path": "x", "expected": "x", "observed": "x", "since": "x",
        "lines": {"layer": "x", "because": "x"}, "headline": "x", "table": "x",
        "cause": "x", "again": "x",
        "share": "x", "where": "x", "prefix": "x", "so": "x", "tries": 1, "seconds": 1.0,
    }  # fmt: skip
    whole["tests"] = [
        {"test": result["test"], "verdict": "VIOLATED", "cause": "x", "explanation": explanation}
    ]
    told = hostile({name: whole[name] for name in ("run", "tests", "facts", "claims")}, kept=KEPT)
    whole |= told
    gate = a_gate("qualified") | {
        "name": WORDS,
        "build": WORDS,
        "answer": WORDS,
        "obstacles": [WORDS],
    }
    whole["gates"] = [gate | {"headline": WORDS}]
    whole["claims"] = [claim for claim in whole["claims"] if claim["results"]]
    return whole


def tokens(text: str) -> Iterator[Token]:
    """All tokens of Markdown as GitHub reads it."""
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        yield token
        yield from token.children or ()


def demand_no_markup(text: str) -> None:
    """No markup but the report's own, and no mention outside code."""
    found = list(tokens(text))
    assert not {token.type for token in found} & {
        "link_open", "image", "em_open", "s_open", "code_inline", "code_block"
    }  # fmt: skip
    html = {token.content.strip() for token in found if token.type.startswith("html")}
    assert html <= OWN_HTML
    bold = [found[at + 1].content for at, each in enumerate(found) if each.type == "strong_open"]
    assert "bold" not in bold
    texts = [token.content for token in found if token.type == "text"]
    assert any("hostile" in each for each in texts)
    assert not [each for each in texts if re.search(r"(?<!\w)@\w", each)]


def test_the_summary_has_no_markup_of_a_clusters() -> None:
    text = "\n".join(summary(a_report(), WORDS, WORDS))
    demand_no_markup(text)
    html = [token.content.strip() for token in tokens(text) if token.type == "html_block"]
    assert html.count("</details>") == 1


def test_the_text_for_an_issue_has_no_markup_of_a_clusters() -> None:
    (cause,) = causes.of_report(a_report())
    text = issue(cause, a_report())
    demand_no_markup(text)
    assert len([token for token in tokens(text) if token.type == "heading_open"]) == 1


def test_a_table_of_runs_has_no_markup_of_a_strangers_report() -> None:
    text = runs.as_markdown(runs.table([a_report()], set()))
    demand_no_markup(text)
    rows = [token for token in tokens(text) if token.type == "tr_open"]
    assert len(rows) == 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("image calico/node@sha256:12", "image calico/node@sha256:12"),
        ("a_b and __c*d__", "a_b and \\_\\_c\\*d\\_\\_"),
        ("x\r\ny", "x y"),
    ],
)
def test_what_is_no_markup_stays_readable(text: str, shown: str) -> None:
    assert cell(text) == shown


def test_an_issue_ends_with_the_command_that_runs_its_claims_again() -> None:
    whole = plain(decided("DEMO-7", {OLD: "VIOLATED"}), command="pytest --kubeconfig=lane.yaml")
    (cause,) = causes.of_report(whole)
    assert "--claim" in cause.again
    assert issue(cause, whole).endswith(f"Run it again:\n\n```sh\n{cause.again}\n```")


def test_a_summary_marks_the_sets_that_the_run_required() -> None:
    whole = plain(decided("DEMO-7", {OLD: "VIOLATED"}))
    whole["gates"] = [a_gate("qualified", build=NEW)]
    whole["sets"] = [
        {"name": "vxlan", "build": NEW, "answer": "incomplete", "headline": "vxlan: incomplete"}
    ]
    rows = [line for line in summary(whole, "x", "") if line.startswith(("| **", "| vxlan"))]
    name = whole["gates"][0]["name"]
    assert {row.split(" | ")[0] for row in rows} == {"| vxlan", f"| **{name}** (required)"}
