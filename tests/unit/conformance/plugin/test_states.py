# SPDX-License-Identifier: Apache-2.0
"""Which runs run no tests, and which only list their plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

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
