"""Makes pytest's JUnit XML say what the run says.

pytest writes every exception from a test's body as ``<failure>``; an INCONCLUSIVE test is an ``<error>``.  Tests that
the plan had and nobody heard of again are added, so that their absence cannot look green.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as Xml

from conformance.model.claim import ClaimVerdict
from conformance.report.outcomes import TestOutcome

PROPERTY = "test"
"""Name of the property that holds a test's node id."""
_BAD = ("failure", "error")
_TAGS = {
    ClaimVerdict.VIOLATED: "failure",
    ClaimVerdict.INCONCLUSIVE: "error",
    ClaimVerdict.NOT_RUN: "skipped",
    ClaimVerdict.NOT_APPLICABLE: "skipped",
}


def mend(path: Path, tests: Sequence[TestOutcome]) -> None:
    """Rewrite the file in place."""
    tree = Xml.parse(path)
    suite = tree.getroot().find("testsuite")
    if suite is None:
        raise ValueError(f"{path}: no <testsuite>")
    for case in suite.findall("testcase"):
        if not case.get("name"):  # what pytest leaves of a test that was interrupted
            suite.remove(case)
    cases = _cases(suite)
    for test in tests:
        for case in cases.get(test.test, []):
            if test.verdict is ClaimVerdict.INCONCLUSIVE:
                for failure in case.findall("failure"):
                    failure.tag = "error"
        if test.test not in cases:
            _add(suite, test)
        elif test.flaky and not any(case.find(tag) is not None for case in cases[test.test] for tag in _BAD):
            _judge(cases[test.test][-1], test)
    _count(suite)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def statuses(path: Path) -> Mapping[str, str]:
    """Test (node id) to ``failure``, ``error``, ``skipped`` or ``passed``; where it has several cases, the worst."""
    suite = Xml.parse(path).getroot().find("testsuite")
    found = {}
    for test, cases in _cases(suite if suite is not None else Xml.Element("testsuite")).items():
        tags = {child.tag for case in cases for child in case}
        found[test] = next((tag for tag in ("failure", "error", "skipped") if tag in tags), "passed")
    return found


def _cases(suite: Xml.Element) -> dict[str, list[Xml.Element]]:
    """Test cases by node id; a case without the property (a crashed worker's) by pytest's way to name it."""
    cases: dict[str, list[Xml.Element]] = {}
    for case in suite.findall("testcase"):
        named = [entry.get("value", "") for entry in case.iter("property") if entry.get("name") == PROPERTY]
        classname, name = case.get("classname", ""), case.get("name", "")
        ident = named[0] if named else f"{classname.replace('.', '/')}.py::{name}"
        cases.setdefault(ident, []).append(case)
    return cases


def _add(suite: Xml.Element, test: TestOutcome) -> None:
    module, _, name = test.test.rpartition("::")
    case = Xml.SubElement(
        suite, "testcase", classname=module.removesuffix(".py").replace("/", "."), name=name, time="0.000"
    )
    properties = Xml.SubElement(case, "properties")
    Xml.SubElement(properties, "property", name=PROPERTY, value=test.test)
    _judge(case, test)


def _judge(case: Xml.Element, test: TestOutcome) -> None:
    """Say in pytest's words what the verdict was; nothing where pytest's silence means it."""
    tag = _TAGS.get(test.verdict)
    if tag:
        child = Xml.SubElement(case, tag, message=f"{test.verdict}: {test.reason}")
        child.text = test.remedy


def _count(suite: Xml.Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(1 for case in cases if case.find(tag) is not None)))
