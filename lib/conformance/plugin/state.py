# SPDX-License-Identifier: Apache-2.0
"""The state of a run's process: made once, stored in pytest's stash, passed to hooks and
fixtures."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.model.codec import from_plain
from conformance.plugin import options
from conformance.report.attach import Attachments
from conformance.report.diagnostics import Diagnostics
from conformance.run.directory import RunDirectory
from conformance.run.events import Events
from conformance.run.interruption import Interruption
from conformance.run.provider import Connection, Inspection
from conformance.run.restoration import Restoration
from conformance.run.run import Run, permitted, with_external_target

SUITES = "suites"
"""A run is a conformance run only if it names something in this folder, so that tests of the
library never start a lab."""
WORKER_INPUT = "conformance"
"""The key of the values that xdist's controller passes to its workers."""


@dataclass(kw_only=True)
class State:
    """The data of a process of a run, which pytest's hooks and fixtures share."""

    config: pytest.Config
    run: Run
    attachments: Attachments = field(default_factory=lambda: Attachments(Path("attachments")))
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    background: list[Callable[[], Iterable[Future[Any]]]] = field(default_factory=list)
    """Functions that return work which has not ended. Each belongs to a part of the suite whose
    work may last longer than the test that started it."""
    put_off: list[pytest.Item] = field(default_factory=list)
    """Tests that are run once more after all other tests of this process."""
    felix_down: Callable[[Sequence[str]], Mapping[str, str]] = field(default=lambda nodes: {})
    """Returns the nodes on which Felix does not run, except nodes where this run stopped Felix; set
    by the worker's fixtures."""
    interruption: Interruption = field(default_factory=Interruption)
    events: Events = field(default_factory=Events)
    """The file of ``--events``, in the process that the user started."""
    restoration: Restoration = field(init=False)

    def __post_init__(self) -> None:
        self.run.uncaptured = functools.partial(uncaptured, self.config)
        self.restoration = Restoration(self.run)

    @property
    def tries_at_once(self) -> bool:
        """Return whether pytest-rerunfailures runs failed tests again at once; no test is postponed
        in this case."""
        return bool(getattr(self.config.option, "reruns", None))

    def for_worker(self) -> dict[str, Any]:
        """Return the values that a worker needs, as plain values."""
        return {
            "allure": getattr(self.config.option, "allure_report_dir", None)
        } | self.run.for_worker()


def uncaptured(config: pytest.Config) -> AbstractContextManager[object]:
    """Return a context in which printing bypasses pytest's capturing."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else nullcontext()


def past_capturing(config: pytest.Config) -> int:
    """Return a file descriptor of the user's standard error, not of pytest's replacement."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    return int(
        getattr(
            getattr(getattr(capture, "_global_capturing", None), "err", None), "targetfd_save", 2
        )
    )


STATE = pytest.StashKey[State]()


def passive(config: pytest.Config) -> bool:
    """Return whether this run runs no tests, so that it needs no directory and no cluster."""
    option = config.option
    return bool(
        option.collectonly
        or option.list_claims
        or option.list_images
        or option.help
        or getattr(option, "version", 0)
        or option.restore
        or option.janitor
    )


def is_listing(config: pytest.Config) -> bool:
    """Return whether this run only lists its plan: it decides nothing, and leaves no report."""
    return bool(config.option.plan or config.option.dry_run)


def of(config: pytest.Config) -> State:
    """Return this process's state, which the first call makes. Raise pytest.UsageError."""
    if STATE not in config.stash:
        try:
            config.stash[STATE] = (
                _worker(config) if hasattr(config, "workerinput") else _controller(config)
            )
        except UsageProblem as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[STATE]


def _controller(config: pytest.Config) -> State:
    choice = options.read_choice(config)
    # also checks the options, before a directory is made
    settings = options.read_settings(config, choice, "none", "main")
    if passive(config):
        return State(config=config, run=Run(choice=choice, settings=settings, directory=None))
    path = config.option.events
    events = Events(Path(path) if path and not is_listing(config) else None)
    reports = Path(config.option.report_dir or config.rootpath / "reports").absolute()
    try:
        directory, run_id = RunDirectory.create(reports)
        directory.hold()
    except OSError as error:
        raise UsageProblem(
            f"no run directory can be made in {reports} (--report-dir): {error.strerror}"
        ) from error
    interruption = Interruption()
    config.add_cleanup(interruption.end)  # registered first, so that it runs last
    interruption.begin(worker=False)
    run = interruption.run = Run(
        choice=choice,
        settings=options.read_settings(config, choice, run_id, "main"),
        directory=directory,
        provider=config.hook.pytest_conformance_provider(config=config),
    )
    state = State(
        config=config,
        run=run,
        attachments=Attachments(directory.attachments),
        interruption=interruption,
        events=events,
    )
    if is_listing(
        config
    ):  # registered before the lab's close, so that it runs after it; the log of a failed lab stays
        config.add_cleanup(lambda: directory.discard() if run.inspection else None)
    if run.provider:
        config.add_cleanup(run.provider.close)
        config.add_cleanup(run.unlock)  # runs before the provider is closed
        run.provider.begin(choice, run.settings, directory)
    return state


def _worker(config: pytest.Config) -> State:
    given = config.workerinput[WORKER_INPUT]  # type: ignore[attr-defined]
    choice = options.read_choice(config)
    directory = RunDirectory(Path(given["run"]))
    directory.hold()
    worker = str(config.workerinput["workerid"])  # type: ignore[attr-defined]
    connection = from_plain(Connection, given["connection"])
    inspection = from_plain(Inspection, given["inspection"])
    settings = with_external_target(
        connection, options.read_settings(config, choice, given["run_id"], worker)
    )
    interruption = Interruption()
    config.add_cleanup(interruption.end)
    interruption.begin(worker=True)
    run = interruption.run = Run(
        choice=choice,
        settings=permitted(settings, inspection),
        directory=directory,
        provider=config.hook.pytest_conformance_provider(config=config),
        connection=connection,
        inspection=inspection,
        began=given["began"],
    )
    return State(
        config=config,
        run=run,
        attachments=Attachments(directory.attachments),
        interruption=interruption,
    )


def awake(config: pytest.Config) -> bool:
    """Return whether this is a conformance run (or a worker of such a run)."""
    return WORKER_INPUT in config.workerinput if hasattr(config, "workerinput") else _named(config)


def _named(config: pytest.Config) -> bool:
    """Return whether the arguments, or testpaths in their place, name something under
    ``suites/``."""
    suites = config.rootpath / SUITES
    return any(_touches(argument, suites, config.invocation_params.dir) for argument in config.args)


def selects_all(config: pytest.Config) -> bool:
    """Return whether nothing narrows the selection, so that a claim without results has no test."""
    option = config.option
    suites = config.rootpath / SUITES
    everything = any(
        _path(argument, config.invocation_params.dir) in (suites, *suites.parents)
        for argument in config.args
    )
    narrowed = (
        option.keyword
        or option.markexpr
        or option.claim
        or option.smoke
        or option.quick
        or option.shard
        or getattr(option, "deselect", None)
        or getattr(option, "lf", False)
    )
    return everything and not narrowed


def _touches(argument: str, suites: Path, base: Path) -> bool:
    path = _path(argument, base)
    return path == suites or suites in path.parents or path in suites.parents


def _path(argument: str, base: Path) -> Path:
    return (base / argument.partition("::")[0]).resolve()
