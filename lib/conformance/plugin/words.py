# SPDX-License-Identifier: Apache-2.0
"""The words of ``-k``: a word of the catalog selects tests of its subject, but not tests that only
have the word in their names.

pytest matches ``-k`` words anywhere in names of files, tests and parameters, so that ``nat`` finds
``snat``, and ``VXLAN-1`` finds VXLAN-10, which drains nodes. A word that is a subject or a claim's
id is therefore matched here: against a test's claims, their tags, and its ``about`` mark. All other
words are matched as pytest does.
"""

import itertools
import re
from collections.abc import Callable, Collection, Generator, Iterable
from pathlib import Path

import pytest
from _pytest.mark import KeywordMatcher  # pytest has no public reader of -k
from _pytest.mark.expression import Expression

from conformance.catalog import Catalog
from conformance.catalog.suite_tests import SuiteTest, suite_tests
from conformance.marks import ABOUT

UNTOLD = (
    "linux-to-linux", "linux-to-windows", "windows-to-linux", "windows-to-windows", "linux-node", "same-node",
    "other-windows-node", "kubernetes", "calico", "ingress", "egress", "disruptive", "smoke",
)  # fmt: skip
"""Words that can be matched only after collection: ids of parameters, and words of the plan."""


def subjects(catalog: Catalog) -> dict[str, str]:
    """Return every subject word, with the claims that it selects."""
    return dict(sorted({**catalog.tags, **ABOUT}.items()))


def selected(item: pytest.Item, expression: str, own: Iterable[str], catalog: Catalog) -> bool:
    """Return whether ``-k expression`` selects a test; ``own``: the test's subjects and claims."""
    about = frozenset(own)
    otherwise = KeywordMatcher.from_item(item)
    return _evaluated(
        expression,
        lambda word: found in about if (found := _subject(word, catalog)) else otherwise(word),
    )


def untested(expression: str, suites: Path, catalog: Catalog) -> dict[str, list[str]]:
    """Return the words of an expression that are subjects or claims without any test, each with its
    claims."""
    tested = {claim for test in suite_tests(suites) for claim in test.claims}
    found = {}
    for word in _words(expression):
        subject = _subject(word, catalog)
        claims = [
            claim.id for claim in catalog.values() if subject in claim.tags or subject == claim.id
        ]
        if claims and not tested.intersection(claims):
            found[word] = claims
    return found


def _words(expression: str) -> list[str]:
    return [
        word
        for word in re.findall(r"[^\s()]+", expression)
        if word.lower() not in ("and", "or", "not")
    ]


def _subject(word: str, catalog: Catalog) -> str:
    """Return the subject, or the id of the claim, that a word names; an empty string if it names
    neither."""
    return word if word in subjects(catalog) else word.upper() if word.upper() in catalog else ""


def selects_nothing(
    expression: str, suites: Path, catalog: Catalog, claims: Collection[str] = ()
) -> bool:
    """Return whether an expression certainly selects no test. The text of the test files decides,
    before anything starts.

    ``claims``: only tests of these claims count; empty: all tests count.
    """
    words = {word.lower(): _subject(word, catalog) for word in _words(expression)}
    tests = suite_tests(suites)
    open_words = [
        word
        for word, subject in words.items()
        if not subject and _may_be_an_id(word, suites, tests)
    ]
    cases = list(itertools.product((True, False), repeat=len(open_words)))
    for test in (test for test in tests if not claims or test.claims.intersection(claims)):
        about = test.about(catalog)
        texts = [text.lower() for text in (*test.names, *test.claims)]
        hints = {
            word: subject in about if subject else any(word in text for text in texts)
            for word, subject in words.items()
        }
        for case in cases:
            case_of = hints | dict(zip(open_words, case, strict=True))
            if _evaluated(expression, lambda word, case_of=case_of: case_of[word.lower()]):  # type: ignore[misc]
                return False
    return True


def _may_be_an_id(word: str, suites: Path, tests: Iterable[SuiteTest]) -> bool:
    """Return whether a word may occur in the id of a test's parameter: as a number, as a known id,
    or because a file contains the word."""
    if word.isdecimal() or any(word in item for item in UNTOLD):
        return True
    parts = [part for part in re.split(r"[][-]", word) if part]
    if parts != [word] and all(_is_part(part, tests) for part in parts):
        return True  # the ids of several parameters are joined like this in brackets
    if any(word in name.lower() for test in tests for name in test.names):
        return False
    if any(word in path.stem for path in suites.rglob("*.yaml")):  # the name of a world or story
        return True
    return any(
        word in path.read_text(encoding="utf-8").lower() for path in suites.rglob("test_*.py")
    )


def _is_part(word: str, tests: Iterable[SuiteTest]) -> bool:
    """Return whether a word may be a part of a test's name with its parameters' ids."""
    ids = word.isdecimal() or any(word in item for item in UNTOLD)
    return ids or any(word in name.lower() for test in tests for name in test.names)


def _evaluated(expression: str, match: Callable[[str], bool]) -> bool:
    """Return the expression's value. Raise pytest.UsageError for an invalid expression."""
    try:
        return bool(Expression.compile(expression).evaluate(lambda word, /, **_: match(word)))
    except SyntaxError as error:
        raise pytest.UsageError(f"-k {expression}: {error}") from None


class Words:
    """Selects by ``-k`` in pytest's place; the subjects of tests are known once :class:`Judge` has
    read their marks."""

    def __init__(self, catalog: Catalog, of: Callable[[pytest.Item], Iterable[str]]) -> None:
        """Set up the selection. ``of``: returns a test's claims and their subjects."""
        self._catalog = catalog
        self._of = of
        self._expression = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config
    ) -> Generator[None, object, object]:
        """Hide the expression from pytest, which would match its words anywhere in names."""
        self._expression = config.option.keyword
        config.option.keyword = ""
        try:
            return (yield)
        finally:
            config.option.keyword = self._expression

    def select(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if not self._expression:
            return
        left = [item for item in items if not self._fits(item)]
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if item not in left]

    def _fits(self, item: pytest.Item) -> bool:
        words = {word for mark in item.iter_markers("about") for word in mark.args}
        return selected(item, self._expression, {*self._of(item), *words}, self._catalog)
