# SPDX-License-Identifier: Apache-2.0
"""Signals end a process once and in order, and no waiting thread keeps it alive afterwards."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.run.interruption import Interruption

OURS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Leave the handlers as they were."""
    before = {number: signal.getsignal(number) for number in OURS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Run:
    """A run that notes what happens to it."""

    def __init__(self, *, own_lab: bool = False, gone: str = "") -> None:
        self.interrupted = 0
        self.said: list[str] = []
        self.choice = SimpleNamespace(own_lab=own_lab)
        self.reach = SimpleNamespace(gone=gone)
        self.alive = SimpleNamespace(say=self.said.append)

    def interrupt(self) -> None:
        self.interrupted += 1


def begun(run: Run | None = None, *, worker: bool = False) -> Any:
    one: Any = Interruption()
    one.run = run
    one.begin(worker=worker)
    return one


@pytest.mark.parametrize("worker", [False, True])
def test_a_worker_leaves_sigterm_to_its_controller(worker: bool) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    one = begun(worker=worker)
    assert signal.getsignal(signal.SIGINT) == one._interrupt
    assert (signal.getsignal(signal.SIGTERM) == one._interrupt) is not worker
    one.end()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("number", "again"), [(signal.SIGTERM, "ignored"), (signal.SIGINT, "gives up")]
)
def test_the_first_signal_ends_all_waiting(number: int, again: str) -> None:
    run = Run()
    one = begun(run)
    with pytest.raises(KeyboardInterrupt):
        one._interrupt(number, None)
    assert run.interrupted == 1
    handler = signal.getsignal(number)
    assert handler == (signal.SIG_IGN if again == "ignored" else one._give_up)


LEFT = ", and objects of the run may be left: pytest --janitor removes them"


@pytest.mark.parametrize(
    ("run", "worker", "said"),
    [
        (Run(), False, [f"interrupted again: there is no report{LEFT}"]),
        (Run(own_lab=True), False, ["interrupted again: there is no report"]),
        (Run(), True, []),
        (None, False, []),
    ],
)
def test_a_second_ctrl_c_ends_the_process_with_one_line(
    run: Run | None, worker: bool, said: list[str]
) -> None:
    one = begun(run, worker=worker)
    with pytest.raises(SystemExit) as end:
        one._give_up(signal.SIGINT, None)
    assert (end.value.code, one.exit_code) == (2, 2)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert (run.said if run else []) == said


@pytest.mark.parametrize(
    ("signalled", "gone", "waiting", "code", "exits"),
    [
        (True, "", True, 2, [2]),
        (False, "no answer", True, 1, [1]),
        (False, "", True, 1, []),
        (True, "", False, 2, []),
        (True, "", True, None, []),
    ],
)
def test_a_process_that_was_cut_short_waits_for_no_thread(
    *,
    monkeypatch: pytest.MonkeyPatch,
    signalled: bool,
    gone: str,
    waiting: bool,
    code: int | None,
    exits: list[int],
) -> None:
    found: list[int] = []
    monkeypatch.setattr(os, "_exit", found.append)
    main = threading.main_thread()
    others = [SimpleNamespace(daemon=True), *([SimpleNamespace(daemon=False)] if waiting else [])]
    monkeypatch.setattr(threading, "enumerate", lambda: [main, *others])
    one = begun(Run(gone=gone))
    one._by_signal, one.exit_code = signalled, code
    one.end()
    assert found == exits
