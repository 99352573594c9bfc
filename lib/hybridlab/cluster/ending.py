# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM from the first line of ``hybridlab up`` to its last.

A signal is only recorded, never raised as an exception. So a part that is being started is finished
or given up in good order, and a second Ctrl-C cannot interrupt the shutdown that the first began.
"""

import signal
from collections.abc import Callable
from types import FrameType


class EndRequest:
    """The user's request to end the lab, made by a signal."""

    def __init__(self) -> None:
        self.asked = False
        self._tell: Callable[[], object] | None = None

    def listen(self) -> None:
        """Install handlers for both signals."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def tell(self, callback: Callable[[], object] | None) -> None:
        """Set the function to call when the user requests the end. Call it at once if the request
        has already been made."""
        self._tell = callback
        if self.asked and callback is not None:
            callback()

    def ignore(self) -> None:
        """Ignore signals from now on: the lab is over, and its exit code is fixed."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self._tell is not None:
            self._tell()
