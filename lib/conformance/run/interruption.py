# SPDX-License-Identifier: Apache-2.0
"""Ends each process soon and in order after SIGINT or SIGTERM, with which users and CI systems
cancel a run.

All waiting ends at that moment, in every thread; the cleanup has a short time of its own.
"""

import os
import signal
import sys
import threading
from typing import Any

from conformance.run.run import Run

INTERRUPTED = 2
"""The same exit code as pytest's."""


class Interruption:
    """The signal handlers of a process; they are set from its first contact with the cluster to the
    end of pytest."""

    def __init__(self) -> None:
        self.run: Run | None = None
        """The run; None before a run exists."""
        self._before: dict[int, Any] = {}
        self._by_signal = self._worker = False
        self.only_reports_are_left = False
        """True once the run has removed its objects. A first signal then lets it write its reports,
        which takes seconds."""
        self.exit_code: int | None = None
        """The session's exit code, once it has ended."""

    def begin(self, *, worker: bool) -> None:
        """Install the handlers. A worker of xdist handles only Ctrl-C, since its controller ends
        it."""
        self._worker = worker
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT,) if worker else (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._interrupt)

    def end(self) -> None:
        """Restore the earlier handlers, and let no waiting thread keep the process alive.

        Call this last. If a thread is left waiting after an interruption, or because the API server
        does not answer any more, the process ends here.
        """
        for number, before in self._before.items():
            signal.signal(number, before)
        waiting = [
            thread
            for thread in threading.enumerate()
            if thread is not threading.main_thread() and not thread.daemon
        ]
        cut_short = self._by_signal or (self.run is not None and self.run.reach.gone)
        if cut_short and waiting and self.exit_code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.exit_code)

    def _interrupt(self, number: int, frame: object) -> None:
        # SIGTERM counts once, so that it cannot interrupt the cleanup; a second Ctrl-C may.
        signal.signal(number, signal.SIG_IGN if number == signal.SIGTERM else self._give_up)
        self._by_signal = True
        if self.run is not None:
            self.run.interrupt()
        if not self.only_reports_are_left:
            raise KeyboardInterrupt

    def _give_up(self, number: int, frame: object) -> None:
        """End the process with one line after Ctrl-C during the cleanup; pytest prints no
        traceback."""
        signal.signal(number, signal.SIG_DFL)
        self.exit_code = INTERRUPTED
        if self.run is not None and not self._worker:
            kept = (
                ""
                if self.run.choice.own_lab
                else ", and objects of the run may be left: pytest --janitor removes them"
            )
            self.run.alive.say(f"interrupted again: there is no report{kept}")
        raise SystemExit(INTERRUPTED)
