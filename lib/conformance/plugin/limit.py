# SPDX-License-Identifier: Apache-2.0
"""The limit on the time of a test, in every process that runs tests.

SIGALRM raises in the main thread, even out of a system call that blocks. The limit covers set-up
and body; the teardown, which restores changes, is not interrupted. If the test still does not end,
xdist's worker is killed after ``put_back``, and the process that the user started restores the
changes in the journal.
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
        """Why the running test is over its limit; empty: it is not."""
        self._stacks = ""
        self._is_inside = False
        """An exception that is raised now comes from the test's set-up or body."""
        self._end: threading.Timer | None = None

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Start the time of a test; its turn has begun."""
        timings = self.state.run.settings.timings.run
        is_exclusive = item.stash[PLANNED].exclusivity.exclusive
        self._problem = ""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, self._over)
            seconds = timings.exclusive_limit if is_exclusive else timings.test_limit
            # as long again, to make the story shorter
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
        """Give the teardown its own time limit, and keep the worker alive once the teardown has
        ended."""
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
        """Interrupt the test; record what each thread does now."""
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
        """End a worker whose test does not end, or whose teardown does not."""
        text = line(
            f"{self._problem}; its changes were not restored in time, so its worker is killed"
        )
        os.write(past_capturing(self.state.config), f"\n{text}\n".encode())
        sys.stdout.flush()
        os._exit(1)
