# SPDX-License-Identifier: Apache-2.0
"""No verdict is wrong while a probe breaks, and each break is named. docs/wrong-verdicts.md has
the 1,024 attempts; ``-m detection`` repeats a sample of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.naive import command
from conformance.model.endpoint import Addressing, Target
from hybridlab.networks.registry import fault_types
from tests.detection import wrong_verdicts
from tests.detection.breaks import BREAKS, FAULTS
from tests.detection.cases import Answer, Case, Result, cases
from tests.unit.conformance.builders import a_workload

REFUSED, LATE = "refused instead of dropped", "policy 5 s late"
STILL_OPEN = "expected TIMED_OUT, observed CONNECTED"
UNRESOLVED = "expected CONNECTED, observed DNS_FAILED"


def result(
    answer: Answer, line: str = "", *, broken: str = "websocket cut", expected: str = "deny", path: str,
    span: str = "lasting",
) -> Result:  # fmt: skip
    case = Case(
        broken=next(item for item in BREAKS if item.name == broken), expected=expected, path=path,  # type: ignore[arg-type]
        source="linux", target="windows", agent="warm", span=span,  # type: ignore[arg-type]
    )  # fmt: skip
    return Result(case=case, answer=answer, line=line, seconds=1.0)


def test_every_break_is_asked_in_32_cases_for_each_expectation() -> None:
    every = list(cases())
    assert len(every) == len(set(map(repr, every))) == 64 * len(BREAKS) >= 1000
    assert set(fault_types()) >= FAULTS


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (result("CONFIRMED", path="denied"), False),
        (result("CONFIRMED", path="open"), True),
        (result("VIOLATED", "expected TIMED_OUT, observed CONNECTED", path="open"), False),
        (result("VIOLATED", "expected TIMED_OUT, observed TIMED_OUT", path="open"), True),
        (result("VIOLATED", "expected TIMED_OUT, observed CONNECTED", path="denied"), True),
        (
            result(
                "VIOLATED", "expected CONNECTED, observed TIMED_OUT", expected="allow", path="open"
            ),
            True,
        ),
        (result("VIOLATED", "observed REFUSED", broken=REFUSED, path="denied"), False),
        (
            result("VIOLATED", "observed REFUSED", broken=REFUSED, path="denied", span="passing"),
            True,
        ),
        (
            result("VIOLATED", "observed REFUSED", broken=REFUSED, expected="allow", path="denied"),
            False,
        ),
        (
            result("VIOLATED", "observed REFUSED", broken=REFUSED, expected="allow", path="open"),
            True,
        ),
        (result("VIOLATED", "observed REFUSED", broken=REFUSED, path="open"), True),
        (result("CONFIRMED", broken=REFUSED, path="denied"), True),
        (result("CONFIRMED", broken=REFUSED, path="denied", span="passing"), False),
        (result("VIOLATED", STILL_OPEN, broken=LATE, path="denied"), False),
        (result("VIOLATED", STILL_OPEN, broken=LATE, path="denied", span="passing"), True),
        (result("VIOLATED", STILL_OPEN, broken=LATE, path="open", span="passing"), False),
        (result("CONFIRMED", broken=LATE, path="denied"), False),
        (result("VIOLATED", UNRESOLVED, broken="DNS silent", expected="allow", path="open"), False),
        (
            result(
                "VIOLATED",
                UNRESOLVED,
                broken="DNS silent",
                expected="allow",
                path="open",
                span="passing",
            ),
            True,
        ),
        (result("CONFIRMED", broken="DNS silent", expected="allow", path="open"), True),
        (result("ERROR", "KeyError", path="denied"), True),
        (result("INCONCLUSIVE", "the connection was cut", path="open"), False),
    ],
)
def test_what_counts_as_a_wrong_verdict(found: Result, wrong: bool) -> None:
    assert found.wrong is wrong


def test_of_every_case_confirmed_or_violated_is_wrong_whatever_was_seen() -> None:
    seen = [
        f"expected {wanted}, observed {what}, and the name leads to 203.0.113.9"
        for wanted in ("CONNECTED", "TIMED_OUT") for what in ("CONNECTED", "TIMED_OUT", "REFUSED", "DNS_FAILED")
    ]  # fmt: skip
    either = [
        case.label
        for case in cases()
        if not Result(case=case, answer="CONFIRMED", line="", seconds=1.0).wrong
        and not all(
            Result(case=case, answer="VIOLATED", line=line, seconds=1.0).wrong for line in seen
        )
    ]
    above_budget = [
        case.label for case in cases() if case.broken.name == LATE and case.true and case.deviates
    ]
    assert either == above_budget, (
        "only late policy may be confirmed or violated: by when it was asked"
    )


def test_an_inconclusive_that_does_not_say_what_broke_is_misnamed() -> None:
    assert result("INCONCLUSIVE", "it is broken", path="open").misnamed
    assert not result(
        "INCONCLUSIVE", "ProbeBroken: agent broke: the connection was cut", path="open"
    ).misnamed
    assert result("INCONCLUSIVE", "anything", broken="clock jump", path="open").misnamed


def test_the_naive_commands_are_the_documents() -> None:
    target = Target(host="10.0.0.2", port=80, protocol="tcp", path=Addressing.POD_IP)
    assert command(a_workload(), target, 1) == ("nc", "-vz", "-w", "1", "10.0.0.2", "80")


def test_the_documented_table_has_every_break_and_no_wrong_verdict() -> None:
    text = wrong_verdicts.PAGE.read_text(encoding="utf-8")
    assert f"**0 wrong verdicts of {64 * len(BREAKS)} and 0 breaks misnamed" in text
    assert [broken.name for broken in BREAKS if f"| {broken.name} |" not in text] == []


def test_the_page_counts_each_break_by_what_was_expected_and_shows_how_it_is_named() -> None:
    cut = result("INCONCLUSIVE", "ProbeBroken: linux-2: the connection was cut", path="open")
    late = result("VIOLATED", STILL_OPEN, broken=LATE, path="denied")
    text = wrong_verdicts.page(
        [cut, cut, late], [result("CONFIRMED", path="open")], "1 before, 2 after"
    )
    assert (
        "**0 wrong verdicts of 3 and 0 breaks misnamed; the naive method: 1 wrong of 1.**" in text
    )
    assert "| websocket cut | deny | 2 | 0 | 0 | 2 | 0 | 0 | 1 of 1 |" in text
    assert f"| {LATE} | deny | 1 | 0 | 1 | 0 | 0 | 0 | 0 of 0 |" in text
    assert "`ProbeBroken: linux-1: the connection was cut`" in text


@pytest.mark.detection
def test_a_sample_of_the_table_has_no_wrong_verdict_and_names_each_break(tmp_path: Path) -> None:
    sample = [case for number, case in enumerate(cases()) if number % 8 == (number // 64) % 8]
    ours, naive = wrong_verdicts.measure(sample, tmp_path)
    assert [
        f"{our.case.label}: {our.answer} {our.line}" for our in ours if our.wrong or our.misnamed
    ] == []
    assert any(item.wrong for item in naive), (
        "the method that this is compared with is wrong now and then"
    )
