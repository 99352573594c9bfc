# SPDX-License-Identifier: Apache-2.0
"""The judge's own reading of selectors: three answers, by Calico's language and by Kubernetes'."""

from __future__ import annotations

import pytest

from conformance.policy.selectors import calico, calico_namespaces, kubernetes
from conformance.policy.truth import Truth

YES, NO, UNREADABLE = True, False, None
DB = {"role": "db", "tier": "gold-1"}


@pytest.mark.parametrize(
    ("text", "labels", "answer"),
    [
        ("", {}, YES),
        (" \t", {}, YES),
        ("all()", {}, YES),
        ("all( )", {}, YES),
        ("global()", DB, YES),
        ("!all()", DB, NO),
        ("role == 'db'", DB, YES),
        ('role == "db"', DB, YES),
        ("role=='db'", DB, YES),
        ("role == 'web'", DB, NO),
        ("role == 'db'", {}, NO),
        ("role != 'db'", DB, NO),
        ("role != 'web'", DB, YES),
        ("role != 'db'", {}, YES),
        ("role in {'web', 'db'}", DB, YES),
        ("role in {'web', 'db',}", DB, YES),
        ("role in{'db'}", DB, YES),
        ("role in {'web'}", DB, NO),
        ("role in {}", DB, NO),
        ("role in {''}", {}, NO),
        ("role not in {'db'}", DB, NO),
        ("role notin {'db'}", DB, NO),
        ("role not in {'web'}", DB, YES),
        ("role not in {'db'}", {}, YES),
        ("has(role)", DB, YES),
        ("has( role )", DB, YES),
        ("has(team)", DB, NO),
        ("!has(team)", DB, YES),
        ("! has(role)", DB, NO),
        ("!!has(role)", DB, YES),
        ("role contains 'd'", DB, YES),
        ("role contains 'x'", DB, NO),
        ("role contains ''", {}, NO),
        ("tier starts with 'gold'", DB, YES),
        ("tier startswith 'gold'", DB, YES),
        ("tier starts with '1'", DB, NO),
        ("tier starts with ''", {"x": "y"}, NO),
        ("tier ends with '-1'", DB, YES),
        ("tier ends with 'gold'", DB, NO),
        ("has(role) && has(team)", DB, NO),
        ("has(role) || has(team)", DB, YES),
        ("has(team) && has(team) || has(role)", DB, YES),
        ("has(role) || has(team) && has(team)", DB, YES),
        ("(has(role) || has(team)) && has(team)", DB, NO),
        ("!(has(role) && has(team))", DB, YES),
        ("!role == 'web'", DB, YES),
        ("!has(role) || has(role)", DB, YES),
        ("!has(role) && has(team)", {"team": "a"}, YES),
        ("a in {\"'\", '\"'}", {"a": "'"}, YES),
        ("projectcalico.org/name == 'x-1'", {"projectcalico.org/name": "x-1"}, YES),
        ("not == 'x'", {"not": "x"}, YES),
        ("all == 'x'", {"all": "x"}, YES),
    ],
)
def test_calicos_language(text: str, labels: dict[str, str], answer: Truth) -> None:
    assert calico(text).selects(labels) is answer


@pytest.mark.parametrize(
    "text",
    [
        "role",
        "role ==",
        "role = 'db'",
        "role == db",
        "'db' == role",
        "role == 'db",
        "role == \"db'",
        "role == 'db' &",
        "role == 'db' &&",
        "role == 'db' | has(role)",
        "role == 'db' has(role)",
        "role in 'db'",
        "role in {'db'",
        "role in {'db' 'web'}",
        "role in {,}",
        "role in {db}",
        "role matches 'x'",
        "role starts 'x'",
        "has (role)",
        "has()",
        "has(role",
        "all ()",
        "all(x)",
        "!",
        "(",
        "()",
        ")",
        "(has(role)",
        "%",
        "role == 'db' || %",
        "role\n== 'db'",
        "has(r\u00f6le)",
        f"has({'x' * 513})",
        "(" * 5000 + "all()" + ")" * 5000,
    ],
)
def test_what_cannot_be_read_is_neither_answer(text: str) -> None:
    selector = calico(text)
    assert (selector.selects(DB), selector.selects({}), selector.selects(None)) == (UNREADABLE,) * 3
    assert selector.problem
    with pytest.raises(ValueError, match="cannot be read"):
        selector.holds(DB)


