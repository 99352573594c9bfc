# SPDX-License-Identifier: Apache-2.0
"""Which runs run no tests, and which only list their plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance import plugin
from conformance.errors import ClusterUnusable, ProbeBroken, UsageProblem
from conformance.plugin import state

PASSIVE = ("collectonly", "list_claims", "list_images", "help", "version", "restore", "janitor")
LISTING = ("plan", "dry_run")


def config(*given: str) -> Any:
    """pytest's config with these options."""
    options = dict.fromkeys([*PASSIVE, *LISTING], False) | dict.fromkeys(given, True)
    return SimpleNamespace(option=SimpleNamespace(**options))


@pytest.mark.parametrize("option", PASSIVE)
def test_a_run_with_one_of_these_options_runs_no_tests(option: str) -> None:
    assert state.passive(config(option))
    assert not state.is_listing(config(option))


@pytest.mark.parametrize("option", LISTING)
def test_a_run_with_one_of_these_options_only_lists(option: str) -> None:
    assert state.is_listing(config(option))
    assert not state.passive(config(option))


def test_a_run_without_them_does_neither() -> None:
    assert not state.passive(config())
    assert not state.is_listing(config())


def test_an_older_pytest_without_the_option_for_versions_is_no_passive_run() -> None:
    old = config()
    del old.option.version
    assert not state.passive(old)


@pytest.mark.parametrize(("reruns", "tries"), [(None, False), (0, False), (2, True)])
def test_tests_are_tried_again_at_once_with_reruns(reruns: int | None, tries: bool) -> None:
    option = SimpleNamespace(**({} if reruns is None else {"reruns": reruns}))
    asked: Any = SimpleNamespace(config=SimpleNamespace(option=option))
    assert state.State.tries_at_once.fget(asked) is tries  # type: ignore[attr-defined]


def test_a_description_of_standard_error_is_found_with_and_without_capturing() -> None:
    def given(plugin: object) -> Any:
        return SimpleNamespace(pluginmanager=SimpleNamespace(getplugin=lambda _: plugin))

    captured = SimpleNamespace(
        _global_capturing=SimpleNamespace(err=SimpleNamespace(targetfd_save=7))
    )
    assert state.past_capturing(given(captured)) == 7
    assert state.past_capturing(given(SimpleNamespace(_global_capturing=None))) == 2
    assert state.past_capturing(given(None)) == 2


class Opening:
    """A session's configuration whose cluster opens with this result."""

    def __init__(self, result: BaseException | None = None, *, selects: bool = True) -> None:
        self.opened = 0
        self.result = result
        self.selects = selects
        self.doing: list[str] = []
        alive = SimpleNamespace(begin=lambda *_: None, doing=self.doing.append)
        patience = SimpleNamespace(progress_every=1.0, silent=1.0)
        settings = SimpleNamespace(timings=SimpleNamespace(run=patience))
        choice = SimpleNamespace(own_lab=False)
        self.run = SimpleNamespace(settings=settings, alive=alive, choice=choice, open=self.open)
        self.config: Any = SimpleNamespace()

    def open(self) -> None:
        self.opened += 1
        if self.result is not None:
            raise self.result


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Callable[[Opening], int | None]:
    """Return the exit code with which a session ends before its first test."""

    def of(opening: Opening) -> int | None:
        monkeypatch.setattr(state, "awake", lambda config: True)
        monkeypatch.setattr(state, "passive", lambda config: False)
        monkeypatch.setattr(state, "past_capturing", lambda config: 2)
        monkeypatch.setattr(state, "of", lambda config: SimpleNamespace(run=opening.run))
        monkeypatch.setattr(plugin, "rerun_of", lambda config: None)
        monkeypatch.setattr(plugin, "_selects_nothing", lambda config: not opening.selects)
        return plugin._open(opening.config)

    return of


@pytest.mark.parametrize(
    ("result", "code", "printed"),
    [
        (None, None, ""),
        (ClusterUnusable(["no node"]), 7, "ERROR: cannot run on this cluster: no node\n"),
        (
            ClusterUnusable(["no node", "no right"]),
            7,
            "ERROR: cannot run on this cluster: for several reasons\n  1. no node\n  2. no right\n",
        ),
        (ProbeBroken("no answer\nmore"), 7, "ERROR: cannot run on this cluster: no answer\n"),
        (KeyboardInterrupt(), 2, "ERROR: interrupted before the first test\n"),
    ],
)
def test_a_cluster_that_cannot_be_opened_ends_the_run_with_its_code(
    *,
    session: Callable[[Opening], int | None],
    result: BaseException | None,
    code: int | None,
    printed: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opening = Opening(result)
    assert session(opening) == code
    assert capsys.readouterr().err == printed
    assert (opening.doing[-1] == "collecting tests") is (result is None)


def test_options_that_the_cluster_shows_to_be_wrong_are_pytest_s_usage_errors(
    session: Callable[[Opening], int | None],
) -> None:
    with pytest.raises(pytest.UsageError, match="no such node"):
        session(Opening(UsageProblem("no such node")))


def test_no_cluster_is_opened_where_no_test_is_selected(
    session: Callable[[Opening], int | None],
) -> None:
    opening = Opening(selects=False)
    assert session(opening) == 5
    assert opening.opened == 0


def test_a_worker_opens_no_cluster_before_its_session(
    session: Callable[[Opening], int | None],
) -> None:
    opening = Opening(ClusterUnusable(["no node"]))
    opening.config.workerinput = {}
    assert session(opening) is None
    assert opening.opened == 0


NARROW = ("keyword", "markexpr", "claim", "smoke", "quick", "shard", "deselect", "lf")


@pytest.mark.parametrize(
    ("arguments", "option", "everything", "awake"),
    [
        (["suites"], "", True, True),
        (["."], "", True, True),
        ([".."], "", True, True),
        (["suites/policy"], "", False, True),
        (["suites/policy/test_a.py::test_a"], "", False, True),
        (["tests"], "", False, False),
        (["tests", "suites"], "", True, True),
        (["suites-of-others"], "", False, False),
        ([], "", False, False),
        *((["suites"], option, False, True) for option in NARROW),
    ],
)
def test_a_run_selects_everything_if_it_names_the_suites_and_nothing_narrows_it(
    *, tmp_path: Path, arguments: list[str], option: str, everything: bool, awake: bool
) -> None:
    options = dict.fromkeys(NARROW) | ({option: "x"} if option else {})
    given: Any = SimpleNamespace(
        option=SimpleNamespace(**options),
        rootpath=tmp_path,
        args=arguments,
        invocation_params=SimpleNamespace(dir=tmp_path),
    )
    assert state.selects_all(given) is everything
    assert state.awake(given) is awake


@pytest.mark.parametrize(("given", "awake"), [({state.WORKER_INPUT: {}}, True), ({}, False)])
def test_a_worker_belongs_to_a_conformance_run_if_its_controller_says_so(
    given: dict[str, Any], awake: bool
) -> None:
    worker: Any = SimpleNamespace(workerinput=given)
    assert state.awake(worker) is awake
