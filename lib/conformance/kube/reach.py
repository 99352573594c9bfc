# SPDX-License-Identifier: Apache-2.0
"""The availability of the API server, shared by all processes of a run.

A silence of the API server counts once, whichever of the run's processes notices it. After
``patience`` seconds of silence the server is given up for the rest of the run: every further
request fails at once. A run that lost its cluster then ends with a report of its verdicts, instead
of waiting for the time-out of every test in turn. An interrupted run only sends the requests that
its cleanup needs, and only for a short time.
"""

import contextlib
import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from conformance.errors import EnvironmentBroken, lack_of_files
from conformance.kube.refused import ApiRefused, ApiUnreachable

NOBODY_ASKED = 30.0
"""If two unanswered requests are more than this many seconds apart, they do not count as one
silence. No request takes longer."""


class ApiGone(ApiUnreachable, EnvironmentBroken):
    """No request may be sent: the API server was given up, or the run was interrupted."""

    def __init__(self, request: str, why: str) -> None:
        self.last = f"{request}: not sent, since {why}"
        EnvironmentBroken.__init__(self, self.last)
        self.cause = why


class CredentialsDead(ApiRefused, EnvironmentBroken):
    """The API server no longer accepts the user's credentials, and no source renews them."""


class Reach:
    """The reachability of the API server, as known to all processes that use the same folder.
    Thread-safe."""

    def __init__(self, folder: Path | None = None, patience: float = float("inf")) -> None:
        """Set up the reachability. ``patience``: the seconds of silence after which the API server
        is given up."""
        self._folder = folder
        self._patience = patience
        self._until = float("inf")
        self._interrupted = False
        self._thread = threading.local()

    @property
    def gone(self) -> str:
        """Return how the API server was lost, in one line; an empty string if it is not lost."""
        return self._read("gone")

    @property
    def was_gone(self) -> str:
        """Return how the API server was lost, if it came back only after the last test; an empty
        string if it was available all the time."""
        return self._read("was-gone")

    @property
    def ended(self) -> str:
        """Return why no further test of the run can decide anything, in one line; an empty string
        while tests still can."""
        return self._read("ended")

    @property
    def unusable(self) -> bool:
        """Return whether the run ended because this machine lacks a resource, or its own lab is
        gone."""
        return bool(self._read("unusable"))

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text(encoding="utf-8") if self._folder else ""
        except FileNotFoundError:
            return ""

    def _write(self, name: str, why: str) -> None:
        """Record a reason for all processes of the run; the first reason counts."""
        if self._folder is not None and not self._read(name):
            fresh = self._folder / f"{name}-{os.getpid()}-{threading.get_ident()}"
            fresh.write_text(why.partition("\n")[0], encoding="utf-8")
            fresh.replace(self._folder / name)

    def end(self, why: str, *, unusable: bool = False, gone: bool = False) -> None:
        """Record that no further test of the run can decide anything; the first reason counts. The
        cleanup may still send requests.

        ``unusable``: the reason is that this machine lacks a resource. ``gone``: the API server is
        lost, too.
        """
        for name, said in {"unusable": unusable, "gone": gone, "ended": True}.items():
            if said:
                self._write(name, why)

    @property
    def left(self) -> float:
        """Return the seconds for which requests are allowed; infinite unless the run was
        interrupted.
        """
        return max(0.0, self._until - time.monotonic())

    def check(self, request: str) -> None:
        """Raise ApiGone if no request may be sent."""
        if not hasattr(self._thread, "may_ask"):
            self._thread.may_ask = self._interrupted
        from_before = (
            self._interrupted and not self._thread.may_ask and not threading.current_thread().daemon
        )
        if self.left == 0.0 or from_before:
            raise ApiGone(request, "the run was interrupted")
        if gone := self.gone:
            raise ApiGone(request, gone)

    def interrupt(self, seconds: float) -> None:
        """Allow requests only from this thread, new threads and daemons, for some seconds.

        Takes no lock, since signal handlers call it.
        """
        if not self._interrupted:
            self._until = time.monotonic() + seconds
            self._interrupted = self._thread.may_ask = True

    def is_back(self) -> None:
        """Record that the server answers again: every request is allowed once more."""
        if self._folder is not None:
            with contextlib.suppress(FileNotFoundError):
                (self._folder / "gone").replace(self._folder / "was-gone")
            (self._folder / "silence").unlink(missing_ok=True)

    def answered(self) -> None:
        if self._folder is not None and (self._folder / "silence").exists():
            (self._folder / "silence").unlink(missing_ok=True)

    def silent(self, asked: float, problem: str) -> None:
        """Record that a request sent at ``asked`` (``time.monotonic``) got no answer."""
        if lack := lack_of_files(sys.exception()):
            self.end(lack, unusable=True)
        if self._folder is None or self.gone or self.left != float("inf"):
            return
        now = time.monotonic()
        with self._locked(self._folder / "silence") as file:
            kept = json.loads(file.read() or "null") or {"since": asked, "last": asked}
            if asked - kept["last"] > NOBODY_ASKED:
                kept = {"since": asked, "last": asked}
            kept["last"] = now
            file.seek(0)
            file.truncate()
            file.write(json.dumps(kept))
        if now - kept["since"] >= self._patience:
            self._write(
                "gone",
                f"the API server has not answered for {now - kept['since']:.0f} s: {problem}",
            )

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[IO[str]]:
        with path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            yield file
