# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: options, selection, the cluster of a run, verdicts, reports. The plugin
connects all parts of the judge. It does nothing unless a run names something under ``suites/``.
``conftest.py`` loads the plugin; no entry point does."""

import re
import resource
import traceback
from pathlib import Path
from typing import Any

import pytest

from conformance import product
from conformance.catalog import catalog
from conformance.errors import ClusterUnusable, SuiteError, UsageProblem, first_line
from conformance.kube.prepared import command as prepared_by
from conformance.model.counted import counted
from conformance.plugin import lists, options, state
from conformance.plugin.controller import Controller
from conformance.plugin.header import covered_nodes
from conformance.plugin.judge import Judge
from conformance.plugin.judge.stash import PLANNED
from conformance.plugin.marked import demanded
from conformance.plugin.qualification import Qualification, qualification
from conformance.plugin.rerun import rerun_of
from conformance.plugin.words import selects_nothing, subjects, untested
from conformance.printing import Door, say
from conformance.run.provider import Provider
from conformance.run.run import Run
from conformance.schedule import load
from conformance.schedule.workers import more_than_auto, workers_for

MARKERS = (
    "verifies(claim, part, active): the claim of the catalog that the test decides",
    "needs(...): what the test needs of a cluster beyond its claims' needs",
    "manifest(path, otherwise): the YAML file under manifests/ that the test applies",
    "smoke: runs with --smoke",
    "each_world(edits): runs for each packaged world of policies, unchanged or with an edit",
    "each_story: runs for each packaged story of policies and events",
    "begins_early: starts before other tests, because it waits longer",
    "after_all_others: runs last, and decides by what the standing watch has observed",
    "about(*words): further words by which -k selects the test",
    "disruptive: changes more than the run's own namespaces; given by the claim's isolation in the catalog",
    "allure_label(value, label_type): label in Allure's results",
)

PYTESTS_MARKS = ("and", "or", "not", "parametrize", "skip", "skipif", "usefixtures", "xfail")
"""Names for ``-m`` that pytest itself defines."""
ONE_BY_ONE = 1
"""The number of tests that xdist gives a worker at a time. Each test takes seconds, and exclusive
tests, which come last, wait for all tests that a worker received earlier."""


class Hooks:
    """Hooks that this plugin offers, so that tests of the plugin can replace its parts."""

    @pytest.hookspec(firstresult=True)
    def pytest_conformance_provider(self, config: pytest.Config) -> Provider | None:
        """Return the provider that opens clusters, finds out facts and hands out connections."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    options.add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Offer the plugin's own hooks."""
    pluginmanager.add_hookspecs(Hooks)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | pytest.ExitCode | None:
    """Begin the run, unless an option or an error ends it here. Print an unforeseen error safely;
    such an error is no verdict."""
    try:
        return _begin(config)
    except (pytest.UsageError, pytest.exit.Exception):
        raise
    except Exception:
        say(*traceback.format_exc().splitlines(), error=True)
        return pytest.ExitCode.INTERNAL_ERROR


