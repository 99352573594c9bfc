# SPDX-License-Identifier: Apache-2.0
"""Every output of a run has the same number of claims with each verdict."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from xml.etree import ElementTree as Xml

import pytest

from conformance.catalog import catalog
from conformance.cli import main

from .conftest import Project, Run
from .test_qualification import WAIVER

SUITE = """
import pathlib

@verifies("CONN-1", part="{number}")
@pytest.mark.parametrize("number", range(3))
def test_confirmed(number, record): record.touched(["windows"])

@verifies("DEMO-5")
def test_violated_and_waived(): raise Nonconformance("DEMO-5: expected blocked, observed connected")

@verifies("DEMO-7")
def test_violated(): raise Nonconformance("DEMO-7: expected blocked, observed connected")

@verifies("CONN-3", part="{number}")
@pytest.mark.parametrize("number", range(2))
def test_partly_violated(number):
    if number: raise Nonconformance("CONN-3: refused")

@verifies("CONN-4")
def test_broken(): raise ProbeBroken("exec returned no status")

@verifies("ENC-3")
def test_lacking(): raise MissingCapability("there is no calicoctl", "name one")

@verifies("PLAT-6")
def test_unmet(): raise Unmet("win-1 runs 17763.1")

@verifies("IPAM-3")
def test_still_there(): pass

@verifies("VXLAN-8")
def test_lifted(record): record.lifted("the MTU was taken")

@verifies("RST-1")
def test_not_observed(record): record.not_observed("the witness flipped, no reset was seen")

@verifies("BGP-1")
def test_elsewhere(): pass

@verifies("DEMO-6")
def test_flaky():
    place = pathlib.Path("tried")
    if not place.exists():
        place.touch()
        raise Nonconformance("DEMO-6: once")
"""
DECIDED = {
    "VIOLATED": 4, "INCONCLUSIVE": 1, "UNMET": 1, "LIFTED": 1, "CONFIRMED": 1, "still there": 1, "NOT_OBSERVED": 1,
}  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[
        ["-n", "0"],
        ["-n", "2"],
        ["-n", "0", "-p", "rerunfailures", "--reruns", "1"],
        ["-n", "0", "-k", "test_"],
    ],
    ids=" ".join,
)
def run(request: pytest.FixtureRequest, make_project: Callable[[], Project]) -> Run:
    project = make_project()
    project.suite(SUITE)
    (project.path / "waivers.yaml").write_text(WAIVER)
    return project.run(*request.param, "--waivers=waivers.yaml")


def expected(run: Run) -> dict[str, int]:
    """The verdicts of the claims of the tests above, and the report's count of claims without a
    test here."""
    counts: dict[str, int] = run.report["counts"]
    assert {word: counts[word] for word in DECIDED} == DECIDED
    assert sum(counts.values()) == len(catalog())
    return counts


def test_the_report_counts_its_own_claims(run: Run) -> None:
    claims = run.report["claims"]
    counts = expected(run)
    verdicts = Counter(claim["verdict"] or "not selected" for claim in claims)
    assert verdicts["VIOLATED"] == counts["VIOLATED"]
    assert verdicts["CONFIRMED"] == counts["CONFIRMED"] + counts["still there"]
    assert verdicts["NOT_RUN"] == sum(
        counts.get(word, 0) for word in ("NOT_RUN", "no test", "by hand")
    )


def test_the_header_knows_how_many_are_not_about_the_cluster(run: Run) -> None:
    said = re.search(r"^claims: .*; (\d+) do(?:es)? not apply ", run.out, re.MULTILINE)
    assert said
    selected = {claim["id"] for claim in run.report["claims"] if claim["verdict"]}
    assert int(said[1]) == expected(run)["NOT_APPLICABLE"] or selected < set(catalog())


def test_at_most_six_lines_stand_above_the_first_test(run: Run) -> None:
    lines = run.out.splitlines()
    (first,) = (place for place, line in enumerate(lines) if line.startswith("cluster: "))
    (last,) = (place for place, line in enumerate(lines) if line.startswith("run: "))
    told = [line for line in lines[first : last + 1] if not line.startswith("note: ")]
    assert len(told) <= 6
    assert [line.partition(":")[0] for line in told if not line.startswith(" ")][-2:] == [
        "claims",
        "run",
    ]


def test_the_terminal_and_what_is_shown_later_say_them(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "claims: " + ", ".join(f"{number} {word}" for word, number in expected(run).items())
    assert line in run.out.splitlines()
    for form, shown in (("text", line), ("markdown", f"C{line[1:]}.")):
        assert main(["show", str(run.folder), "--format", form]) == 0
        assert shown in capsys.readouterr().out.splitlines()


def test_the_page_says_them_to_choose_by_in_its_areas_and_by_its_claims(run: Run) -> None:
    assert run.folder
    page, counts = (run.folder / "report.html").read_text(), expected(run)
    choices = re.findall(r'name="verdict" value="([^"]+)"> (\d+) ([^<]+)</label>', page)
    named = [each for each in choices if each[2] == each[0].lower().replace("_", " ")]
    assert [(value, int(number)) for value, number, _ in named] == list(counts.items())
    assert f"> all {len(catalog())}</label>" in page
    assert (
        dict(Counter(re.findall(r'class="claim" id="[^"]+" data-word="([^"]+)"', page))) == counts
    )
    areas = page.partition('<section id="areas">')[2].partition("</section>")[0]
    *words, whole = re.findall(r'<th class="n">([^<]+)</th>', areas)
    rows = [
        [int(cell or 0) for cell in re.findall(r'<td class="n[^"]*">(\d*)</td>', row)]
        for row in areas.split("<tr>")
    ]
    sums = [sum(column) for column in zip(*(row for row in rows if row), strict=True)]
    assert dict(zip([*words, whole], sums, strict=True)) == counts | {"all": len(catalog())}


def test_junit_says_them_and_has_as_many_cases(run: Run) -> None:
    assert run.folder
    counts = expected(run)
    for name in ("junit.xml", "junit-claims.xml"):
        suite = Xml.parse(run.folder / name).getroot()[0]
        properties = {str(one.get("name")): one.get("value") for one in suite.iter("property")}
        told = {
            name.removeprefix("claims "): value
            for name, value in properties.items()
            if name.startswith("claims ")
        }
        assert told == {word: str(number) for word, number in counts.items()}
    assert suite.get("tests") == str(len(catalog()) - counts.get("not selected", 0))
    assert suite.get("failures") == str(counts["VIOLATED"] - 1), "what is waived fails no job"
    assert suite.get("errors") == str(counts["INCONCLUSIVE"])
    skipped = ("NOT_RUN", "no test", "by hand", "NOT_APPLICABLE", "UNMET")
    assert suite.get("skipped") == str(sum(counts.get(word, 0) for word in skipped) + 1)


def test_what_was_violated_once_and_not_again_is_counted_as_it_is_told(run: Run) -> None:
    flaky = run.claim("DEMO-6")
    assert flaky["verdict"] == "VIOLATED"
    assert flaky["flaky"] == ("--reruns" in run.report["run"]["command"])


def test_the_first_line_of_the_page_counts_what_is_violated_alike(run: Run) -> None:
    assert run.folder
    assert (
        "<h1>3 claims are violated; violated, and waived: DEMO-5</h1>"
        in (run.folder / "report.html").read_text()
    )
    assert json.loads((run.folder / "conformance.json").read_text())["counts"]["VIOLATED"] == 4
