# SPDX-License-Identifier: Apache-2.0
"""A failure is printed while the tests run: once for each test, with the cause that it shares
with others."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.catalog.claims import Needs
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.plugin import following, lists
from conformance.plugin.following import Following
from conformance.schedule.plan import PlannedTest
from conformance.schedule.scheduler_lock import Exclusivity
from conformance.verdicts.claims import TestOutcome

CAUSE = "Felix does not run on windows-2019"


class Followed:
    """A run that is followed, with the printed lines and the written events."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        progress = SimpleNamespace(tell=self.lines.append)
        state: Any = SimpleNamespace(
            run=SimpleNamespace(progress=lambda: progress),
            events=SimpleNamespace(write=lambda name, fields: self.events.append((name, fields))),
        )
        self.following = Following(state)

    def failed(
        self, test: str, verdict: str, *claims: str, cause: str = "", reason: str = ""
    ) -> str:
        """Return what is printed when a test has this verdict, and its claims have."""
        before = len(self.lines)
        results = tuple(
            ClaimResult(
                claim=claim, verdict=ClaimVerdict(verdict), reason="", test=test, evidence="lab"
            )
            for claim in claims
        )
        named = ", ".join(claims)
        outcome = TestOutcome(
            test=test,
            verdict=ClaimVerdict(verdict),
            reason=reason or f"{named}: it is closed\nmore",
            results=results,
            cause=cause,
        )
        self.following.failed(outcome)
        return "\n".join(self.lines[before:])


def test_a_failure_is_printed_once_for_each_test_and_a_success_never() -> None:
    run = Followed()
    assert run.failed("a", "CONFIRMED", "CONN-1") == ""
    assert run.failed("a", "VIOLATED", "CONN-1") == "VIOLATED CONN-1: it is closed"
    assert run.failed("a", "VIOLATED", "CONN-1") == ""
    assert run.failed("b", "UNMET", "CONN-2", "CONN-3") == "UNMET CONN-2, CONN-3: it is closed"


def test_a_failure_of_no_claim_is_printed_with_its_test() -> None:
    assert Followed().failed("a.py::test", "INCONCLUSIVE", reason="no pod") == (
        "INCONCLUSIVE a.py::test: no pod"
    )


def test_a_cause_is_printed_where_the_first_line_lacks_it_and_later_as_the_same() -> None:
    run = Followed()
    assert run.failed("a", "VIOLATED", "CONN-1", cause=CAUSE).endswith(f"closed; cause: {CAUSE}")
    assert run.failed("b", "VIOLATED", "CONN-2", cause=CAUSE).endswith(
        "; same cause as CONN-1, 2 tests so far"
    )
    said = run.failed("c", "VIOLATED", "CONN-3", cause="no pods", reason="CONN-3: no pods there")
    assert said == "VIOLATED CONN-3: no pods there"
    assert run.events == [
        ("cause", {"cause": CAUSE, "test": "a", "tests": 1}),
        ("cause", {"cause": CAUSE, "test": "b", "tests": 2}),
        ("cause", {"cause": "no pods", "test": "c", "tests": 1}),
    ]


def begun(folder: Path, workers: int | None, *tests: PlannedTest) -> Following:
    """Return a run of these tests that has begun. An earlier run needed 10 s for each test but new
    ones."""
    earlier = folder / "2026-01-01"
    earlier.mkdir()
    known = [
        {"test": test.test, "seconds": 10.0, "ran": True, "verdict": "CONFIRMED"}
        for test in tests
        if test.test != "new"
    ]
    (earlier / "conformance.json").write_text(json.dumps({"tests": known}))
    run = SimpleNamespace(
        choice=SimpleNamespace(stands_in=True),
        directory=SimpleNamespace(path=folder / "2026-01-02"),
        settings=SimpleNamespace(run_id="a1b2c3"),
    )
    option = SimpleNamespace(numprocesses=workers)
    state: Any = SimpleNamespace(
        run=run,
        events=SimpleNamespace(write=lambda name, fields: None),
        config=SimpleNamespace(option=option),
    )
    found = Following(state)
    found.begin(tests)
    return found


@pytest.mark.parametrize(("workers", "shared"), [(None, 10.0), (0, 10.0), (2, 5.0), (4, 2.5)])
def test_the_time_left_counts_a_test_by_its_share_of_a_worker_and_an_exclusive_test_in_full(
    workers: int | None, shared: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(name: str, **about: Any) -> PlannedTest:
        return PlannedTest(test=name, parts=(), needs=Needs(), **about)

    monkeypatch.setattr(lists, "able_to_run", lambda run, tests: list(tests))
    seconds = SimpleNamespace(seconds=lambda test, lab: 40.0)
    monkeypatch.setattr(following, "order", lambda: seconds)
    tests = (
        planned("shared"),
        planned("last", exclusivity=Exclusivity(kind="last")),
        planned("a node's", exclusivity=Exclusivity(kind="node", node="windows-1")),
        planned("the cluster's", exclusivity=Exclusivity(kind="cluster")),
        planned("new"),
    )
    pace = begun(tmp_path, workers, *tests).pace
    assert pace.alone == {"a node's", "the cluster's"}
    assert pace.seconds == {
        "shared": shared,
        "last": shared,
        "a node's": 10.0,
        "the cluster's": 10.0,
        "new": 4 * shared,
    }
