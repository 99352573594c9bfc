# SPDX-License-Identifier: Apache-2.0
"""The controller: opens the cluster before the first test, receives every report, and ends the run.

The run's results are one verdict per claim, the reports, and the exit code.
"""

import datetime
import functools
import json
import shlex
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.errors import SuiteError
from conformance.journal import Outcome
from conformance.kube.ownership import removed_by_hand
from conformance.model.codec import from_plain
from conformance.model.facts import Facts
from conformance.model.images import RanImage, together
from conformance.model.installed import Installed
from conformance.model.probing import Probing
from conformance.plugin import header, lists, notes, other_reports, short_summary, status
from conformance.plugin.following import Following
from conformance.plugin.judge import from_here
from conformance.plugin.judge.stash import LATER, OUTCOME, WAITS
from conformance.plugin.options import labels
from conformance.plugin.qualification import Qualification
from conformance.plugin.rehearsal import SIGN
from conformance.plugin.rerun import AGAIN, rerun_of, tests_to_run
from conformance.plugin.state import WORKER_INPUT, State, is_listing, passive, selects_all
from conformance.printing import line
from conformance.report import (
    attach,
    page,
    provenance,
    terminal,
)
from conformance.report.probing import cost
from conformance.report.run import RunReport, write_json
from conformance.run.directory import RunDirectory
from conformance.run.run import NODE_FACTS
from conformance.schedule import load, plan
from conformance.schedule.estimate import token_line
from conformance.schedule.missing_rights import (
    claims_blocked_by_missing_rights,
    lines_about_tests_not_run,
)
from conformance.schedule.plan import PlannedTest
from conformance.verdicts.attempts import of_planned, silenced, unanswered
from conformance.verdicts.claims import (
    TestOutcome,
    claim_outcomes,
    windows_missed,
)
from conformance.watch.result import gaps

_MARKUP: dict[terminal.Tone, dict[str, bool]] = {
    "plain": {},
    "good": {"green": True},
    "known": {"cyan": True},
    "warn": {"yellow": True},
    "bad": {"red": True, "bold": True},
}


