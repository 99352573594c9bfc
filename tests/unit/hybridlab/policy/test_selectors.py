# SPDX-License-Identifier: Apache-2.0
"""Calico's selector language: what a selector matches, its canonical form, and how a wrong
selector is refused."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.policy.label_selectors import namespaces_selected, pods_selected
from hybridlab.policy.selectors import SelectorError, parse

LABELS = {"app": "web", "tier": "front-end", "a.b/c": "x", "empty": "", "quoted": "it's"}


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "  ",
        "all()",
        "app == 'web'",
        'app=="web"',
        "app != 'db'",
        "missing != 'anything'",
        "app in {'db', 'web'}",
        "app in { 'web' }",
        "app not in {'db'}",
        "missing not in {'db'}",
        "app not  in {'db'}",
        "has(app)",
        "has(a.b/c)",
        "has(empty)",
        "!has(missing)",
        "! has(missing)",
        "!!has(app)",
        "tier contains 'ont-e'",
        "tier starts with 'front'",
        "tier ends with '-end'",
        "tier ends with ''",
        "a.b/c == 'x'",
        "empty == ''",
        'quoted == "it\'s"',
        "app == 'web' && tier == 'front-end'",
        "app == 'db' || app == 'web'",
        "app == 'web' || app == 'x' && app == 'y'",
        "(app == 'db' || app == 'web') && has(tier)",
        "!(app == 'db')",
        "!(app == 'db' || has(missing))",
        "!app == 'db'",
        "global()",
    ],
)
def test_matches(selector: str) -> None:
    assert parse(selector).matches(LABELS)


@pytest.mark.parametrize(
    "selector",
    [
        "app == 'db'",
        "missing == ''",
        "app != 'web'",
        "missing in {'db', ''}",
        "app in {'db'}",
        "app in {}",
        "app not in {'db', 'web'}",
        "has(missing)",
        "!has(app)",
        "!all()",
        "tier contains 'xyz'",
        "tier starts with 'end'",
        "tier ends with 'front'",
        "missing contains ''",
        "missing starts with ''",
        "missing ends with ''",
        "app == 'web' && app == 'db'",
        "app == 'db' || app == 'x'",
        "(app == 'web' || app == 'x') && app == 'y'",
        "!(app == 'web')",
        "app == 'WEB'",
    ],
)
def test_does_not_match(selector: str) -> None:
    assert not parse(selector).matches(LABELS)


def test_global_is_what_has_no_namespace() -> None:
    assert parse("global()").matches({})
    assert not parse("global()").matches({"projectcalico.org/namespace": "demo"})


@pytest.mark.parametrize(
    ("selector", "canonical"),
    [
        ("", "all()"),
        ("a=='b'", 'a == "b"'),
        ("a  in {'c','b'}", 'a in {"b", "c"}'),
        ("a not in {'b'}", 'a not in {"b"}'),
        ("a=='b'&&(has(c)||!has(d))", '(a == "b" && (has(c) || !has(d)))'),
        ("!(a starts with 'x')", '!a starts with "x"'),
        ("a == 'say \"hi\"'", "a == 'say \"hi\"'"),
    ],
)
def test_canonical_form(selector: str, canonical: str) -> None:
    assert str(parse(selector)) == canonical
    assert str(parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a = 'b'", "expected an operator after 'a' at position 2"),
        ("a == b", "expected a quoted string, found 'b' at position 5"),
        ("a == 'b", "unterminated string at position 5"),
        ("a ==", "expected a quoted string, found the end at position 4"),
        ("a", "expected an operator"),
        ("a in 'b'", "expected {, found \"'b'\" at position 5"),
        ("a in {'b' 'c'}", "expected }, found \"'c'\" at position 10"),
        ("a in {'b'", "expected }, found the end at position 9"),
        ("has(a", "expected ) after has( at position 5"),
        ("has()", "unexpected ')' at position 4"),
        ("(a == 'b'", "expected ), found the end at position 9"),
        ("a == 'b')", "expected &&, || or the end, found ')' at position 8"),
        ("a == 'b' &&", "found the end at position 11"),
        ("a == 'b' & has(c)", "unexpected '&' at position 9"),
        ("a == 'b' has(c)", "expected &&, || or the end, found 'has(c)' at position 9"),
        ("&& a == 'b'", "found '&&' at position 0"),
        ("a == 'b' || $", "unexpected '$' at position 12"),
        ("a not 'b'", "expected an operator"),
    ],
)
def test_a_wrong_selector_is_refused_with_its_position(selector: str, message: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse(selector)
    assert message in str(refused.value)
    assert repr(selector) in str(refused.value)


@pytest.mark.parametrize(
    ("selector", "required"),
    [
        ("a == 'b' && c == 'd'", {"a": "b", "c": "d"}),
        ("a == 'b' || c == 'd'", {}),
        ("!(a == 'b')", {}),
        ("a == 'b' && (c == 'd' || has(e))", {"a": "b"}),
        ("a != 'b'", {}),
    ],
)
def test_only_what_every_match_needs_is_indexed(selector: str, required: Any) -> None:
    assert dict(parse(selector).required()) == required


@pytest.mark.parametrize(
    ("selector", "canonical"),
    [
        ({}, "all()"),
        ({"matchLabels": {"b": "2", "a": "1"}}, '(a == "1" && b == "2")'),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]},
            'a in {"x", "y"}',
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]},
            'a not in {"x"}',
        ),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "has(a)"),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!has(a)"),
        (
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            '(a == "1" && has(b))',
        ),
    ],
)
def test_kubernetes_label_selectors_become_calicos(selector: Any, canonical: str) -> None:
    assert str(parse(namespaces_selected(selector))) == canonical


def test_pod_selectors_mean_pods_only() -> None:
    assert pods_selected({}) == "projectcalico.org/orchestrator == 'k8s'"
    assert (
        pods_selected({"matchLabels": {"a": "b"}})
        == "projectcalico.org/orchestrator == 'k8s' && a == 'b'"
    )


def test_an_unknown_label_selector_operator_is_refused() -> None:
    with pytest.raises(SelectorError, match="unknown operator 'Gt'"):
        namespaces_selected({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})


@pytest.mark.parametrize(
    ("selector", "canonical"),
    [
        ("a in {'b', 'c',}", 'a in {"b", "c"}'),
        ("a notin {'b'}", 'a not in {"b"}'),
        ("a startswith 'b' && c endswith 'd'", '(a starts with "b" && c ends with "d")'),
        ("not == 'b'", 'not == "b"'),
        ("has( a ) && all( )", "(has(a) && all())"),
        ("in == 'x'", 'in == "x"'),
    ],
)
def test_what_calico_takes_although_nobody_would_write_it(selector: str, canonical: str) -> None:
    assert str(parse(selector)) == canonical


@pytest.mark.parametrize(
    "selector", ["all ()", "has (a)", "global ()", "a starts  'b'", "a\n== 'b'"]
)
def test_what_calico_refuses_although_somebody_might_write_it(selector: str) -> None:
    with pytest.raises(SelectorError):
        parse(selector)
