# SPDX-License-Identifier: Apache-2.0
"""Whether there is still somebody to ask, and whether anything may be asked.

A silence of the API server is one, whichever of the run's processes notices it.  After so long a
silence it is gone for the rest of the run: what would still be asked of it fails at once, so
that a run whose cluster has vanished ends with a report of what it had decided, and not with
every test's own patience in turn.  A run that was interrupted asks only what its clearing up
needs, and that for a short time.
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
"""s.  Between two questions without an answer, after which they are no longer one silence; no
request takes longer."""


class ApiGone(ApiUnreachable, EnvironmentBroken):
    """Nothing is asked of the API server any more: it is gone, or the run was interrupted."""

    def __init__(self, message: str) -> None:
        EnvironmentBroken.__init__(self, message)
        self.last = message


class CredentialsDead(ApiRefused, EnvironmentBroken):
    """The API server takes the user's credentials no more, and nothing renews them."""


class Reach:
    """Shared by the processes that have the same folder.  Thread-safe."""

    def __init__(self, folder: Path | None = None, patience: float = float("inf")) -> None:
        """``patience``: s of silence, after which the API server is gone."""
        self._folder = folder
        self._patience = patience
        self._until = float("inf")
        self._interrupted = False
        self._thread = threading.local()

    @property
    def gone(self) -> str:
        """What is known of its going, in one line; empty while it is there."""
        return self._read("gone")

    @property
    def was_gone(self) -> str:
        """The same of an API server that came back when no test was left; empty: it was there
        all the while."""
        return self._read("was-gone")

    @property
    def ended(self) -> str:
        """Why no test of the run can decide anything any more, in one line; empty while some
        can."""
        return self._read("ended")

    @property
    def unusable(self) -> bool:
        """Whether it ended since this machine lacks something, or its own lab is gone."""
        return bool(self._read("unusable"))

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text(encoding="utf-8") if self._folder else ""
        except FileNotFoundError:
            return ""

    def _write(self, name: str, why: str) -> None:
        """For all processes of the run; the first reason counts."""
        if self._folder is not None and not self._read(name):
            fresh = self._folder / f"{name}-{os.getpid()}-{threading.get_ident()}"
            fresh.write_text(why.partition("\n")[0], encoding="utf-8")
            fresh.replace(self._folder / name)

    def end(self, why: str, *, unusable: bool = False, gone: bool = False) -> None:
        """No test of the run can decide anything any more; the first reason counts.  Clearing up
        may still ask.

        ``unusable``: since this machine lacks something.  ``gone``: there is nobody left to ask, either.
        """
        for name, said in {"unusable": unusable, "gone": gone, "ended": True}.items():
            if said:
                self._write(name, why)

    @property
    def left(self) -> float:
        """Seconds for which something may be asked; infinite but in a run that was interrupted."""
        return max(0.0, self._until - time.monotonic())

    def check(self, request: str) -> None:
        """Raises ApiGone when nothing may be asked."""
        if not hasattr(self._thread, "may_ask"):
            self._thread.may_ask = self._interrupted
        from_before = (
            self._interrupted and not self._thread.may_ask and not threading.current_thread().daemon
        )
        if self.left == 0.0 or from_before:
            raise ApiGone(f"{request}: not asked, since the run was interrupted")
        if gone := self.gone:
            raise ApiGone(f"{request}: not asked, since {gone}")

    def interrupt(self, seconds: float) -> None:
        """From now on only this thread, new ones, and daemons may ask, for so many seconds.

        Takes no lock: it is called by handlers of signals.
        """
        if not self._interrupted:
            self._until = time.monotonic() + seconds
            self._interrupted = self._thread.may_ask = True

    def is_back(self) -> None:
        """It answers again: everything may be asked once more."""
        if self._folder is not None:
            with contextlib.suppress(FileNotFoundError):
                (self._folder / "gone").replace(self._folder / "was-gone")
            (self._folder / "silence").unlink(missing_ok=True)

    def answered(self) -> None:
        if self._folder is not None and (self._folder / "silence").exists():
            (self._folder / "silence").unlink(missing_ok=True)

    def silent(self, asked: float, problem: str) -> None:
        """What was asked at that moment of ``time.monotonic`` has had no answer."""
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
