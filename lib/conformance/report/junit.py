# SPDX-License-Identifier: Apache-2.0
"""Makes pytest's JUnit XML agree with the run, and writes a second file with one case per claim.

pytest writes every exception from a test's body as ``<failure>``. Here an INCONCLUSIVE test becomes
an ``<error>``, and a waived violation becomes ``<skipped>``, since CI systems count failures by
themselves and would overrule the waiver. Planned tests without a report are added, so that a file
without them cannot look green.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as Xml

from conformance import printing
from conformance.model.claim import ClaimVerdict
from conformance.model.facts import Facts
from conformance.report.run import RunReport
from conformance.verdicts.claims import ClaimOutcome, TestOutcome
from conformance.verdicts.statement import SETTLED

PROPERTY = "test"
"""The name of the property that holds a test's node id."""
OUTCOME = "conformance"
"""The name of the property by which processes pass outcomes to the controller. It is removed from
the file, since it means nothing to readers."""
_ENDS = ("failure", "error", "skipped")
_TAGS = {
    ClaimVerdict.VIOLATED: "failure",
    ClaimVerdict.INCONCLUSIVE: "error",
    ClaimVerdict.NOT_RUN: "skipped",
    ClaimVerdict.NOT_APPLICABLE: "skipped",
}


def mend(path: Path, report: RunReport) -> None:
    """Rewrite the file in place. Raise ValueError if it has no suite."""
    tree = Xml.parse(path)
    suite = tree.getroot().find("testsuite")
    if suite is None:
        raise ValueError(f"{path}: no <testsuite>")
    for case in suite.findall("testcase"):
        if not case.get("name"):  # pytest writes such a case for a test that was interrupted
            suite.remove(case)
    cases = _cases(suite)
    for test in report.tests:
        if test.test not in cases:
            _add(suite, test)
            continue
        for case in cases[test.test]:
            for failure in case.findall("failure"):
                _mend_failure(failure, test, report)
        _complete(suite, cases[test.test], test)
    for name, named in _cases(suite).items():
        for case in named:
            case.set("file", name.partition("::")[0])
    for properties in suite.iterfind("testcase/properties"):
        for entry in properties.findall(f"property[@name='{OUTCOME}']"):
            properties.remove(entry)
    suite.insert(0, _properties(report))
    _count(suite)
    _write(tree.getroot(), path)


def _mend_failure(failure: Xml.Element, test: TestOutcome, report: RunReport) -> None:
    """Turn an INCONCLUSIVE failure into an error. Add known issues to a violation, and turn a
    waived violation into ``skipped``."""
    if test.verdict is ClaimVerdict.INCONCLUSIVE:
        failure.tag = "error"
        return
    failure.text = "\n".join([failure.text or "", *report.known_of(test)])
    if waiver := report.waiver_of(test):
        failure.tag = "skipped"
        failure.set("message", f"{test.verdict}: {test.reason} (waived: {waiver})")


def _complete(suite: Xml.Element, cases: list[Xml.Element], test: TestOutcome) -> None:
    """Complete the last case of a test. Remove earlier cases without a result, which stem from runs
    after which the test was postponed."""
    silent = [case for case in cases if not any(case.find(tag) is not None for tag in _ENDS)]
    for case in silent:
        if case is not cases[-1]:
            suite.remove(case)
    if (test.flaky or test.verdict in SETTLED) and len(silent) == len(cases):
        _judge(cases[-1], test)


def write_claims(report: RunReport, path: Path) -> None:
    """Write a case for each claim with a result, by area; undecided and unmet claims are visible.

    UNMET, NOT_RUN and waived results are ``skipped`` with the verdict's word, since none of them
    fails a run.
    """
    root = Xml.Element("testsuites")
    suite = Xml.SubElement(
        root, "testsuite", name="claims", time=f"{report.seconds:.3f}", timestamp=report.started
    )
    suite.append(_properties(report))
    for outcome in report.claims:
        if outcome.verdict is None:
            continue
        claim = outcome.claim
        case = Xml.SubElement(
            suite, "testcase", classname=claim.area, name=claim.id, time=f"{outcome.seconds:.3f}"
        )
        waiver = report.waived.get(claim.id)
        tag = (
            "skipped"
            if waiver or outcome.verdict is ClaimVerdict.UNMET
            else _TAGS.get(outcome.verdict)
        )
        if tag:
            accepted = f" (waived: {waiver})" if waiver else ""
            message = f"{outcome.verdict}: {outcome.reason}{accepted}"
            text = "\n".join([*_failure_text(outcome, report), *map(str, outcome.known)]).strip()
            _say(case, tag, message, text)
        lines = [
            f"{outcome.verdict} {outcome.on_builds}".rstrip(),
            claim.statement,
            *(
                f"part {part} is not about this cluster: {why}"
                for part, why in outcome.inapplicable_parts.items()
            ),
        ]
        Xml.SubElement(case, "system-out").text = "\n".join(lines)
    _count(suite)
    _write(root, path)