def _begin(config: pytest.Config) -> int | pytest.ExitCode | None:
    """Carry out options that only print or clean up, such as ``--list-claims``; keep ``--plan`` in
    one process; return an exit code if the run ends here."""
    if config.option.help:
        say(*options.help_lines(product.command()))
    if config.option.list_claims:
        return _list_claims(config)
    if config.option.list_images:
        from conformance.plugin import list_images  # imports the client of Kubernetes
        from conformance.run import clusters

        return list_images.command(config, clusters.access_of)
    if config.option.restore or config.option.janitor:
        from conformance.plugin import recover  # imports the client of Kubernetes
        from conformance.run import clusters

        return recover.command(config, clusters.access_of)
    if not hasattr(config, "workerinput") and state.awake(config) and not state.passive(config):
        _demands(config)
    if state.is_listing(config) and hasattr(config.option, "numprocesses"):
        config.option.numprocesses = 0
    if state.awake(config) and getattr(config.option, "maxschedchunk", 1) is None:
        config.option.maxschedchunk = ONE_BY_ONE
    ended = _open(config)
    if ended is None:
        _note_too_many_workers(config)
    return ended


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the suite's plugins in a conformance run, and set the folder of its reports."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    if not state.awake(config) or config.option.help:
        return
    from conformance.plugin import worlds as each_world  # only in a conformance run
    from conformance.plugin.fixtures import (  # only in a conformance run
        disruption,
        reading,
        run,
        streams,
        table,
        traffic,
        worker,
        worlds,
    )

    if config.option.tbstyle == "auto":  # pytest's long style starts with pages of fixture values
        config.option.tbstyle = "short"
    run_state = state.of(config)
    areas = (run, worker, traffic, worlds, reading, table, streams, disruption)
    for area in areas:
        config.pluginmanager.register(
            area, f"conformance-fixtures-{area.__name__.rpartition('.')[2]}"
        )
    config.pluginmanager.register(each_world, "conformance-each-world")
    judge = Judge(run_state, demanded(areas))
    config.pluginmanager.register(judge, "conformance-judge")
    config.pluginmanager.register(judge.words, "conformance-words")
    if hasattr(
        config, "workerinput"
    ):  # workers read the command line anew, without the controller's changes
        config.option.allure_report_dir = config.workerinput[state.WORKER_INPUT]["allure"]
    else:
        if run_state.run.directory:
            _report_paths(config, run_state.run.directory.path)
        _join_arguments(config)
        controller = Controller(run_state, _demands(config))
        config.pluginmanager.register(controller, "conformance-controller")
        if config.option.plan:
            only = lists.PlanOnly(
                run_state, whole=state.selects_all(config), short=controller.out_of_reach
            )
            config.pluginmanager.register(only, "conformance-plan")
        if config.option.dry_run:
            from conformance.plugin import rehearsal  # only in a conformance run
            from conformance.plugin.fixtures import (
                rehearsal as rehearsal_fixtures,  # only in a conformance run
            )

            config.pluginmanager.register(rehearsal.Rehearsal(run_state), rehearsal.NAME)
            config.pluginmanager.register(rehearsal_fixtures, "conformance-rehearsal-fixtures")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Delay other plugins' work around a test until the test's turn, and put a filter before the
    terminal."""
    if state.awake(session.config) and not session.config.option.help:
        _guard(session.config)
        from conformance.plugin.exclusive import Exclusive  # only in a conformance run
        from conformance.plugin.limit import Limit  # only in a conformance run
        from conformance.plugin.once_more import LastTest, OnceMore  # only in a conformance run

        run_state = state.of(session.config)
        plugins = session.config.pluginmanager
        plugins.register(Exclusive(run_state), "conformance-exclusive")
        plugins.register(Limit(run_state), "conformance-limit")
        if not run_state.tries_at_once:
            plugins.register(LastTest(run_state), "conformance-last-test")
            plugins.register(OnceMore(run_state), "conformance-once-more")


def _guard(config: pytest.Config) -> None:
    """Filter pytest's output, since tracebacks and logs contain a cluster's texts."""
    if (reporter := config.pluginmanager.getplugin("terminalreporter")) is not None:
        writer = reporter._tw
        writer._file = Door(writer._file, own=writer.hasmarkup or reporter.isatty)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of workers for ``-n auto``: as many as the covered nodes allow
    (:class:`Workers` has the cost of each worker)."""
    if not state.awake(config):
        return None
    run_state = state.of(config)
    if state.passive(config):
        return 0
    try:
        run_state.run.open()
    except Exception:  # the start of the session reports the error and its exit code
        return 0
    number, run_state.run.workers = _workers(run_state.run)
    return number


def _note_too_many_workers(config: pytest.Config) -> None:
    """Note in the header that the user wants more workers than ``-n auto`` would start; the run
    starts all of them.

    Raise pytest.UsageError if prepared namespaces are used and suffice for fewer workers only.
    """
    given = getattr(config.option, "numprocesses", None)
    if not isinstance(given, int) or hasattr(config, "workerinput") or not state.awake(config):
        return
    run = state.of(config).run
    if run.inspection:
        prefix = run.settings.namespaces_prefix
        prepared = run.inspection.prepared
        if prefix and given > prepared:
            if run.directory:
                run.directory.discard()
            raise pytest.UsageError(
                f"-n {given}: namespaces {prefix}-... are prepared for {counted(prepared, 'worker')}; run with "
                f"-n {prepared}, or prepare more:  {prepared_by(prefix, given)}"
            )
        number, why = _workers(run)
        run.workers = more_than_auto(run.settings.workers, given, number, why)


def _workers(run: Run) -> tuple[int, str]:
    """Return the number of workers of ``-n auto`` on an opened cluster, and the reason."""
    settings = run.settings
    inspection = run.inspection
    assert inspection is not None  # otherwise open() has raised
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if run.choice.own_lab else None
    busy = load.busy() if run.shares_machine else ""
    return workers_for(
        settings.workers,
        covered_nodes(inspection.facts, settings),
        inspection.room,
        busy,
        files=files,
        prepared=inspection.prepared,
    )


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End everything that the plugin has started."""
    if state.STATE in config.stash:
        state.of(config).run.alive.end()


@pytest.hookimpl(trylast=True)
def pytest_conformance_provider(config: pytest.Config) -> Any:
    """Return the provider of real clusters and labs, if no other plugin offers one."""
    from conformance.run.clusters import Clusters  # imports the client of Kubernetes

    return Clusters(config.rootpath)


def _demands(config: pytest.Config) -> Qualification:
    """Read the requirements for the run's report, before the cluster is touched."""
    try:
        rerun_of(config)
        return qualification(config)
    except UsageProblem as error:
        raise pytest.UsageError(str(error)) from None


