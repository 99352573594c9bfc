# SPDX-License-Identifier: Apache-2.0
"""The judge in every process that runs tests: selects them, and turns the exceptions that they
raise into results.

Before each test the judge decides whether the test can run on this cluster. The results of claims
reach the controller as user properties of pytest's reports. In pytest's terms VIOLATED is failed,
INCONCLUSIVE is an error, NOT_RUN and NOT_APPLICABLE are skipped, and all other verdicts are passed.
"""

import json
import sys
from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

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
    reason_of,
)
from conformance.evidence import felix_cause
from conformance.model.claim import ClaimResult, ClaimVerdict, Finding
from conformance.model.codec import to_plain
from conformance.model.moment import utc
from conformance.plugin.judge import selection
from conformance.plugin.judge.stash import (
    AGAIN,
    BEGAN,
    EARLIER,
    LATER,
    OUTCOME,
    PLANNED,
    PROSPECT,
    PUT_OFF,
    SECONDS,
    STATEMENT,
    WAITED,
    WAITS,
)
from conformance.plugin.marked import planned
from conformance.plugin.options import repeat
from conformance.plugin.rerun import tests_to_run
from conformance.plugin.state import State
from conformance.plugin.words import Words
from conformance.report import junit
from conformance.report.diagnostics import Failure
from conformance.schedule import plan
from conformance.schedule.builds import builds_of
from conformance.verdicts import statement as verdicts
from conformance.verdicts.attempts import FLAKY, merged
from conformance.verdicts.claims import TestOutcome
from conformance.verdicts.judged import judged, of_test
from conformance.verdicts.prospect import ClaimPart, Prospect
from conformance.verdicts.recorder import Recorder
from conformance.verdicts.statement import Statement


def hide_how_it_was_decided() -> None:
    """Shorten the report of a verdict to the line of the test; other exceptions are shown in
    full."""
    for name, module in list(sys.modules.items()):
        if name.startswith("conformance.expect."):
            vars(module)["__tracebackhide__"] = is_verdict


