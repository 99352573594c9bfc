# SPDX-License-Identifier: Apache-2.0
"""The runs on all kinds of lab: which profiles run, what the output of each must have, and the
table at the end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hybridlab.profiles.load import names
from tests.detection.table import shipped
from tools import check_kinds
from tools.check_kinds import Expected, Outcome

TABLE = shipped()


def ended(claims: dict[str, str], exit_code: int = 0) -> Outcome:
    return Outcome(profile="small", exit=exit_code, minutes=1.0, claims=claims)


def test_every_profile_is_run_if_none_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def run(profile: str, workers: int) -> Outcome:
        ran.append(profile)
        return Outcome(profile=profile, exit=0, minutes=0.5, claims={})

    monkeypatch.setattr(check_kinds, "run", run)
    assert check_kinds.main([]) == 1
    assert ran == names()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"| {names()[-1]} | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0.5 | no report |"


def test_an_unknown_profile_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check_kinds.main(["smal"]) == 4
    assert capsys.readouterr().out.startswith("unknown profiles: smal; the profiles are ")


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (ended({"CONN-1": "CONFIRMED"}), []),
        (ended({"CONN-1": "NOT_RUN"}), ["CONN-1 NOT_RUN (expected CONFIRMED)"]),
        (ended({"NEW-1": "UNMET"}), []),
        (ended({"NEW-1": "VIOLATED"}, 1), ["NEW-1 VIOLATED", "exit 1 (expected 0)"]),
        (ended({}, 7), ["no report"]),
    ],
    ids=["as-expected", "not-run", "unknown-to-the-rows", "violated", "no-report"],
)
def test_what_is_otherwise_is_named(outcome: Outcome, told: list[str]) -> None:
    expected = Expected(exits=(0,), claims={"CONN-1": ("CONFIRMED",)})
    assert outcome.differences(expected) == told


def test_a_release_as_shipped_has_to_violate_what_its_row_says() -> None:
    expected = check_kinds.expected_on("v3.31-as-shipped", TABLE)
    assert expected.exits == (1,)
    assert "VIOLATED" in expected.claims["XPOL-14"]
    assert expected.claims["CONN-3"] == ("CONFIRMED",)


def test_a_claim_may_say_what_its_healthy_row_lets_timing_decide() -> None:
    expected = check_kinds.expected_on("aks-operator", TABLE)
    assert set(expected.claims["XPOL-23"]) == {"NOT_OBSERVED", "CONFIRMED"}


def test_of_a_profile_without_rows_nothing_but_no_violation_is_expected() -> None:
    assert check_kinds.expected_on("untainted", TABLE) == Expected(exits=(0,), claims={})


def test_an_earlier_runs_report_is_not_taken_for_this_runs(tmp_path: Path) -> None:
    assert check_kinds._claims(tmp_path, 0.0) == {}
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "conformance.json").write_text(
        '{"claims": [{"id": "CONN-1", "verdict": "CONFIRMED"}]}'
    )
    assert check_kinds._claims(tmp_path, time.monotonic()) == {"CONN-1": "CONFIRMED"}
    assert check_kinds._claims(tmp_path, time.monotonic() + 10) == {}