def _write(root: Xml.Element, path: Path) -> None:
    """Write a file of XML, without characters that XML forbids or that a terminal would
    interpret."""
    for element in root.iter():
        element.text = element.text and printing.plain(element.text)
        element.attrib = printing.within(element.attrib, printing.plain)
    Xml.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _failure_text(outcome: ClaimOutcome, report: RunReport) -> Iterator[str]:
    """Yield the messages of all tests that led to a claim's verdict, and the advice."""
    tests = {result.test for result in outcome.results if result.verdict is outcome.verdict}
    for test in report.tests:
        if test.test in tests:
            yield from (test.test, str(test.explanation or test.reason))
            yield from ([f"  again     {test.explanation.again}"] if test.explanation else [])
    yield outcome.remedy


def _properties(report: RunReport) -> Xml.Element:
    """Return the properties with versions and builds, so that the file alone shows what the run
    tested."""
    found = {
        "run": report.run_id,
        "evidence": report.evidence,
        "suite": report.suite.get("version", ""),
        "commit": report.suite.get("commit", ""),
        "catalog": report.suite.get("catalog", ""),
        "cut short": report.cut_short,
        **{f"label {key}": value for key, value in report.labels.items()},
        **(_of_cluster(report.facts) if report.facts else {}),
        **report.installed.versions,
        **{f"claims {word}": str(count) for word, count in report.plain["counts"].items()},
        **{f"gate {gate.name} {gate.build}": gate.headline for gate in report.gates},
        **{f"note {number}": note for number, note in enumerate(report.notes, 1)},
    }
    properties = Xml.Element("properties")
    for name, value in found.items():
        if value:
            Xml.SubElement(properties, "property", name=name, value=value)
    return properties


def _of_cluster(facts: Facts) -> dict[str, str]:
    """Return versions and modes of the cluster, its Windows nodes, and its container runtimes."""
    names = ("calico_version", "kubernetes_version", "mode", "platform", "install", "cni")
    found = {name: str(getattr(facts, name).value or "unknown") for name in names}
    for node in facts.by_os("windows"):
        update = f", {node.update.value}" if node.update.known else ""
        calico = f"Calico {facts.calico_on(node.name).value or 'of unknown version'}"
        build = f"Windows {node.revision or 'of unknown build'}"
        found[f"node {node.name}"] = f"{build}{update}, {calico}"
    runtimes = {node.container_runtime for node in facts.nodes}
    return found | {"container runtimes": ", ".join(sorted(runtimes))}


def _cases(suite: Xml.Element) -> dict[str, list[Xml.Element]]:
    """Return test cases by node id; a case without this property (from a crashed worker) has
    pytest's name."""
    cases: dict[str, list[Xml.Element]] = {}
    for case in suite.findall("testcase"):
        named = case.find(f".//property[@name='{PROPERTY}']")
        module = case.get("classname", "").replace(".", "/")
        usual = f"{module}.py::{case.get('name', '')}"
        cases.setdefault(usual if named is None else named.get("value", ""), []).append(case)
    return cases


def _add(suite: Xml.Element, test: TestOutcome) -> None:
    module, _, name = test.test.rpartition("::")
    case = Xml.SubElement(
        suite,
        "testcase",
        classname=module.removesuffix(".py").replace("/", "."),
        name=name,
        time="0.000",
    )
    Xml.SubElement(Xml.SubElement(case, "properties"), "property", name=PROPERTY, value=test.test)
    _judge(case, test)


def _judge(case: Xml.Element, test: TestOutcome) -> None:
    """Add the verdict in pytest's terms; add nothing for a test that passed."""
    if tag := _TAGS.get(test.verdict):
        _say(case, tag, f"{test.verdict}: {test.reason}", test.remedy)


def _say(case: Xml.Element, tag: str, message: str, text: str) -> None:
    Xml.SubElement(case, tag, message=message).text = text


def _count(suite: Xml.Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(1 for case in cases if case.find(tag) is not None)))
