"""What one process of a run knows: made once, kept in pytest's stash, handed to hooks and fixtures."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ClusterUnusable, SuiteTrouble, UsageProblem, first_line
from conformance.model.change import PutBack
from conformance.model.codec import from_plain, to_plain
from conformance.model.facts import Facts
from conformance.plugin import options
from conformance.plugin.progress import Progress
from conformance.report.attach import Attachments
from conformance.report.diagnostics import Diagnostics
from conformance.run.choice import Choice
from conformance.run.directory import Epoch, RunDirectory
from conformance.run.provider import Connection, Inspection, Lock, Provider
from conformance.run.unrestored import Unrestored
from conformance.settings import Settings

SUITES = "suites"
"""Only a run that names something in there is a conformance run; tests of the library never start a lab."""
WORKER_INPUT = "conformance"
"""Key of what xdist's controller hands to its workers."""


@dataclass(kw_only=True)
class State:
    """One process's part in a run."""

    config: pytest.Config
    choice: Choice
    settings: Settings
    run: RunDirectory | None
    """None in a run that touches nothing."""
    provider: Provider | None = None
    connection: Connection | None = None
    inspection: Inspection | None = None
    attachments: Attachments = field(default_factory=lambda: Attachments(Path("attachments")))
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    background: list[Callable[[], Iterable[Future[Any]]]] = field(default_factory=list)
    """Whoever starts work that outlives the test it was started for: asked for what has not ended."""
    epoch: Epoch = field(init=False)
    unrestored: Unrestored | None = field(init=False)
    """None in a run that touches nothing."""
    not_put_back: str = ""
    """Why what a test would see says nothing, in one line: what one before it has changed, or itself when it was tried
    before, is not known to be put back."""
    _lock: Lock | None = None
    _trouble: SuiteTrouble | None = None

    def __post_init__(self) -> None:
        self.epoch = Epoch(self.run)
        within = self.settings.timings.run.put_back
        self.unrestored = Unrestored(self.run.unrestored, within=within) if self.run else None

    @property
    def facts(self) -> Facts | None:
        """None before the cluster was looked at, and in a run that touches nothing."""
        return self.inspection.facts if self.inspection else None

    @property
    def evidence(self) -> str:
        """``lab`` or ``field``."""
        return self.facts.evidence if self.facts else "field"

    def open(self) -> None:
        """Open and inspect the cluster, once; what went wrong is raised again.  Controller only."""
        if self._trouble:
            raise self._trouble
        if self.inspection or not self.provider or not self.run:
            return
        try:
            self.connection = self.provider.open(self.choice, self.settings, self.run)
            self.settings = told_by(self.connection, self.settings)
            self.inspection = self.provider.inspect(self.connection, self.settings)
            self.settings = replace(self.settings, lacking=self.inspection.lacking)
            if self.inspection.reasons:
                raise ClusterUnusable(self.inspection.reasons)
            check_node(self.settings.disruptive_node, self.inspection.facts)
            self.settings = permitted(self.settings, self.inspection)
        except SuiteTrouble as trouble:
            self._trouble = trouble
            if not self.choice.own_lab:  # a lab's log stays, to look at
                shutil.rmtree(self.run.path, ignore_errors=True)
            raise

    def connect(self) -> Any:
        """This process's door to the cluster."""
        if not self.provider or not self.connection:
            raise SuiteTrouble("a cluster was asked for in a run that has none")
        return self.provider.connect(self.connection, self.settings)

    def take_lock(self) -> None:
        """Take the run's lock.  Raises ClusterUnusable: others have it, or have left the cluster changed with it."""
        self.lock().acquire()
        if self.provider and self.connection and self.inspection:
            left = self.provider.unrestored(self.connection, self.settings, self.inspection.facts)
            if left:
                raise ClusterUnusable(left)

    def lock(self) -> Lock:
        """The run's lock, which keeps other runs from disrupting the cluster; taken by the controller alone."""
        if self._lock is None:
            if not self.provider or not self.connection:
                raise SuiteTrouble("a run lock was asked for in a run that has no cluster")
            progress = Progress(self.config, self.settings.timings.run.progress_every)
            self._lock = self.provider.lock(self.connection, self.settings, tell=progress.tell, progress=progress)
        return self._lock

    def unlock(self) -> None:
        """Give the lock back, if it was taken."""
        if self._lock is not None:
            self._lock.release()

    @property
    def lost(self) -> str:
        """How the lock was lost; empty while it was not."""
        return self._lock.lost if self._lock else ""

    def sweep(self) -> list[str]:
        """Remove what the run's processes have left, unless that is wanted or goes with the run's own lab."""
        if not self.provider or not self.connection or self.choice.own_lab or self.settings.keep:
            return []
        return self.provider.sweep(self.connection, self.settings)

    @contextmanager
    def putting_back(self) -> Iterator[None]:
        """Around whatever puts back what a test has changed: trouble there concerns the tests after it as well."""
        try:
            yield
        except BaseException as trouble:  # also of pytest-timeout
            self.not_put_back = self.not_put_back or first_line(trouble)
            raise

    def put_back(self, worker: str = "") -> tuple[str, ...]:
        """Put back what processes of the run (empty: any of them) have changed and did not live to put back.

        One line each, and tests that wait for it go on.  Controller only.
        """
        if not self.provider or not self.connection or not self.inspection:
            return ()
        try:
            done = self.provider.put_back(self.connection, self.settings, self.inspection.facts, worker)
        except SuiteTrouble as trouble:
            why = f"not known whether everything was put back: {first_line(trouble)}; pytest --restore"
            done = PutBack(lines=(why,), trouble=why)
        self.epoch.advance()  # as the worker would have done
        if self.unrestored:
            self.unrestored.settle_all(worker, done.trouble)
        return done.lines

    def for_worker(self) -> dict[str, Any]:
        """What a worker needs, as plain values."""
        return {
            "run": str(self.run.path) if self.run else "",
            "run_id": self.settings.run_id,
            "allure": getattr(self.config.option, "allure_report_dir", None),
            "connection": to_plain(self.connection),
            "inspection": to_plain(self.inspection),
        }


