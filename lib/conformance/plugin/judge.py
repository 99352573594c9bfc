# SPDX-License-Identifier: Apache-2.0
"""In every process that runs tests: selects them, decides before each whether it can run here, and turns what it raised
into claim results, which travel to the controller as user properties of its reports.

In pytest's terms VIOLATED is failed, INCONCLUSIVE an error, NOT_RUN and NOT_APPLICABLE are skipped, all else passed.
"""

import json
import sys
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import Catalog, Claim, Conditions, catalog
from conformance.errors import (
    EnvironmentBroken,
    MissingCapability,
    Nonconformance,
    SuiteError,
    Unmet,
    Wavered,
    first_line,
)
from conformance.evidence import felix_cause
from conformance.model.claim import ClaimResult, ClaimVerdict, Finding
from conformance.model.codec import to_plain
from conformance.plugin import options
from conformance.plugin.marked import planned
from conformance.plugin.rerun import tests_to_run
from conformance.plugin.state import State
from conformance.plugin.words import Words
from conformance.report import allure_results, junit
from conformance.report.diagnostics import Failure
from conformance.schedule import plan
from conformance.schedule.builds import builds_of
from conformance.schedule.plan import PlannedTest
from conformance.verdicts import statement as verdicts
from conformance.verdicts.attempts import FLAKY, merged
from conformance.verdicts.claims import TestOutcome
from conformance.verdicts.judged import judged, of_test
from conformance.verdicts.prospect import ClaimPart, Prospect
from conformance.verdicts.recorder import Recorder
from conformance.verdicts.statement import Statement

OUTCOME = junit.OUTCOME
"""User property that carries a test's outcome as JSON."""
PLANNED = pytest.StashKey[PlannedTest]()
PROSPECT = pytest.StashKey[Prospect]()
STATEMENT = pytest.StashKey[Statement]()
EARLIER = pytest.StashKey[list[TestOutcome]]()
"""What earlier attempts at a test said."""
PUT_OFF = pytest.StashKey[bool]()
"""Whether it is run once more at the end, since what it saw may have passed; False: it was, or it is that."""
WAITS = "run once more later"
"""What pytest is told of such a test at first, in the place of passed or failed."""
SECONDS = pytest.StashKey[float]()
WAITED = pytest.StashKey[float]()
"""Seconds until the test's turn came."""
LATER = "give the run more minutes, or go on where it ended by  calico-conformance rerun"
"""What to do about a test that did not begin within ``--max-minutes``."""
AGAIN = "mend that, then go on where the run ended by  calico-conformance rerun"
"""What to do about a test that did not begin since none could decide anything any more."""


def hide_how_it_was_decided() -> None:
    """Let the report of a verdict show the line of the test; what else is raised is shown whole."""
    for name, module in list(sys.modules.items()):
        if name.startswith("conformance.expect."):
            vars(module)["__tracebackhide__"] = is_verdict


