# SPDX-License-Identifier: Apache-2.0
"""A long-lived TCP connection with heartbeats, as both of its ends observed it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from conformance.model.endpoint import Target, Workload

Side = Literal["client", "server"]


class StreamVerdict(StrEnum):
    """The state of an end. A broken probe is not among these states: that is an exception
    (ProbeBroken)."""

    SURVIVED = "SURVIVED"
    """Open, and heartbeats arrive."""
    STALLED = "STALLED"
    """Open, and nothing arrived for the stall time: packets vanish, or the other end vanished
    without sending a packet."""
    RESET = "RESET"
    """A RST arrived."""
    CLOSED = "CLOSED"
    """A FIN arrived: the other end closed in order."""
    ABORTED = "ABORTED"
    """The end's own system gave the connection up."""
    REFUSED = "REFUSED"
    """Never opened: RST to the SYN."""
    TIMED_OUT = "TIMED_OUT"
    """Never opened: no answer to the SYN."""
    UNREACHABLE = "UNREACHABLE"
    """Never opened: no route."""
    PROHIBITED = "PROHIBITED"
    """Never opened: the client's own system forbade the connection."""
    NO_ANSWER = "NO_ANSWER"
    """Connected, but no heartbeat came."""


LOST = frozenset(
    {StreamVerdict.STALLED, StreamVerdict.RESET, StreamVerdict.CLOSED, StreamVerdict.ABORTED}
)
"""States of a stream that was open and is now closed or useless."""


@dataclass(frozen=True, kw_only=True)
class StreamEvent:
    """Something that happened at one end."""

    at: float
    """Unix seconds on the suite's clock, to which the agents' clocks were compared."""
    what: str
    """``opened``, ``stalled``, ``resumed``, ``ended``, ``tried``, ``recovered``."""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class StreamEnd:
    """One end of a stream."""

    workload: Workload
    side: Side
    verdict: StreamVerdict
    detail: str = ""
    """The system's own message."""
    local: str = ""
    remote: str = ""
    sent: int = 0
    heard: int = 0
    """The number of the last heartbeat that arrived from the other end."""
    quiet: float | None = None
    """Seconds since the last heartbeat arrived; None if the connection is over."""
    events: tuple[StreamEvent, ...] = ()

    @property
    def lost(self) -> bool:
        """Return whether the stream can no longer be used at this end."""
        return self.verdict in LOST

    @property
    def words(self) -> str:
        """Return ``client RESET``, ``server received nothing for 2.4 s``."""
        if self.verdict is StreamVerdict.STALLED and self.quiet is not None:
            return f"{self.side} received nothing for {self.quiet:.1f} s"
        return f"{self.side} {self.verdict}"


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """A stream as both ends observed it up to now."""

    client: StreamEnd
    server: StreamEnd
    target: Target
    recovered_after: float | None = None
    """Seconds from the client's first sign of an interruption until a new connection worked; None:
    no new connection worked."""
    recovery_tries: int = 0

    @property
    def ends(self) -> tuple[StreamEnd, StreamEnd]:
        return self.client, self.server

    @property
    def direction(self) -> str:
        """Return ``linux to windows`` or the like. The names of parts of claims about streams end
        with this text."""
        return f"{self.client.workload.os} to {self.server.workload.os}"

    @property
    def lost(self) -> bool:
        """Return whether the stream can no longer be used at either end."""
        return any(end.lost for end in self.ends)

    @property
    def words(self) -> str:
        """Return ``client RESET, server received nothing for 2.4 s, a new connection after 0.10
        s``."""
        parts = [end.words for end in self.ends]
        if self.recovered_after is not None:
            parts.append(f"a new connection after {self.recovered_after:.2f} s")
        elif self.lost:
            times = "try" if self.recovery_tries == 1 else "tries"
            parts.append(f"no new connection in {self.recovery_tries} {times}")
        return ", ".join(parts)

    @property
    def lost_at(self) -> float | None:
        """Return when the first sign of the loss was observed at either end (Unix seconds); None if
        the stream is not lost."""
        signs = [event.at for event, _ in self.timeline if event.what in ("stalled", "ended")]
        return min(signs) if self.lost and signs else None

    @property
    def label(self) -> str:
        """Return ``ns/client (windows, node w1) -> 10.244.2.9:9000/tcp (...)``."""
        return f"{self.client.workload.label} -> {self.target.label}"

    @property
    def timeline(self) -> tuple[tuple[StreamEvent, Side], ...]:
        """Return the events at either end, in order."""
        return tuple(
            sorted(
                ((event, end.side) for end in self.ends for event in end.events),
                key=lambda entry: entry[0].at,
            )
        )
