# SPDX-License-Identifier: Apache-2.0
"""Disturbances between clients and the API server, for the lab's faults.

They only affect requests over HTTPS, never components inside the process. Requests for /healthz,
/livez and /readyz, which show that the server itself is alive, are not affected unless a fault cuts
all connections (:meth:`Interference.go_away`).
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.errors import internal, too_many_requests
from hybridlab.api.exec_faults import ExecFaults
from hybridlab.taps import Seam


@dataclass(kw_only=True)
class Refusal:
    """Requests that are answered with an error for a while."""

    code: Literal[429, 500, 503]
    until: float
    """The end of the refusals, in monotonic seconds."""
    namespace: str = ""
    """Only requests about objects in this namespace; empty: all."""
    of: str = ""
    """Only requests whose path and query end with this text."""
    left: int | None = None
    """The number of requests that are still to be refused; None: all."""

    def concerns(self, path: str, query: str) -> bool:
        """Return whether a request with this path and query is affected."""
        return (query or path).endswith(self.of) and (
            not self.namespace or f"/namespaces/{self.namespace}/" in f"{path}/"
        )


@dataclass(kw_only=True)
class Silence:
    """Watches that deliver nothing any more, but are not closed."""

    namespace: str = ""
    """Only watches of objects in this namespace; empty: all."""
    left: int | None = None
    """The number of watches that are still to be silenced; None: all."""


class Interference:
    """Switches for faults; no fault is active at first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.refusals: dict[str, Refusal] = {}
        self.silences: dict[str, Silence] = {}
        """The watches that are silenced at their next event, by the name of the fault. A silent
        watch stays silent after the entry is removed, like a forgotten connection."""
        self.away_until: dict[str, float] = {}
        """The times in monotonic seconds at which faults stop cutting connections, by the name of
        the fault."""
        self.on_going_away: Callable[[], None] = lambda: None
        """Called when all connections must be cut; the part that holds the connections sets it."""
        self.execs = ExecFaults()
        self.admission: Seam[Obj] = Seam()
        """A seam through which each object passes that is about to be created or replaced, also by
        components inside the process. Its taps (``hybridlab.taps``) also receive the plural name of
        the resource, and the object that will be replaced, or None. A tap may raise an error that
        refuses the object."""

    def refuse(
        self,
        name: str,
        code: Literal[429, 500, 503],
        seconds: float,
        *,
        namespace: str = "",
        first: int = 0,
        of: str = "",
    ) -> None:
        """Answer requests with an error for ``seconds``. ``first``: the number of requests to
        refuse (0: all)."""
        until = self._clock() + seconds
        self.refusals[name] = Refusal(
            code=code, until=until, namespace=namespace, of=of, left=first or None
        )

    def refusing(self, name: str) -> float:
        """Return the seconds for which requests are still refused under this name."""
        refusal = self.refusals.get(name)
        return max(0.0, refusal.until - self._clock()) if refusal and refusal.left != 0 else 0.0

    def catches_watch(self, namespace: str | None) -> bool:
        """Return whether a watch that is about to send an event, or to end, becomes silent now and
        for good."""
        for silence in self.silences.values():
            if silence.left == 0 or (silence.namespace and silence.namespace != namespace):
                continue
            if silence.left is not None:
                silence.left -= 1
            return True
        return False

    def go_away(self, name: str, seconds: float) -> None:
        """Cut every connection, and each new connection at once, for ``seconds``."""
        self.away_until[name] = self._clock() + seconds
        self.on_going_away()

    def going_away(self, name: str) -> float:
        """Return the seconds for which connections are still cut under this name."""
        return max(0.0, self.away_until.get(name, 0.0) - self._clock())

    def away(self) -> bool:
        """Return whether connections are cut now."""
        return any(until > self._clock() for until in self.away_until.values())

    def before_request(self, path: str, query: str) -> ApiError | None:
        """Return the error with which a fault refuses this request; None if no fault does."""
        for refusal in self.refusals.values():
            remaining = refusal.until - self._clock()
            if remaining <= 0 or refusal.left == 0 or not refusal.concerns(path, query):
                continue
            if refusal.left is not None:
                refusal.left -= 1
            if refusal.code == 429:
                message = (
                    "The apiserver is overloaded (injected by the lab), please try again later."
                )
                return too_many_requests(message, max(1, math.ceil(remaining)))
            if refusal.code == 503:
                return ApiError(
                    503,
                    "ServiceUnavailable",
                    "the server is currently unable to handle the request",
                )
            return internal("injected by the lab")
        return None