def permitted(settings: Settings, inspection: Inspection) -> Settings:
    """Settings without disruption where the run lock cannot be taken."""
    if not inspection.no_lock:
        return settings
    return replace(settings, disruptive=False, not_disruptive=inspection.no_lock)


def told_by(connection: Connection | None, settings: Settings) -> Settings:
    """The settings with what the cluster says of itself, where no option said otherwise."""
    if settings.external_target or not connection or not connection.external_target:
        return settings
    return replace(settings, external_target=options.external_target(connection.external_target))


def check_node(name: str, facts: Facts) -> None:
    """Raises UsageProblem when there is no such node (``--disruptive-node``); empty: none was named."""
    if name and name not in {node.name for node in facts.nodes}:
        there = ", ".join(f"{node.name} ({node.os})" for node in facts.nodes)
        raise UsageProblem(f"--disruptive-node {name}: this cluster has no such node, it has {there}")


STATE = pytest.StashKey[State]()


def passive(config: pytest.Config) -> bool:
    """Whether this run has no tests to run: it makes no run directory and opens no cluster for them."""
    option = config.option
    lists = option.collectonly or option.list_claims or option.help or getattr(option, "version", 0)
    return bool(lists or option.restore or option.janitor)


def of(config: pytest.Config) -> State:
    """This process's state; made at the first call.  Raises pytest.UsageError."""
    if STATE not in config.stash:
        try:
            config.stash[STATE] = _worker(config) if hasattr(config, "workerinput") else _controller(config)
        except UsageProblem as trouble:
            raise pytest.UsageError(str(trouble)) from None
    return config.stash[STATE]


def _controller(config: pytest.Config) -> State:
    choice = options.read_choice(config)
    options.read_settings(config, choice, "check", "main")  # complains before a directory is made
    if passive(config):
        return State(
            config=config, choice=choice, settings=options.read_settings(config, choice, "none", "main"), run=None
        )
    reports = Path(config.option.report_dir or config.rootpath / "reports").absolute()
    try:
        run, run_id = RunDirectory.create(reports)
        run.hold()
    except OSError as trouble:
        raise UsageProblem(f"no run directory can be made in {reports} (--report-dir): {trouble}") from trouble
    state = State(
        config=config,
        choice=choice,
        settings=options.read_settings(config, choice, run_id, "main"),
        run=run,
        provider=config.hook.pytest_conformance_provider(config=config),
        attachments=Attachments(run.attachments),
    )
    if state.provider:
        config.add_cleanup(state.provider.close)
        config.add_cleanup(state.unlock)  # before that
        state.provider.begin(choice, state.settings, run)
    return state


def _worker(config: pytest.Config) -> State:
    given = config.workerinput[WORKER_INPUT]  # type: ignore[attr-defined]
    choice = options.read_choice(config)
    run = RunDirectory(Path(given["run"]))
    run.hold()
    worker = str(config.workerinput["workerid"])  # type: ignore[attr-defined]
    connection = from_plain(Connection, given["connection"])
    inspection = from_plain(Inspection, given["inspection"])
    settings = told_by(connection, options.read_settings(config, choice, given["run_id"], worker))
    return State(
        config=config,
        choice=choice,
        settings=permitted(replace(settings, lacking=inspection.lacking), inspection),
        run=run,
        provider=config.hook.pytest_conformance_provider(config=config),
        connection=connection,
        inspection=inspection,
        attachments=Attachments(run.attachments),
    )


def awake(config: pytest.Config) -> bool:
    """Whether this is a conformance run (a worker of one included)."""
    if hasattr(config, "workerinput"):
        return WORKER_INPUT in config.workerinput
    return _named(config)


def _named(config: pytest.Config) -> bool:
    """Whether the arguments, or testpaths in their place, name something under ``suites/``."""
    suites = config.rootpath / SUITES
    return any(_touches(argument, suites, config.invocation_params.dir) for argument in config.args)


def whole(config: pytest.Config) -> bool:
    """Whether nothing narrows the selection, so that a claim without results has no test."""
    option = config.option
    suites = config.rootpath / SUITES
    everything = any(
        _path(argument, config.invocation_params.dir) in (suites, *suites.parents) for argument in config.args
    )
    narrowed = option.keyword or option.markexpr or option.claim or option.smoke
    narrowed = narrowed or getattr(option, "deselect", None) or getattr(option, "lf", False)
    return everything and not narrowed


def _touches(argument: str, suites: Path, base: Path) -> bool:
    path = _path(argument, base)
    return path == suites or suites in path.parents or path in suites.parents


def _path(argument: str, base: Path) -> Path:
    return (base / argument.partition("::")[0]).resolve()
