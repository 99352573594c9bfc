# SPDX-License-Identifier: Apache-2.0
"""The limit on the time of a test, in every process that runs tests.

The handler of SIGALRM raises an exception in the main thread, even during a system call that
blocks. The limit covers set-up and body; the teardown, which restores changes, is not interrupted.
If the test still does not end, xdist's worker is killed after ``put_back``, and the process that
the user started restores the changes in the journal.
"""

import faulthandler
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from conformance.plugin.judge.stash import PLANNED
from conformance.plugin.state import State, past_capturing
from conformance.printing import line

STACKS = "stacks of all threads"
"""The name of the attachment."""


class Limit:
    """The innermost hooks around set-up and body, so that the judge receives what the limit
    raises."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._problem = ""
        """A message that the running test has exceeded its limit; empty: it has not."""
        self._stacks = ""
        self._is_inside = False
        """True while set-up or body run: an exception of the handler reaches the test."""
        self._end: threading.Timer | None = None

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Start the time limit of a test, whose turn has begun."""
        timings = self.state.run.settings.timings.run
        is_exclusive = item.stash[PLANNED].exclusivity.exclusive
        self._problem = ""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, self._over)
            seconds = timings.exclusive_limit if is_exclusive else timings.test_limit
            # the same time again, for shortening a failed story
            searching = 2 * 60 * (item.config.option.explore or 0)
            signal.setitimer(signal.ITIMER_REAL, seconds + searching)
        with self._inside():
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        with self._inside():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Stop the limit of set-up and body. Once the teardown has ended, do not kill the worker
        any more."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            return (yield)
        finally:
            if self._end:
                self._end.cancel()
                self._end = None

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._is_inside = True
        try:
            if self._problem:  # the signal came between set-up and body
                raise pytest.fail.Exception(self._problem)
            yield
        finally:
            self._is_inside = False
            if self._problem:
                self.state.attachments.text(STACKS, self._stacks)

    def _over(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the test; record the stack of each thread."""
        with tempfile.TemporaryFile("w+") as file:  # sys._current_frames() can deadlock
            faulthandler.dump_traceback(file)
            file.seek(0)
            self._stacks = file.read()
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "no Python code"
        self._problem = (
            f"the test has not ended within its limit (test_limit or exclusive_limit of "
            f"--timings): it was interrupted in {where.rpartition('/')[2]}, see {STACKS}"
        )
        if hasattr(self.state.config, "workerinput"):
            self._end = threading.Timer(
                self.state.run.settings.timings.run.put_back, self._end_worker
            )
            self._end.daemon = True
            self._end.start()
        if self._is_inside:
            raise pytest.fail.Exception(self._problem)

    def _end_worker(self) -> None:
        """Kill this worker, since its test or teardown does not end."""
        text = line(
            f"{self._problem}; its changes were not restored in time, so its worker is killed"
        )
        os.write(past_capturing(self.state.config), f"\n{text}\n".encode())
        sys.stdout.flush()
        os._exit(1)