def is_verdict(raised: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether an exception says something of the cluster or of the test's conditions."""
    return isinstance(raised.value, Nonconformance | SuiteError)


class Judge:
    """The hooks around tests."""

    def __init__(self, state: State, demands: Mapping[str, Conditions]) -> None:
        """``demands``: fixture to the only sort of cluster of which it tells anything."""
        self.state = state
        self.run = state.run
        self.demands = demands
        self.catalog: Catalog = catalog()
        self.words = Words(self.catalog, self._subjects)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Read the marks; make tags known to ``-k``; leave out what ``--claim`` and ``--smoke`` do not ask for."""
        try:
            tests = [planned(item, self.catalog, self.demands) for item in items]
        except pytest.UsageError as problem:
            if not self.run.directory:
                raise
            self.run.directory.problem.write_text(
                str(problem)
            )  # by which the controller hears of it, and ends the run
            items.clear()
            return
        for item, test in zip(items, tests, strict=True):
            item.stash[PLANNED] = test
            self._mark(item, test)
        self.words.select(config, items)
        again = tests_to_run(config)
        chosen = [item for item in items if self._chosen(item, config.option, again)]
        if len(chosen) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
            items[:] = chosen

    def _mark(self, item: pytest.Item, test: PlannedTest) -> None:
        """Give a test the words that ``-k`` and ``-m`` select by, and its labels for Allure."""
        claims = test.claims(self.catalog)
        for claim in claims:
            item.extra_keyword_matches |= claim.tags | {claim.id}
        isolations = plan.isolation_of(test.parts, self.catalog)
        if any(isolation.kind in plan.CHANGING for isolation in isolations):
            item.add_marker(pytest.mark.disruptive)  # a keyword, too
        story = allure_results.story(item.name)
        labels = [*allure_results.labels(claims), ("story", story), ("test", item.nodeid)]
        for kind, value in labels:
            item.add_marker(pytest.mark.allure_label(value, label_type=kind))

    def _subjects(self, item: pytest.Item) -> set[str]:
        """A test's claims and what they are about; ``windows`` only where it does not speak of Linux alone."""
        test = item.stash[PLANNED]
        found = {word for claim in test.claims(self.catalog) for word in (claim.id, *claim.tags)}
        return found if test.about_windows else found - {"windows"}

    def _chosen(self, item: pytest.Item, option: Any, again: frozenset[str] | None) -> bool:
        """Return whether the options leave a test; ``again``: the only tests that a rerun has."""
        test = item.stash[PLANNED]
        conditions = (
            not option.smoke or item.get_closest_marker("smoke"),
            not option.claim or any(part.claim in option.claim for part in test.parts),
            again is None or item.nodeid in again,
            not option.world or item.get_closest_marker("each_world"),
            self.run.settings.workers.watch or not test.last,
        )
        return all(conditions)

    @pytest.hookimpl(tryfirst=True)  # the controller looks as soon as xdist tells it of the end
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Leave the plan for the controller, which has to know of tests that nobody heard of again."""
        if self.run.directory:
            tests = [to_plain(item.stash[PLANNED]) for item in session.items]
            self.run.directory.write(self.run.directory.plans, self.run.settings.worker, tests)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Outermost, so that it knows what the run's end has made of the exit code."""
        result = yield
        self.state.interruption.exit_code = int(session.exitstatus)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """From here on attachments and requests are this test's."""
        self.state.attachments.enter(nodeid)
        if self.run.provider:
            self.run.provider.enter(nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Skip what cannot run here; an error in fixtures is never a verdict about the cluster."""
        __tracebackhide__ = True
        if STATEMENT in item.stash:
            self._try_again(item)
        statement = item.stash[STATEMENT] = Statement()
        item.stash[SECONDS] = 0.0
        self.decide(item)
        if over := self.run.over:
            raise self._skip(item, Finding(ClaimVerdict.NOT_RUN, over, LATER))
        if ended := self.run.reach.ended:
            raise self._skip(item, Finding(ClaimVerdict.NOT_RUN, ended, AGAIN))
        try:
            if gone := self.run.reach.gone:
                raise EnvironmentBroken(gone)
            if self.state.restoration.not_put_back:
                raise EnvironmentBroken(self.state.restoration.not_put_back)
            self.state.restoration.epoch.catch_up()
            return (yield)
        except MissingCapability as lack:
            raise self._lacking(item, lack) from None
        except pytest.skip.Exception as skip:
            statement.say(Finding(ClaimVerdict.NOT_RUN, skip.msg or "skipped by its fixture"))
            raise
        except (AssertionError, pytest.fail.Exception) as failure:
            raise self._broken(
                item, failure, "set-up of the test failed: ", "in set-up: "
            ) from None
        except Exception as error:
            self._blame(item, error)
            self._inconclusive(
                item, error, f"in set-up: {type(error).__name__}: {first_line(error)}"
            )
            raise

    def decide(self, item: pytest.Item, *, looks: bool = True) -> Prospect:
        """Whether it can run here by what is known now; skips it where it cannot."""
        __tracebackhide__ = True
        facts = self.run.facts
        settings = self.run.settings
        test = item.stash[PLANNED]
        prospect = (
            plan.prospect_of(test, self.catalog, facts, settings, looks=looks)
            if facts
            else Prospect()
        )
        item.stash[PROSPECT] = prospect
        if prospect.verdict:
            raise self._skip(item, Finding(prospect.verdict, prospect.reason, prospect.remedy))
        return prospect

    @staticmethod
    def _skip(item: pytest.Item, found: Finding) -> BaseException:
        """Note why a test does not run; the skip that says so."""
        item.stash[STATEMENT].say(found)
        return _skipped(
            f"{found.verdict}: {found.reason}{f'; {found.remedy}' if found.remedy else ''}"
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        __tracebackhide__ = True
        statement = item.stash[STATEMENT]
        statement.calling = True
        try:
            result = yield
            self._demand_decisions(item)
            return result
        except _Undecided as undecided:
            raise _skipped(str(undecided)) from None
        except pytest.skip.Exception as skip:
            statement.say(Finding(ClaimVerdict.NOT_RUN, skip.msg or "skipped by itself"))
            raise
        except MissingCapability as lack:
            raise self._lacking(item, lack) from None
        except Unmet as unmet:
            self._blame(item, unmet)
            statement.say(verdicts.from_body(unmet))
            self.state.attachments.text("unmet", str(unmet))
            if any(
                verdicts.unmet_for(claim) is ClaimVerdict.VIOLATED
                for claim in self._applicable(item)
            ):
                self._fail(item, unmet)
                raise
            return None
        except AssertionError as failure:
            self._blame(item, failure)
            statement.say(verdicts.from_body(failure))
            self._fail(item, failure)
            raise
        except (
            pytest.fail.Exception
        ) as failure:  # also how pytest-timeout speaks: no statement about the cluster
            raise self._broken(item, failure) from None
        except Exception as error:
            self._blame(item, error)
            self._inconclusive(item, error, f"{type(error).__name__}: {first_line(error)}")
            may_wait = (
                item.stash[PLANNED].exclusivity.kind == "shared" and PUT_OFF not in item.stash
            )
            if isinstance(error, Wavered) and may_wait and not self.state.tries_at_once:
                item.stash[PUT_OFF] = True
                self.state.put_off.append(item)
            raise
        finally:
            statement.calling = False
            self.state.attachments.end()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """An error while clearing up leaves a violation standing, and everything else inconclusive."""
        __tracebackhide__ = True
        try:
            return (yield)
        except (AssertionError, pytest.fail.Exception) as failure:
            raise self._broken(
                item, failure, "clearing up after the test failed: ", "in clearing up: "
            ) from None
        except Exception as error:
            self._inconclusive(
                item, error, f"in clearing up: {type(error).__name__}: {first_line(error)}"
            )
            raise
        finally:
            item.session.shouldstop = self.run.reach.ended or item.session.shouldstop

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Hand the outcome on, as far as it is known."""
        hide_how_it_was_decided()
        report = yield
        item.stash[SECONDS] = item.stash.get(SECONDS, 0.0) + call.duration
        if call.when == "call" and item.stash.get(PUT_OFF, False):
            report.outcome = WAITS  # type: ignore[assignment]  # as pytest-rerunfailures does: more is to come
        if call.when != "setup" or not report.passed:
            outcome = self.outcome(item)
            tried = bool(outcome.attempts) and call.when != "teardown"
            if tried and outcome.verdict in verdicts.SETTLED and not report.failed:
                report.outcome = (
                    "failed"  # as an earlier attempt: what builds on pytest is not to see a success
                )
                report.longrepr = outcome.reason
            if tried and outcome.flaky:
                item.add_marker(pytest.mark.allure_label(FLAKY, label_type="tag"))
            if call.when != "teardown" and outcome.verdict is not ClaimVerdict.CONFIRMED:
                item.add_marker(pytest.mark.allure_label(str(outcome.verdict), label_type="tag"))
            report.user_properties = [
                *((name, value) for name, value in item.user_properties),
                (junit.PROPERTY, item.nodeid),
                ("verdict", str(outcome.verdict)),
                *([(FLAKY.lower(), ", ".join(outcome.attempts))] if outcome.flaky else []),
                (OUTCOME, json.dumps(to_plain(outcome))),
            ]
        return report

    def outcome(self, item: pytest.Item) -> TestOutcome:
        """What the test has said by now, in all its attempts; the last one of one that was put off tells of both."""
        now = self._attempt(item)
        earlier = item.stash.get(EARLIER, [])
        if earlier and PUT_OFF in item.stash and now.verdict in verdicts.SETTLED:
            return replace(now, seconds=now.seconds + sum(one.seconds for one in earlier))
        return merged([*earlier, now])

    def _try_again(self, item: pytest.Item) -> None:
        """Keep what the attempt before said; it may also have changed what an exclusive test changes."""
        item.stash.setdefault(EARLIER, []).append(self._attempt(item))
        if item.stash[PLANNED].exclusivity.exclusive:
            self.state.restoration.epoch.advance()

    def _attempt(self, item: pytest.Item) -> TestOutcome:
        test = item.stash[PLANNED]
        statement = item.stash.get(STATEMENT, Statement())
        results = self._results(item, statement)
        found = of_test(results, statement.raised)
        return TestOutcome(
            test=test.test,
            verdict=found.verdict,
            reason=found.reason,
            remedy=found.remedy,
            results=results,
            seconds=item.stash.get(SECONDS, 0.0),
            waited=item.stash.get(WAITED, 0.0),
            exclusive=str(test.exclusivity),
            worker=self.run.settings.worker,
            touched=tuple(sorted(statement.touched)),
            needs_windows=test.about_windows,
            figures=statement.figures(),
            explanation=statement.explanation,
            cause=statement.cause or (statement.explanation.cause if statement.explanation else ""),
        )

    def _results(self, item: pytest.Item, statement: Statement) -> tuple[ClaimResult, ...]:
        """What the test says of its claims: judged when its body has ended, and anew only if clearing up says more."""
        if statement.results is None:
            statement.results = tuple(
                self._result(item, part, statement) for part in item.stash[PLANNED].parts
            )
        return statement.results

    def _result(self, item: pytest.Item, part: ClaimPart, statement: Statement) -> ClaimResult:
        settled = item.stash.get(PROSPECT, Prospect()).of(part)
        claim = self.catalog[part.claim]
        if settled:
            found = ClaimResult(
                claim=claim.id,
                verdict=settled[0],
                test=item.nodeid,
                part=part.part,
                reason=settled[1],
                remedy=settled[2],
            )
        else:
            found = judged(claim, part.part, item.nodeid, statement, self._builds(item, part))
        return replace(
            found, active=part.active, evidence="lab" if self.run.evidence == "lab" else "field"
        )

    def _builds(self, item: pytest.Item, part: ClaimPart) -> dict[str, str]:
        """Windows builds that a part has to reach, with a node of each."""
        if not (self.run.facts and item.stash[PLANNED].needs.windows and part.about_windows):
            return {}
        return builds_of(self.catalog[part.claim], self.run.facts, self.run.settings, part.applies)

    def _blamed(self, item: pytest.Item) -> list[str]:
        """Windows nodes that all wrong decisions are about, where some were right: what to repeat the test on."""
        statement = item.stash[STATEMENT]
        if not self.run.facts or item.stash[PLANNED].needs.windows > 1:
            return []
        builds = {node.name: node.build for node in self.run.facts.by_os("windows")}
        wrong = {
            name
            for seen in statement.seen
            if seen.verdict is ClaimVerdict.VIOLATED
            for name in (seen.source, seen.target)
            if builds.get(name, "") in seen.about
        }
        return sorted(wrong) if set(builds) - wrong else []

    def _demand_decisions(self, item: pytest.Item) -> None:
        """A body that returned decided something, and on every node.

        Raises EnvironmentBroken where a node could not be judged, _Undecided where a result is NOT_RUN.
        """
        for result in self._results(item, item.stash[STATEMENT]):
            if result.verdict is ClaimVerdict.INCONCLUSIVE:
                raise EnvironmentBroken(result.reason)
            if result.verdict is ClaimVerdict.NOT_RUN:
                raise _Undecided(f"NOT_RUN: {result.reason}; {result.remedy}")

    def _applicable(self, item: pytest.Item) -> list[Claim]:
        prospect = item.stash[PROSPECT]
        test = item.stash[PLANNED]
        return [
            self.catalog[ident]
            for ident in {part.claim for part in test.parts if not prospect.of(part)}
        ]

    def _blame(self, item: pytest.Item, error: BaseException) -> None:
        """Say first what it fails of, where Felix does not run on a node that it is about."""
        names = [node.name for node in self.run.facts.nodes] if self.run.facts else []
        item.stash[STATEMENT].cause = felix_cause.name_felix(error, names, self.state.felix_down)

    def _lacking(self, item: pytest.Item, lack: MissingCapability) -> BaseException:
        """Note that something is missing: the skip that says so, or the error that says which lost node it had been."""
        statement = item.stash[STATEMENT]
        found = verdicts.from_body(lack)
        statement.say(found)
        for result in self._results(item, statement):
            if result.verdict is ClaimVerdict.INCONCLUSIVE:
                broken = EnvironmentBroken(f"{result.reason}\n  lacking   {lack}")
                self._inconclusive(item, broken, result.reason)
                return broken
        return _skipped(f"{found.verdict}: {lack}")

    def _broken(
        self, item: pytest.Item, failure: BaseException, what: str = "", where: str = ""
    ) -> EnvironmentBroken:
        """What failed, told as no statement about the cluster."""
        broken = EnvironmentBroken(f"{what}{failure}")
        self._inconclusive(item, broken, f"{where}{first_line(failure)}")
        return broken.with_traceback(failure.__traceback__)

    def _inconclusive(self, item: pytest.Item, error: BaseException, reason: str) -> None:
        self.run.blame_machine(error)
        item.stash[STATEMENT].say(Finding(ClaimVerdict.INCONCLUSIVE, reason))
        self._fail(item, error)

    def _fail(self, item: pytest.Item, error: BaseException) -> None:
        """Collect the bundle, and tell in the failure where it lies and how to run just this again."""
        claims = [part.claim for part in item.stash[PLANNED].parts]
        again = options.repeat_command(item.config, list(dict.fromkeys(claims)), self._blamed(item))
        if any(again in note for note in getattr(error, "__notes__", ())):
            return  # a session fixture's error, raised again for its next test
        failure = Failure(
            test=item.nodeid, claims=tuple(claims), error=error, seen=getattr(error, "seen", ())
        )
        if self.state.diagnostics.collect(failure, self.state.attachments):
            error.add_note(f"  see       {from_here(self.state.attachments.folder)}")
        error.add_note(f"  again     {again}")
        told = error.explanation if isinstance(error, Nonconformance | SuiteError) else None
        if told and not item.stash[STATEMENT].explanation:
            item.stash[STATEMENT].explanation = replace(told, again=again)


def recorder(item: pytest.Item) -> Recorder:
    """The ``record`` fixture's value for a test."""
    return Recorder(item.stash[PLANNED].claims(catalog()), item.stash[STATEMENT])


class _Undecided(Exception):
    """A test's body returned, and did not decide all that it is there for."""


def from_here(path: Path) -> Path:
    """A path from where the user stands, if it lies below: no file that is handed on names a machine's folders."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _skipped(reason: str) -> BaseException:
    return pytest.skip.Exception(reason, _use_item_location=True)