def is_verdict(raised: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether an exception is about the cluster or the test's conditions, and not a defect
    of the suite."""
    return isinstance(raised.value, Nonconformance | SuiteError)


class Judge:
    """The hooks around tests."""

    def __init__(self, state: State, demands: Mapping[str, Conditions]) -> None:
        """Set up the hooks. ``demands``: for each fixture that describes only one sort of cluster,
        the conditions of this sort."""
        self.state = state
        self.run = state.run
        self.demands = demands
        self.catalog: Catalog = catalog()
        self.words = Words(self.catalog, partial(selection.subjects, known=self.catalog))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Read the marks; pass tags to ``-k``; leave out tests that ``--claim``, ``--smoke``,
        ``--quick`` and ``--shard`` do not select."""
        try:
            tests = [planned(item, self.catalog, self.demands) for item in items]
        except pytest.UsageError as problem:
            if not self.run.directory:
                raise
            self.run.directory.problem.write_text(
                str(problem)
            )  # the controller reads this file and ends the run
            items.clear()
            return
        for item, test in zip(items, tests, strict=True):
            item.stash[PLANNED] = test
            selection.mark(item, test, self.catalog)
        self.words.select(config, items)
        again = tests_to_run(config)
        mine = selection.in_shard(items, self.run.settings.shard)
        chosen = [
            item
            for item in items
            if item.nodeid in mine
            and selection.is_chosen(
                item, config.option, again, watch=bool(self.run.settings.workers.watch)
            )
        ]
        if len(chosen) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
            items[:] = chosen

    # tried first, since the controller reads the plan as soon as xdist reports the end of
    # collection
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the plan for the controller, which must know tests even if they never get a report.
        An interrupted collection has no plan."""
        if self.run.directory and all(PLANNED in item.stash for item in session.items):
            tests = [to_plain(item.stash[PLANNED]) for item in session.items]
            self.run.directory.write(self.run.directory.plans, self.run.settings.worker, tests)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Record the exit code at the run's end; this hook is the outermost. After a second Ctrl-C
        end the run at once, since pytest starts to end a session whatever exception was raised in
        it."""
        if self.state.interruption.exit_code is not None:
            raise SystemExit(self.state.interruption.exit_code)
        result = yield
        self.state.interruption.exit_code = int(session.exitstatus)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Assign all further attachments and requests to this test."""
        self.state.attachments.enter(nodeid)
        if self.run.provider:
            self.run.provider.enter(nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Skip a test that cannot run here; an error in fixtures is never a verdict about the
        cluster.
        """
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
            self._inconclusive(item, error, f"in set-up: {reason_of(error)}")
            raise

    def decide(self, item: pytest.Item, *, looks: bool = True) -> Prospect:
        """Return the test's possible verdicts by the present facts; skip it if it cannot run."""
        __tracebackhide__ = True
        facts = self.run.facts
        settings = self.run.settings
        prospect = (
            plan.prospect_of(item.stash[PLANNED], self.catalog, facts, settings, looks=looks)
            if facts
            else Prospect()
        )
        item.stash[PROSPECT] = prospect
        if prospect.verdict:
            raise self._skip(item, Finding(prospect.verdict, prospect.reason, prospect.remedy))
        return prospect

    @staticmethod
    def _skip(item: pytest.Item, found: Finding) -> BaseException:
        """Record why a test does not run, and return the skip exception with the reason."""
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
        ) as failure:  # pytest-timeout also raises this; it shows nothing about the cluster
            raise self._broken(item, failure) from None
        except Exception as error:
            self._blame(item, error)
            self._inconclusive(item, error, reason_of(error))
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
        """Keep a violation if cleaning up fails, and make every other verdict inconclusive."""
        __tracebackhide__ = True
        try:
            return (yield)
        except (AssertionError, pytest.fail.Exception) as failure:
            raise self._broken(
                item, failure, "clearing up after the test failed: ", "in clearing up: "
            ) from None
        except Exception as error:
            self._inconclusive(item, error, f"in clearing up: {reason_of(error)}")
            raise
        finally:
            item.session.shouldstop = self.run.reach.ended or item.session.shouldstop

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the outcome to the report, as far as it is known."""
        hide_how_it_was_decided()
        report = yield
        item.stash.setdefault(BEGAN, call.start)
        item.stash[SECONDS] = item.stash.get(SECONDS, 0.0) + call.duration
        if call.when == "call" and item.stash.get(PUT_OFF, False):
            report.outcome = WAITS  # type: ignore[assignment]  # as pytest-rerunfailures does: more is to come
        if call.when != "setup" or not report.passed:
            outcome = self.outcome(item)
            tried = bool(outcome.attempts) and call.when != "teardown"
            if tried and outcome.verdict in verdicts.SETTLED and not report.failed:
                report.outcome = (
                    # an earlier attempt failed: plugins of pytest must not receive a success
                    "failed"
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
        """Return the test's outcome so far, over all its attempts. If a postponed test was settled
        in its second run, this outcome counts, with the seconds of both runs."""
        now = self._attempt(item)
        earlier = item.stash.get(EARLIER, [])
        if earlier and PUT_OFF in item.stash and now.verdict in verdicts.SETTLED:
            return replace(now, seconds=now.seconds + sum(outcome.seconds for outcome in earlier))
        return merged([*earlier, now])

    def _try_again(self, item: pytest.Item) -> None:
        """Keep the outcome of the previous attempt. An exclusive test may repeat its changes, so
        mark the cluster as changed."""
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
            started=utc(item.stash.get(BEGAN, 0.0)),
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
        """Return the test's results. They are judged when the body has ended, and again if the
        cleanup adds results."""
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
        """Return the Windows builds on which a part must be decided, each with one node of this
        build."""
        if not (self.run.facts and item.stash[PLANNED].needs.windows and part.about_windows):
            return {}
        return builds_of(self.catalog[part.claim], self.run.facts, self.run.settings, part.applies)

    def _blamed(self, item: pytest.Item) -> list[str]:
        """Return the Windows nodes of all wrong decisions, so that only these are tested again.
        Return none if all Windows nodes have wrong decisions."""
        statement = item.stash[STATEMENT]
        if not self.run.facts or item.stash[PLANNED].needs.windows > 1:
            return []
        builds = {node.name: node.build for node in self.run.facts.by_os("windows")}
        wrong = {
            name
            for decision in statement.decisions
            if decision.verdict is ClaimVerdict.VIOLATED
            for name in (decision.source, decision.target)
            if builds.get(name, "") in decision.about
        }
        return sorted(wrong) if set(builds) - wrong else []

    def _demand_decisions(self, item: pytest.Item) -> None:
        """Check that a test whose body returned has decided every result.

        Raise EnvironmentBroken if a node could not be judged, _Undecided if a result is NOT_RUN.
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
        """Record the cause of a failure. If Felix does not run on a node of the failure, this is
        the cause."""
        names = [node.name for node in self.run.facts.nodes] if self.run.facts else []
        felix = felix_cause.name_felix(error, names, self.state.felix_down)
        item.stash[STATEMENT].cause = felix or getattr(error, "cause", "")

    def _lacking(self, item: pytest.Item, lack: MissingCapability) -> BaseException:
        """Record a missing capability. Return a skip, or an error that names the lost node which
        had the capability."""
        statement = item.stash[STATEMENT]
        found = verdicts.from_body(lack)
        statement.say(found)
        statement.cause = lack.cause
        for result in self._results(item, statement):
            if result.verdict is ClaimVerdict.INCONCLUSIVE and not self.run.settings.dry_run:
                broken = EnvironmentBroken(f"{result.reason}\n  lacking   {lack}")
                self._inconclusive(item, broken, result.reason)
                return broken
        return _skipped(f"{found.verdict}: {lack}")

    def _broken(
        self, item: pytest.Item, failure: BaseException, what: str = "", where: str = ""
    ) -> EnvironmentBroken:
        """Return the INCONCLUSIVE error for a failure that shows nothing about the cluster."""
        broken = EnvironmentBroken(f"{what}{failure}")
        self._inconclusive(item, broken, f"{where}{first_line(failure)}")
        return broken.with_traceback(failure.__traceback__)

    def _inconclusive(self, item: pytest.Item, error: BaseException, reason: str) -> None:
        self.run.blame_machine(error)
        if (gone := self.run.reach.gone) and gone in reason:
            item.stash[STATEMENT].cause = gone
        item.stash[STATEMENT].say(Finding(ClaimVerdict.INCONCLUSIVE, reason))
        self._fail(item, error)

    def _fail(self, item: pytest.Item, error: BaseException) -> None:
        """Collect the failure bundle. Add the bundle's place, and the command that repeats this
        test, to the failure."""
        claims = [part.claim for part in item.stash[PLANNED].parts]
        again = repeat.repeat_command(item.config, list(dict.fromkeys(claims)), self._blamed(item))
        if any(again in note for note in getattr(error, "__notes__", ())):
            return  # a session fixture's error is raised again for each of its tests
        failure = Failure(
            test=item.nodeid,
            claims=tuple(claims),
            error=error,
            observations=getattr(error, "observations", ()),
        )
        if self.state.diagnostics.collect(failure, self.state.attachments):
            error.add_note(f"  see       {from_here(self.state.attachments.folder)}")
        error.add_note(f"  again     {again}")
        explanation = error.explanation if isinstance(error, Nonconformance | SuiteError) else None
        if explanation and not item.stash[STATEMENT].explanation:
            item.stash[STATEMENT].explanation = replace(explanation, again=again)


def recorder(item: pytest.Item) -> Recorder:
    """Return the ``record`` fixture's value for a test."""
    return Recorder(item.stash[PLANNED].claims(catalog()), item.stash[STATEMENT])


class _Undecided(Exception):
    """A test's body returned, but did not decide everything that it should decide."""


def from_here(path: Path) -> Path:
    """Return a path relative to the current directory if the path lies below it, since files that
    users pass on must not name a machine's folders."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _skipped(reason: str) -> BaseException:
    return pytest.skip.Exception(reason, _use_item_location=True)
