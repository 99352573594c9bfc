# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM from the first line of ``hybridlab up`` to its last.

A signal is only ever noted, never raised: what is being started is finished or given up in good order, and a second
Ctrl-C cannot interrupt the taking apart that the first one began.
"""

import signal
from collections.abc import Callable
from types import FrameType


class EndRequest:
    """Whether the user asked the lab to end."""

    def __init__(self) -> None:
        self.asked = False
        self._tell: Callable[[], object] | None = None

    def listen(self) -> None:
        """Take both signals over."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._heard)

    def tell(self, callback: Callable[[], object] | None) -> None:
        """Whom to call, from a signal handler, when it is asked; at once when it was asked already."""
        self._tell = callback
        if self.asked and callback is not None:
            callback()

    def ignore(self) -> None:
        """The lab is over: what is asked now changes nothing, the interpreter's own end and exit code included."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self._tell is not None:
            self._tell()
