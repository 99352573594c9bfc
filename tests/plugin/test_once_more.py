# SPDX-License-Identifier: Apache-2.0
"""If a path that was open before loses connections, its test runs again when its process has run
all others."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

import pytest

from .conftest import Project

SUITE = """
import pytest

ran = []

@pytest.fixture(scope="session")
def kept():
    yield ran
    open("ended", "a").write("the session's fixture ended\\n")

@verifies("CONN-1")
def test_first(record, kept):
    kept.append("first")
    record.touched(["windows"])
    if kept.count("first") == 1:
        raise Wavered("CONN-1  it wavers")
    with open("order", "a") as file:
        file.write(" ".join(kept))
    {second}

@verifies("CONN-3")
def test_last(record, kept):
    kept.append("last")
    record.touched(["windows"])
    {last}
"""


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(
    ("second", "told"),
    [
        ('raise Nonconformance("it wavers again")', ("VIOLATED", 1, "failure")),
        ("pass", ("INCONCLUSIVE", 6, "error")),
        ('raise Wavered("it wavers again")', ("INCONCLUSIVE", 6, "error")),
    ],
)
def test_it_is_decided_at_the_end(
    project: Project, workers: str, second: str, told: tuple[str, int, str]
) -> None:
    verdict, code, tag = told
    project.suite(SUITE.format(second=second, last="pass"))
    run = project.run("-n", workers, "-v")
    assert run.code == code, run.out
    assert (project.path / "order").read_text() == "first last first"
    assert (project.path / "ended").read_text() == "the session's fixture ended\n"
    (reason,) = [run.claim("CONN-1")["reason"]]
    assert run.verdict("CONN-1") == verdict
    assert (
        "it wavers again" in reason
        or reason == "FLAKY (INCONCLUSIVE, CONFIRMED): CONN-1  it wavers"
    )
    assert "RUN ONCE MORE LATER" in run.out
    assert (
        "run once more now, since the disturbance may have passed: suites/test_it.py::test_first"
        in run.out
    )
    assert run.folder
    cases = Xml.parse(run.folder / "junit.xml").getroot().findall(".//testcase")
    assert [(case.get("name"), [child.tag for child in case if child.tag in ("failure", "error")]) for case in cases] \
        == [("test_last", []), ("test_first", [tag])]  # fmt: skip


def test_the_last_test_of_a_process_is_run_once_more_too(project: Project) -> None:
    last = """
    if kept.count("last") == 1:
        raise Wavered("CONN-3  it wavers")
    with open("order", "a") as file:
        file.write(" " + kept[-1])
    raise Nonconformance("it wavers again")
"""
    project.suite(SUITE.format(second="pass", last=last))
    run = project.run("-n", "0")
    assert (run.verdict("CONN-1"), run.verdict("CONN-3")) == ("INCONCLUSIVE", "VIOLATED"), run.out
    assert (project.path / "order").read_text() == "first last first last"
    assert (project.path / "ended").read_text() == "the session's fixture ended\n"


def test_it_stays_inconclusive_where_the_run_ends_before(project: Project) -> None:
    project.suite(SUITE.format(second="pass", last='pytest.exit("enough")'))
    run = project.run("-n", "0")
    assert run.verdict("CONN-1") == "INCONCLUSIVE", run.out


def test_where_failed_tests_are_tried_again_at_once_nothing_is_run_later(project: Project) -> None:
    project.suite(SUITE.format(second="pass", last="pass"))
    run = project.run("-n", "0", "-p", "rerunfailures", "--reruns", "1")
    assert (project.path / "order").read_text() == "first first", run.out
    assert run.verdict("CONN-1") == "INCONCLUSIVE"


def test_what_has_a_node_to_itself_or_decides_by_what_the_run_has_watched_is_not_run_once_more(
    project: Project,
) -> None:
    project.suite("""
from types import SimpleNamespace
from conformance.marks import after_all_others
from conformance.watch import standing_watch

standing_watch.Watch = lambda *_: SimpleNamespace(begin=lambda: None, end=lambda: None)

@verifies("RST-3")
def test_it(own_node, record):
    record.touched(["windows"])
    raise Wavered("RST-3  a policy of others came")

@after_all_others()
@verifies("POL-1", part="throughout the run")
def test_watched(record):
    record.touched(["windows"])
    raise Wavered("POL-1  a policy of others came")
""")
    run = project.run("-n", "0", "--allow-disruptive", "-v")
    assert {test["verdict"] for test in run.report["tests"]} == {"INCONCLUSIVE"}, run.out
    assert "once more" not in run.out.lower()
