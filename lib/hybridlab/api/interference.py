"""What can be made to go wrong between a client and the API server, for the lab's faults.

Only requests that come over HTTPS meet it; components inside the process never do, and neither do requests for
/healthz, /livez and /readyz, by which one sees that the server itself is alive.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final

from hybridlab.api.contract import ApiError
from hybridlab.api.errors import internal, too_many_requests

EXEC_FAULTS: Final = {
    "empty-output": "nothing that the command writes arrives; its exit status does",
    "lost-status": "what the command writes arrives; how it ended does not",
    "half-output": "only the first half of what the command writes arrives, and then its exit status",
    "hang": "the command is never started and nothing arrives",
    "cut": "the connection is cut at the first output",
}


class Interference:
    """Switches for faults; nothing is wrong at first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._exec: str | None = None
        self._reject_until = 0.0
        self._fail_until = 0.0
        self.delay_seconds = 0.0
        """Every request waits so long before it is looked at."""

    def set_exec_fault(self, kind: str | None) -> None:
        """Make every exec end as one of EXEC_FAULTS from now on; None: as it should."""
        if kind is not None and kind not in EXEC_FAULTS:
            raise ValueError(f"there is no exec fault {kind!r}; there are {', '.join(EXEC_FAULTS)}")
        self._exec = kind

    def exec_fault(self) -> str | None:
        """How every exec ends now."""
        return self._exec

    def reject_for(self, seconds: float) -> None:
        """Answer every request with 429 for so long; 0: no longer."""
        self._reject_until = self._clock() + seconds

    def rejecting(self) -> float:
        """Seconds for which requests are still answered with 429."""
        return max(0.0, self._reject_until - self._clock())

    def fail_for(self, seconds: float) -> None:
        """Answer every request with 500 for so long; 0: no longer."""
        self._fail_until = self._clock() + seconds

    def failing(self) -> float:
        """Seconds for which requests are still answered with 500."""
        return max(0.0, self._fail_until - self._clock())

    async def before_request(self) -> ApiError | None:
        """Wait as long as requests are to wait; return what refuses this one, if anything does."""
        if self.delay_seconds > 0:
            await asyncio.sleep(self.delay_seconds)
        remaining = self.rejecting()
        if remaining > 0:
            message = "The apiserver is overloaded (injected by the lab), please try again later."
            return too_many_requests(message, max(1, math.ceil(remaining)))
        if self.failing() > 0:
            return internal("injected by the lab")
        return None