def test_a_problem_says_where() -> None:
    assert calico("role == db").problem == "a string in quotes expected at 9, not 'db'"
    assert (
        calico("has(role) &&").problem
        == "a label, has(), all(), '!' or '(' expected at 13, not the end"
    )


@pytest.mark.parametrize(
    ("text", "in_blue", "in_none"),
    [
        ("all()", YES, NO),
        ("global()", NO, YES),
        ("!global()", YES, NO),
        ("global() || team == 'blue'", YES, YES),
        ("team == 'blue'", YES, NO),
        ("team != 'red'", YES, YES),
        ("!has(other)", YES, YES),
        ("", YES, YES),
        ("projectcalico.org/name == 'b'", YES, NO),
    ],
)
def test_a_selector_of_namespaces(text: str, in_blue: Truth, in_none: Truth) -> None:
    blue = {"team": "blue", "projectcalico.org/name": "b"}
    assert calico_namespaces(text).selects(blue) is in_blue
    assert calico_namespaces(text).selects({}) is in_none


def test_labels_that_are_not_known_leave_only_what_selects_all() -> None:
    assert calico("has(role)").selects(None) is UNREADABLE
    assert calico("!has(role)").selects(None) is UNREADABLE
    assert calico("all()").selects(None) is YES
    assert calico_namespaces("all()").selects(None) is UNREADABLE
    assert kubernetes({}).selects(None) is YES
    assert kubernetes({"matchLabels": {"role": "db"}}).selects(None) is UNREADABLE


@pytest.mark.parametrize(
    ("selector", "labels", "answer"),
    [
        ({}, {}, YES),
        ({"matchLabels": None, "matchExpressions": []}, {}, YES),
        ({"matchLabels": {"role": "db"}}, DB, YES),
        ({"matchLabels": {"role": "db", "tier": "x"}}, DB, NO),
        ({"matchLabels": {"role": ""}}, {}, NO),
        (
            {"matchExpressions": [{"key": "role", "operator": "In", "values": ["web", "db"]}]},
            DB,
            YES,
        ),
        ({"matchExpressions": [{"key": "role", "operator": "In", "values": ["web"]}]}, DB, NO),
        ({"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["db"]}]}, DB, NO),
        ({"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["db"]}]}, {}, YES),
        ({"matchExpressions": [{"key": "role", "operator": "Exists"}]}, DB, YES),
        ({"matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]}, DB, NO),
        (
            {
                "matchLabels": {"role": "db"},
                "matchExpressions": [{"key": "x", "operator": "Exists"}],
            },
            DB,
            NO,
        ),
        ({"matchExpressions": [{"key": "role", "operator": "In", "values": []}]}, DB, UNREADABLE),
        (
            {"matchExpressions": [{"key": "role", "operator": "Exists", "values": ["db"]}]},
            DB,
            UNREADABLE,
        ),
        (
            {"matchExpressions": [{"key": "role", "operator": "Gt", "values": ["1"]}]},
            DB,
            UNREADABLE,
        ),
        ({"matchExpressions": [{"operator": "Exists"}]}, DB, UNREADABLE),
        ({"matchLabels": ["role"]}, DB, UNREADABLE),
        ({"matchlabels": {"role": "web"}}, DB, UNREADABLE),
    ],
)
def test_kubernetes_label_selectors(
    selector: dict[str, object], labels: dict[str, str], answer: Truth
) -> None:
    assert kubernetes(selector).selects(labels) is answer
