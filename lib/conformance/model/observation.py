# SPDX-License-Identifier: Apache-2.0
"""The observation of a single attempt."""

from dataclasses import dataclass
from enum import StrEnum

from conformance.model.attempt import Attempt


class Verdict(StrEnum):
    """The outcome of an attempt. A broken probe is no outcome: it is an exception (ProbeBroken)."""

    CONNECTED = "CONNECTED"
    """Connected; for HTTP and UDP also answered."""
    TIMED_OUT = "TIMED_OUT"
    """There was no answer to the first packet within ``give_up_after``, as if it was silently
    dropped."""
    REFUSED = "REFUSED"
    """RST to the SYN, or ICMP port unreachable: the packet arrived."""
    RESET = "RESET"
    """The connection was established and then reset by the other side."""
    ABORTED = "ABORTED"
    """The source's own system gave the connection up."""
    CLOSED = "CLOSED"
    """The peer closed in good order without answering."""
    NO_ANSWER = "NO_ANSWER"
    """The connection was established, then nothing arrived within ``give_up_after``."""
    UNREACHABLE = "UNREACHABLE"
    """No route, or ICMP host or network unreachable."""
    PROHIBITED = "PROHIBITED"
    """The source's own system forbade the attempt (EACCES, EPERM, WSAEACCES)."""
    RESOLVED = "RESOLVED"
    """DNS: an answer; ``answers`` holds it."""
    NO_SUCH_NAME = "NO_SUCH_NAME"
    """DNS: NXDOMAIN, or no record of that type; ``rcode`` says which."""
    DNS_FAILED = "DNS_FAILED"
    """DNS: no answer, SERVFAIL, REFUSED, or a garbled answer; ``detail`` says which."""


ARRIVED = frozenset(
    {
        Verdict.CONNECTED,
        Verdict.REFUSED,
        Verdict.RESET,
        Verdict.ABORTED,
        Verdict.CLOSED,
        Verdict.NO_ANSWER,
    }
)
"""Verdicts that are possible only if a packet reached the target, or another owner of its
address."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """An attempt and its result."""

    attempt: Attempt
    verdict: Verdict
    at: float
    """Unix seconds on the suite's clock when the batch was sent."""
    seconds: float
    """Seconds from the start of the attempt to its verdict, on the agent's monotonic clock."""
    began: float | None = None
    """The time at which the agent began the attempt, in seconds on ``clock``; None: it sent no
    packet, or the agent did not report the time."""
    clock: str = ""
    """The name of the agent process with the clock of ``began``. Attempts are ordered by ``began``
    within the same clock only; an agent that is started again has another clock."""
    began_at: float | None = None
    """Unix seconds.  ``began`` on the suite's clock, so that attempts of different sources can be
    compared; an estimate, wrong by at most ``began_at_error``."""
    began_at_error: float | None = None
    """Half the width, in seconds, of the interval that contains the true moment of ``began_at``."""
    detail: str = ""
    """The probe's own message: errno name, socket error, HTTP status line."""
    local: str = ""
    """``address:port`` of the source's own socket."""
    remote: str = ""
    seen_client: str = ""
    """The address that the server received as its client's; empty if the server does not report it.
    """
    served_by: str = ""
    """The pod that answered, as the server named itself; empty if the server does not report its
    name."""
    served_port: int = 0
    """The port on which the server answered, as the server reports it; 0: the server reports no
    port."""
    status: int | None = None
    """The HTTP status."""
    body: bytes = b""
    answers: tuple[str, ...] = ()
    rcode: str = ""
    """DNS, for NO_SUCH_NAME. ``NOERROR``: a queried name exists, but has no record of this type.
    ``NXDOMAIN``: no queried name exists."""
    tries: int = 1
    """How often this attempt was sent because of transport errors before it was carried out."""
