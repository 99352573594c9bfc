# SPDX-License-Identifier: Apache-2.0
"""A run restores what its dead processes changed, for long only if the API server was lost."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.model.change import PutBack
from conformance.run.restoration import Restoration

LEFT = "it is not known whether everything was restored: no answer; pytest --restore"


class Provider:
    """Restores, or fails as long as there are problems left."""

    def __init__(self, *problems: Exception | None, back: bool = True) -> None:
        self.problems = list(problems)
        self.back = back
        self.asked: list[str] = []

    def put_back(self, connection: Any, settings: Any, facts: Any, worker: str) -> PutBack:
        self.asked.append(f"put back {worker}".strip())
        assert len(self.asked) < 9, "it is tried without an end"
        problem = self.problems.pop(0) if self.problems else None
        if problem:
            raise problem
        return PutBack(lines=("restored",))

    def answers_again(self, connection: Any, settings: Any, *, within: float) -> bool:
        self.asked.append("answers again")
        assert within > 0
        return self.back


def restoration(provider: Any, *, gone: str = "gone", **fields: Any) -> Restoration:
    """The state of a run without a directory."""
    timings = SimpleNamespace(put_back=1.0, put_back_away=fields.pop("patience", 600.0))
    progress = SimpleNamespace(tell=lambda line: None)
    run: dict[str, Any] = {
        "directory": None,
        "settings": SimpleNamespace(timings=SimpleNamespace(run=timings)),
        "provider": provider,
        "connection": "a cluster",
        "inspection": SimpleNamespace(facts="facts"),
        "choice": SimpleNamespace(own_lab=False),
        "interrupted": False,
        "reach": SimpleNamespace(gone=gone),
        "progress": lambda: progress,
        "alive": SimpleNamespace(doing=lambda text: None),
        "lock": lambda: SimpleNamespace(check=lambda: None),
    }
    return Restoration(SimpleNamespace(**run | fields))  # type: ignore[arg-type]


NO_ANSWER = EnvironmentBroken("no answer")


def test_what_can_be_restored_is_restored_once() -> None:
    provider = Provider()
    assert restoration(provider).put_back("gw1") == ("restored",)
    assert provider.asked == ["put back gw1"]


def test_at_a_run_s_end_it_is_tried_again_once_the_server_answers() -> None:
    provider = Provider(NO_ANSWER, NO_ANSWER)
    assert restoration(provider).put_back() == ("restored",)
    assert provider.asked == [*["put back", "answers again"] * 2, "put back"]


def test_a_server_that_stays_away_ends_the_trying() -> None:
    provider = Provider(NO_ANSWER, back=False)
    assert restoration(provider).put_back() == (LEFT,)
    assert provider.asked == ["put back", "answers again"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"gone": ""}, id="the server answers"),
        pytest.param({"choice": SimpleNamespace(own_lab=True)}, id="a lab of its own"),
        pytest.param({"interrupted": True}, id="interrupted"),
        pytest.param({"patience": 0.0}, id="no time"),
    ],
)
def test_it_is_tried_once_where_there_is_nothing_to_wait_for(fields: dict[str, Any]) -> None:
    provider = Provider(NO_ANSWER)
    assert restoration(provider, **fields).put_back() == (LEFT,)
    assert provider.asked == ["put back"]


def test_for_a_worker_it_is_tried_once() -> None:
    provider = Provider(NO_ANSWER)
    assert restoration(provider).put_back("gw1") == (LEFT,)
    assert provider.asked == ["put back gw1"]


@pytest.mark.parametrize("lacking", ["provider", "connection", "inspection"])
def test_without_a_cluster_nothing_is_restored(lacking: str) -> None:
    provider = Provider(NO_ANSWER)
    given: dict[str, Any] = {"provider": provider, lacking: None}
    assert restoration(given.pop("provider"), **given).put_back() == ()
    assert provider.asked == []


def test_ctrl_c_ends_the_trying_with_what_is_known() -> None:
    class Interrupted(Provider):
        def answers_again(self, connection: Any, settings: Any, *, within: float) -> bool:
            raise KeyboardInterrupt

    assert restoration(Interrupted(NO_ANSWER)).put_back() == (LEFT,)


def test_processes_are_told_that_pods_may_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    state = restoration(Provider())
    advanced: list[str] = []
    monkeypatch.setattr(state.epoch, "advance", lambda: advanced.append("once"))
    state.put_back()
    assert advanced == ["once"]


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_failure_to_restore_affects_the_tests_after_it(everywhere: bool) -> None:
    state = restoration(Provider())
    with state.putting_back(everywhere=everywhere):
        pass
    assert (state.not_put_back, state.everywhere) == ("", False)
    for error in (EnvironmentBroken("first\nmore"), KeyboardInterrupt("second")):
        with suppress(BaseException), state.putting_back(everywhere=everywhere):
            raise error
    assert (state.not_put_back, state.everywhere) == ("first", everywhere)