class Controller:
    """The hooks of the process that the user started."""

    def __init__(self, state: State, qualification: Qualification) -> None:
        self.state = state
        self.run = state.run
        self.qualification = qualification
        self.compared: tuple[str, ...] = ()
        """The comparison of the report with the baseline, as lines."""
        self.started = datetime.datetime.now(datetime.UTC)
        self.outcomes: dict[str, TestOutcome] = {}
        self.crashed: dict[str, str] = {}
        self.before_crash: dict[str, TestOutcome] = {}
        self.problems: list[str] = []
        """Errors in test files: with any of them, the run ends with exit code 4, without tests."""
        self.report: RunReport | None = None
        """The report, once the run has ended."""
        self.by_user = False
        self.running: list[str] = []
        """Tests that have begun and not ended, the oldest first."""
        self.interrupted = False
        """pytest was interrupted before its end."""
        self.left: list[str] = []
        """Objects that the run's processes had left on the cluster when they had ended."""
        self.logged: list[str] = []
        """Findings in the logs of Calico and kube-proxy, read at the run's end."""
        self.unusable = ""
        """The reason why the run could not begin, although its tests were collected."""
        self.short = ""
        """A warning that the user's token may expire before the run ends; empty: no warning."""
        self._planned = self._exclusive = False
        self._watch: Any = None
        self.following = Following(state)
        self._waits: set[str] = set()
        """Tests that are run once more, so that their present outcome does not count."""
        self._over = False
        """True after the user was informed that no further test begins."""

    def pytest_report_header(self, config: pytest.Config) -> list[str]:
        if passive(config) or not self.run.connection:
            return []
        lines = header.lines(self.run, whole=config.option.verbose > 0 or config.option.plan)
        # the last line names the folder of the reports
        shown = lines[:-1] if is_listing(config) else lines
        return [*map(line, shown)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand xdist's worker its connection and the facts."""
        node.workerinput[WORKER_INPUT] = self.state.for_worker()
        again = tests_to_run(node.config)
        node.workerinput[AGAIN] = None if again is None else sorted(again)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Note that a worker has collected its tests; no worker has been given tests yet."""
        self._keep_others_out()
        self._begin_watch()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Get the plan of the run; in a run without workers, this process has collected the
        tests."""
        self._keep_others_out()
        self._begin_watch()

    def _begin_watch(self) -> None:
        """Begin the standing watch if a planned test judges its observations."""
        if self._watch or not any(test.exclusivity.kind == "last" for test in self._plan()):
            return
        from conformance.watch.standing_watch import Watch  # imports the client of Kubernetes

        self._watch = Watch(self.run, self.run.connect())
        self._watch.begin()

    def _keep_others_out(self) -> None:
        """Take the run lock if an exclusive test is planned."""
        planned = self._plan()
        if planned and not self._planned:
            self._planned = True
            self.following.begin(planned)
            self._look_at_token(planned)
            for why in self.out_of_reach():
                self.following.note(why)
        if self._exclusive or not any(test.exclusivity.exclusive for test in planned):
            return
        self._exclusive = True
        try:
            self.run.take_lock()
        except SuiteError as error:
            self.unusable = str(error).splitlines()[0]
            pytest.exit(line(f"cannot run on this cluster: {self.unusable}"), returncode=7)

    def _plan(self) -> list[PlannedTest]:
        """Return the planned tests; no tests before a process has collected them, and no tests in a
        dry run."""
        directory = self.run.directory if not self.run.settings.dry_run else None
        plans = directory.read(directory.plans) if directory else []
        return [from_plain(PlannedTest, item) for item in plans[0]] if plans else []

    def _look_at_token(self, tests: list[PlannedTest]) -> None:
        """Warn the user early if the token will expire before the run ends."""
        inspection = self.run.inspection
        if inspection is None or inspection.token_ends is None:
            return
        workers = getattr(self.state.config.option, "numprocesses", None) or 1
        longest = lists.estimated(self.run, tests).minutes(workers)[1]
        self.short = token_line(inspection.token_ends, longest, time.time())
        if self.short:
            self.following.note(self.short)

    def out_of_reach(self) -> list[str]:
        """Return the required sets that cannot become complete, whatever the results of the planned
        tests are."""
        config = self.state.config
        facts = self.run.facts
        if (
            not self.qualification.required or facts is None or rerun_of(config)
        ):  # a rerun also has the earlier verdicts
            return []
        silent = claim_outcomes(catalog(), facts, self._tests(), whole=selects_all(config))
        return self.qualification.out_of_reach(facts, self.qualification.answered(silent))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Handle a dead worker, which may have left the cluster changed while other
        workers test.
        """
        if error:
            self.left += self.state.restoration.put_back(node.gateway.id)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins, here or in a worker."""
        self.running.append(nodeid)
        self.run.alive.test_began(nodeid)
        self.run.alive.doing("")
        self.following.test_begun(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Show the user which tests still run."""
        self.running = [name for name in self.running if name != nodeid]
        self.run.alive.test_ended(nodeid)
        over = self.following.pace.over
        idle = "all tests have ended; processes end" if over else "waiting for the next test"
        self.run.alive.doing("" if self.running else idle)

    def pytest_enter_pdb(self) -> None:
        """Stop the progress lines: a user in the debugger knows what goes on."""
        self.run.alive.doing("")
        for test in self.running:
            self.run.alive.test_ended(test)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the newest outcome of each test; a later phase always has more information."""
        self.run.alive.note_output()
        self.run.alive.note_news_of(report.nodeid)
        outcome = next((value for name, value in report.user_properties if name == OUTCOME), None)
        if isinstance(outcome, str):
            received = self.outcomes[report.nodeid] = from_plain(TestOutcome, json.loads(outcome))
            if received.remedy == LATER and not self._over:
                self._over = True
                self.run.progress().tell(
                    f"--max-minutes {self.run.settings.max_minutes:g} have passed: no test begins"
                )
            self._follow(report, received)
        elif report.when not in (
            "setup",
            "call",
            "teardown",
        ):  # xdist's report of a dead worker; the test may be tried again elsewhere
            self.crashed[report.nodeid] = report.longreprtext.strip()
            report.when = status.CRASH  # type: ignore[assignment]
            self.pytest_runtest_logfinish(report.nodeid)
            if report.nodeid in self.outcomes:
                self.before_crash[report.nodeid] = self.outcomes.pop(report.nodeid)

    def _follow(self, report: pytest.TestReport, outcome: TestOutcome) -> None:
        """Show a failure at once; show the pace when a test has ended for good."""
        if str(report.outcome) in (WAITS, "rerun"):
            self._waits.add(report.nodeid)
            return
        waits = report.nodeid in self._waits
        if report.when == "teardown":
            self._waits.discard(report.nodeid)
            if not waits:
                self.following.ended(outcome)
        if not waits:
            self.following.failed(outcome)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Distinguish Ctrl-C from the interruption with which xdist carries out ``-x``."""
        # If a signal arrives where Python knows no line, the traceback has an entry without a line,
        # which pytest cannot print.
        excinfo.traceback = excinfo.traceback.filter(
            lambda entry: (entry._rawentry.tb_lineno or -1) > 0
        )
        by_software = (
            issubclass(excinfo.type, KeyboardInterrupt) and excinfo.type is not KeyboardInterrupt
        )
        if not by_software and not self.by_user:
            # Set this first: otherwise the progress thread may print the test's name below the next
            # line.
            self.run.alive.doing("interrupted: removing the objects of the run")
            self.run.progress().tell("interrupted: removing the objects of the run")
        self.by_user = self.by_user or not by_software

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Turn wrong marks in a test file into a usage error in place of a failed collection."""
        if report.failed and "UsageError" in report.longreprtext:
            self.problems.append(f"{report.nodeid}: {report.longreprtext.strip().splitlines()[-1]}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """Return a letter and a word for every verdict that is not plain CONFIRMED."""
        return status.of(report)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int
    ) -> Generator[None, object, object]:
        """Make verdicts, reports and exit code after pytest has written its files and before
        pytest's summary."""
        result = None
        try:
            result = yield
        except KeyboardInterrupt:  # Ctrl-C while workers end; the report is written nevertheless
            self.by_user = True
        config = session.config
        directory = self.run.directory
        if passive(config) or not self.run.facts or not directory:
            return result
        if is_listing(config):
            session.exitstatus = 0 if exitstatus in (0, 5) and config.option.plan else exitstatus
            return result
        try:
            self._end_run(directory)
        except KeyboardInterrupt:  # the rest must end within the short cleanup time
            self.by_user = True
            self._end_run(directory)
        if self.problems:
            session.exitstatus = 4
            return result
        # An interruption outranks failures; an exit code of pytest.exit outranks an interruption.
        exitstatus = max(int(exitstatus), pytest.ExitCode.INTERRUPTED if self.by_user else 0)
        self.interrupted = exitstatus in (2, 3)
        status = 7 if self.run.reach.unusable else exitstatus
        report, self.compared = self.qualification.apply(
            self._collect(config, directory), status, by_user=self.by_user
        )
        report = self._with_leftovers(report)
        session.exitstatus = report.exit_code
        self.report = report
        # written before any step that may fail
        write_json(report, directory.path / "conformance.json")
        page.write(
            report.plain,
            directory.path / "report.html",
            difference=self.compared,
            folder=directory.path,
        )
        other_reports.agree(config, report)
        self.following.end(report)
        self.run.alive.doing("ending the run")
        return result

    def _end_run(self, directory: RunDirectory) -> None:
        """Restore the run's changes, remove its objects, and record leftovers."""
        if self._watch:
            self._watch.end()
        self.run.alive.doing("removing the run's objects and writing reports")
        self.left += [*self.state.restoration.put_back(), *self.run.clean_up()]
        self.run.unlock()
        self.run.alive.doing("reading logs of Calico and kube-proxy")
        if self.run.facts:
            self.logged = self.run.last_look(header.covered(self.run.facts, self.run.settings))
        if directory.problem.exists():
            self.problems.append(directory.problem.read_text())
        self.state.interruption.only_reports_are_left = True

    def _collect(self, config: pytest.Config, directory: RunDirectory) -> RunReport:
        """Return the report of tests and claims, merged with the run that this run continues."""
        for name in NODE_FACTS:
            self.run.take_in(name)
        facts = self.run.facts
        assert facts is not None
        now = self._tests()
        again = rerun_of(config)
        selection = notes.selection(config.option, self.run.settings.shard)
        tests = again.together(now) if again else now
        whole = again.whole if again else selects_all(config)
        claims = claim_outcomes(catalog(), facts, tests, whole=whole)
        claims = again.answered(claims) if again else claims
        claims = notes.with_shares(claims) if config.option.quick else claims
        report = RunReport(
            run_id=self.run.settings.run_id,
            started=self.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            seconds=(datetime.datetime.now(datetime.UTC) - self.started).total_seconds(),
            exit_code=0,
            command=" ".join(map(shlex.quote, ("pytest", *config.invocation_params.args))),
            cluster={
                "how": self.run.choice.how,
                "why": self.run.choice.why,
                "label": self.run.connection.label if self.run.connection else "",
            },
            labels=labels(config.option.label),
            facts=facts,
            tests=tests,
            claims=self.qualification.answered(claims),
            suite=provenance.suite(config.rootpath),
            timings=provenance.changed(self.run.settings.timings),
            cut_short=notes.cut_short(now, interrupted=self.interrupted)
            or notes.cut_short(tests, interrupted=self.interrupted),
            selection=selection,
            installed=self.run.inspection.installed if self.run.inspection else Installed(),
            covered=header.covered(facts, self.run.settings),
            attachments=attach.of_tests(tests, directory.attachments),
            unverified=self.run.connection.unverified if self.run.connection else "",
            notes=self._notes(tests, facts, directory),
            images=together(
                from_plain(RanImage, image)
                for ran in directory.read(directory.images)
                for image in ran
            ),
            probing=cost(from_plain(Probing, item) for item in directory.read(directory.probing)),
        )
        return again.join(report, now, self.qualification.attested) if again else report

    def _with_leftovers(self, report: RunReport) -> RunReport:
        """Return the report with unrestored changes in its last line, after the cause."""
        left = [
            each
            for each in self.left
            if each.startswith(str(Outcome.FAILED)) or "; put back by: " in each
        ]
        cause = report.exit_cause or terminal.EXIT_MEANINGS.get(report.exit_code, "")
        return replace(report, exit_cause="; ".join([cause, *left])) if left else report

    def _tests(self) -> tuple[TestOutcome, ...]:
        """Return all planned tests with their outcomes; a test without an outcome crashed or was
        never run."""
        tests = {test.test: self._outcome(test) for test in self._plan()}
        return (
            *tests.values(),
            *(outcome for name, outcome in self.outcomes.items() if name not in tests),
        )

    def _outcome(self, test: PlannedTest) -> TestOutcome:
        silent = silenced(
            test.test,
            test.parts,
            self.run.evidence,
            # The line above the last names the worker's Python.
            crash=self.crashed.get(test.test, "").rpartition("\n")[2],
            ended=self.unusable or self.run.reach.ended or "the run ended before it",
        )
        return of_planned(
            self.outcomes.get(test.test),
            replace(silent, needs_windows=test.about_windows),
            self.before_crash.get(test.test),
        )

    def _notes(
        self, tests: tuple[TestOutcome, ...], facts: Facts, directory: RunDirectory
    ) -> tuple[str, ...]:
        """Return the notes that every report shows."""
        run = self.run
        settings = run.settings
        ran = [test.test for test in tests if test.ran]
        not_allowed = (settings.not_disruptive, settings.not_cluster_disruptive)
        lines = (
            windows_missed(tests),
            run.connection.unverified if run.connection else "",
            *header.assumed_versions(settings),
            *header.assumptions(facts),
            "" if settings.workers.watch else header.NO_WATCH,
            notes.watch_left_out(self.state.config, self._plan(), settings.workers.watch),
            plan.by_kubernetes(self._plan(), ran, facts, settings),
            notes.windows_agents(facts) if run.evidence == "lab" else "",
            *claims_blocked_by_missing_rights(settings.lacking, tests),
            f"the run ended: {run.reach.ended}" if run.reach.ended else "",
            notes.selection(self.state.config.option, settings.shard),
            self.short,
            load.note(directory.read(directory.late)),
            *gaps(directory),
            unanswered(tests),
            *self.left,
            *self.logged,
            *(notes.cost_of(why, tests) for why in not_allowed if why),
            notes.loss_of_cluster(run.reach),
            self.state.events.problem,
            f"{run.lost}: nothing beyond the run's own namespaces was changed from then on"
            if run.lost
            else "",
            notes.cut_short(tests, interrupted=self.interrupted),
        )
        return tuple(filter(None, lines))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the summary of claims; pytest's own summary follows, with uncut first lines."""
        terminalreporter.short_test_summary = functools.partial(
            short_summary.tell, terminalreporter, terminalreporter.short_test_summary
        )
        for problem in self.problems:
            terminalreporter.write_line(line(f"ERROR: {problem}"), red=True)
        if self.run.settings.dry_run:
            others = [test for test in self.outcomes.values() if not test.reason.startswith(SIGN)]
            for text in lines_about_tests_not_run(others, self.run.settings.lacking):
                terminalreporter.write_line(line(text))
        if not self.report or not self.run.directory:
            return
        terminalreporter.section("claims", sep="=")
        has_header = terminalreporter.showheader and not terminalreporter.no_header
        in_header = f"note: {self.report.unverified}" if has_header else None
        for text, tone in terminal.summary(
            self.report.plain,
            from_here(self.run.directory.path),
            figures=self.state.config.option.verbose > 0,
        ):
            if text != in_header:
                terminalreporter.write_line(text, **_MARKUP[tone])
        if self.compared:
            terminalreporter.section("compared with the baseline", sep="=")
            for text in self.compared:
                terminalreporter.write_line(line(text))
        if self.run.settings.keep:
            terminalreporter.write_line(
                f"objects were kept; remove them with  {removed_by_hand(self.run.settings.run_id)}"
            )