def _open(config: pytest.Config) -> int | None:
    """Open the cluster before the session, so that an error is printed once, like an error in the
    options."""
    if hasattr(config, "workerinput") or not state.awake(config) or state.passive(config):
        return None
    if _selects_nothing(config):
        return int(pytest.ExitCode.NO_TESTS_COLLECTED)
    run = state.of(config).run
    patience = run.settings.timings.run
    run.alive.begin(patience.progress_every, state.past_capturing(config), patience.silent)
    run.alive.doing("starting the lab" if run.choice.own_lab else "reading the cluster")
    try:
        run.open()
        run.alive.doing("collecting tests")
        again = rerun_of(config)
        if again and run.inspection:
            run.refuse(lambda inspection: again.check(inspection.facts, inspection.installed))
    except UsageProblem as error:
        raise pytest.UsageError(str(error)) from None
    except ClusterUnusable as error:
        reasons = [f"  {number}. {reason}" for number, reason in enumerate(error.reasons, 1)]
        first, *others = error.reasons if len(reasons) == 1 else ("for several reasons", *reasons)
        say(f"ERROR: cannot run on this cluster: {first}", *others, error=True)
        return 7
    except SuiteError as error:
        say(f"ERROR: cannot run on this cluster: {first_line(error)}", error=True)
        return 7
    except KeyboardInterrupt:
        say("ERROR: interrupted before the first test", error=True)
        return int(pytest.ExitCode.INTERRUPTED)
    return None


def _demand_known(config: pytest.Config) -> None:
    """Raise pytest.UsageError for tests that do not exist and marks that no test has, before a lab
    is started."""
    base = config.invocation_params.dir
    for argument in config.args:
        if not (base / argument.partition("::")[0]).exists():
            raise pytest.UsageError(f"{argument}: there is no such file or folder")
    own = {re.split(r"[:(]", line)[0] for line in MARKERS}
    marks = own.union(
        (re.split(r"[:(]", line)[0] for line in config.getini("markers")), PYTESTS_MARKS
    )
    for word in re.findall(r"\w+", re.sub(r"\([^()]*=[^()]*\)", "", config.option.markexpr or "")):
        if word not in marks:
            names = ", ".join(sorted(own))
            raise pytest.UsageError(
                f"-m {config.option.markexpr!r}: no test has the mark {word}; the marks are {names}"
            )


def _selects_nothing(config: pytest.Config) -> bool:
    """Return whether ``-k`` selects no test, and print why, before a lab is started for nothing."""
    _demand_known(config)
    why = _why_nothing(config.option, config.rootpath / state.SUITES)
    if why:
        say(*f"ERROR: {why}".split("\n"), error=True)
    return bool(why)


def _why_nothing(option: Any, suites: Path) -> str:
    """Return why ``-k`` selects no test, and what to write instead. Return an empty string if it
    selects tests."""
    expression = option.keyword
    if not expression or not selects_nothing(expression, suites, catalog(), option.claim):
        return ""
    if not selects_nothing(expression, suites, catalog()):
        return f"-k {expression!r} selects no test of --claim {', '.join(option.claim)}"
    if waiting := untested(expression, suites, catalog()):
        subjects_without = "; ".join(
            f"no test exists yet for {word}: {', '.join(claims)}"
            for word, claims in waiting.items()
        )
        return f"-k {expression!r} selects no test: {subjects_without}"
    listed = "\n".join(
        f"  {word:14} {what}{' (no test yet)' if untested(word, suites, catalog()) else ''}"
        for word, what in subjects(catalog()).items()
    )
    return f"-k {expression!r} selects no test; the known words are\n{listed}"


def _report_paths(config: pytest.Config, run: Path) -> None:
    """Put JUnit XML and Allure results into the run's folder, unless the user named another
    place."""
    if state.is_listing(config):
        return
    if not getattr(config.option, "xmlpath", None):
        config.option.xmlpath = str(run / "junit.xml")
    if not getattr(config.option, "allure_report_dir", None) and hasattr(
        config.option, "allure_report_dir"
    ):
        config.option.allure_report_dir = str(run / "allure")


def _list_claims(config: pytest.Config) -> int | pytest.ExitCode:
    """Collect the tests, print the list of claims, and end the run."""
    from _pytest.main import wrap_session  # pytest's own --fixtures also uses wrap_session

    def body(config: pytest.Config, session: pytest.Session) -> None:
        options.read_choice(config)
        options.check_claims(config.option.claim)
        wanted = list(config.option.claim)
        config.option.claim = []
        session.perform_collect()
        tests = [item.stash[PLANNED] for item in session.items if PLANNED in item.stash]
        say(*lists.claims_list(tests, wanted, whole=config.option.long))

    config.option.no_header = config.option.no_summary = True
    return wrap_session(config, body)


def _join_arguments(config: pytest.Config) -> None:
    """Pass ``--report-dir DIR`` to workers as ``--report-dir=DIR``.

    Workers read the command line before they know these options, and mistake a separate word that
    is an existing path for the location of the tests.
    """
    parameters = config.invocation_params
    arguments = options.joined([str(argument) for argument in parameters.args])
    config.invocation_params = pytest.Config.InvocationParams(
        args=arguments, plugins=parameters.plugins, dir=parameters.dir
    )
