# SPDX-License-Identifier: Apache-2.0
"""The messages for the user and for the file of ``--events`` while tests run: the pace, failures as
they happen, and the duration of a run without workers."""

import time
from collections.abc import Sequence
from typing import Any

from conformance.model.claim import ClaimVerdict
from conformance.model.codec import to_plain
from conformance.model.counted import counted
from conformance.model.explanation import unnamed
from conformance.plugin import lists
from conformance.plugin.state import State
from conformance.report.pace import Pace, recorded, spanned
from conformance.report.run import RunReport
from conformance.report.summed_up import FALLEN
from conformance.report.terminal import cut
from conformance.schedule.estimate import span
from conformance.schedule.order import order
from conformance.schedule.plan import PlannedTest
from conformance.verdicts.claims import TestOutcome

OF_DECISION = ("source", "target", "builds", "verdict", "reason", "expected", "observed")
"""The fields of a decision that its event contains, in addition to test, claim and part."""
LONG = 120.0
"""A run without workers that may take more seconds than this prints how long ``-n auto`` would
take."""


class Following:
    """The lines and events of the process that the user started."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.run = state.run
        self.events = state.events
        self.pace = Pace()
        self._printed = 0.0
        """The time of time.monotonic when the pace was last printed; 0: not yet printed."""
        self._first = 0.0
        self._failed: set[str] = set()
        self._causes: dict[str, dict[str, str]] = {}
        """The tests that failed for each cause, and the claims of each test."""

    def begin(self, tests: Sequence[PlannedTest]) -> None:
        """Read the plan, and print how long it takes without workers."""
        directory = self.run.directory
        assert directory is not None  # a run with a plan has a directory
        lab = self.run.choice.stands_in
        going = lists.able_to_run(self.run, tests)
        earlier = recorded(directory.path.parent, directory.path)
        known = {test.test: order().seconds(test.test, lab=lab) for test in going}
        given: object = getattr(self.state.config.option, "numprocesses", None)
        workers = given if isinstance(given, int) else 1
        seconds = {
            test.test: earlier.get(test.test, known.get(test.test, 0.0))
            # during an exclusive test all other workers wait
            / (1 if test.exclusivity.exclusive else max(1, workers))
            for test in tests
        }
        alone = frozenset(test.test for test in tests if test.exclusivity.exclusive)
        self.pace = Pace(seconds, span(going, workers, lab=lab), alone)
        self.events.write("run_begun", {"run": self.run.settings.run_id, "tests": len(tests)})
        if given is None and self.pace.span[1] > LONG:
            number = lists.estimated(self.run, tests).workers
            together = spanned(*span(going, number, lab=lab))
            many = f"; -n auto: {together} by {number} workers" if number > 1 else ""
            more = f" ({idle} more cannot run here)" if (idle := len(tests) - len(going)) else ""
            self.note(
                f"{counted(len(going), 'test')}{more}, {spanned(*self.pace.span)} by one worker "
                f"(packaged estimate){many}"
            )

    def note(self, text: str) -> None:
        """Print a note, and write it as an event."""
        self.run.progress().tell(f"note: {text}")
        self.events.write("note", {"text": text})

    def test_begun(self, test: str) -> None:
        """Write an event that a test begins; a test may begin, and end, more than once."""
        self._first = self._first or time.monotonic()
        self._printed = self._printed or self._first
        self.events.write("test_begun", {"test": test})

    def failed(self, outcome: TestOutcome) -> None:
        """Print the first line of a test's failure once, with the cause that it shares with other
        failures. If a printed cause leaves a further claim undecided, name this claim once."""
        if outcome.verdict not in FALLEN or outcome.test in self._failed:
            return
        self._failed.add(outcome.test)
        verdicts = [result for result in outcome.results if result.verdict is outcome.verdict]
        claims = ", ".join(dict.fromkeys(result.claim for result in verdicts)) or outcome.test
        first = cut(unnamed(outcome.reason.partition("\n")[0], claims))
        if line := self._with_cause(outcome, claims, first):
            self.run.progress().tell(f"{outcome.verdict} {claims}: {line}")

    def _with_cause(self, outcome: TestOutcome, claims: str, first: str) -> str:
        """Return the first line with its cause, if the cause is known. Return an empty string if
        the claim was already named for this cause."""
        cause = outcome.cause
        if not cause:
            return first
        tests = self._causes.setdefault(cause, {})
        is_named = claims in tests.values()
        tests[outcome.test] = claims
        self.events.write("cause", {"cause": cause, "test": outcome.test, "tests": len(tests)})
        if len(tests) == 1:
            return first if cause in first else f"{first}; cause: {cause}"
        same = f"same cause as {next(iter(tests.values()))}, {len(tests)} tests so far"
        undecided = outcome.verdict is ClaimVerdict.INCONCLUSIVE
        return ("" if is_named else same) if undecided else f"{first}; {same}"

    def ended(self, outcome: TestOutcome) -> None:
        """Count a test that has ended. Print the pace at intervals (``progress_every``), on a
        terminal or not."""
        decisions = [decision for result in outcome.results for decision in result.decisions]
        failed = outcome.verdict in (ClaimVerdict.VIOLATED, ClaimVerdict.INCONCLUSIVE)
        self.pace.ended(outcome.test, len(decisions), failed=failed)
        for result in outcome.results:
            about = {"test": outcome.test, "claim": result.claim, "part": result.part}
            for decision in result.decisions:
                plain = to_plain(decision)
                self.events.write("decision", about | {name: plain[name] for name in OF_DECISION})
        self.events.write("test_ended", _ended(outcome))
        now = time.monotonic()
        if now - self._printed >= self.run.settings.timings.run.progress_every:
            self._printed = now
            elapsed = now - self._first
            self.run.progress().tell(f"[{elapsed:.0f} s] {self.pace.line(elapsed)}")

    def end(self, report: RunReport) -> None:
        """Write the run's notes and its end as events."""
        for text in report.notes:
            self.events.write("note", {"text": text})
        self.events.write(
            "run_ended", {name: report.plain["run"][name] for name in ("exit_code", "seconds")}
        )


def _ended(outcome: TestOutcome) -> dict[str, Any]:
    """Return the fields of the event that a test has ended."""
    return {
        "test": outcome.test,
        "verdict": str(outcome.verdict),
        "reason": outcome.reason,
        "remedy": outcome.remedy,
        "cause": outcome.cause,
        "seconds": round(outcome.seconds, 3),
        "worker": outcome.worker,
        "claims": [
            {"claim": result.claim, "part": result.part, "verdict": str(result.verdict)}
            for result in outcome.results
        ],
    }
