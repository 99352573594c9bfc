# SPDX-License-Identifier: Apache-2.0
"""Attempts of a source to contact a target, described before they are made."""

from dataclasses import dataclass
from enum import StrEnum

from conformance.model.endpoint import Addressing, Target, Workload


class Kind(StrEnum):
    """The kind of an attempt: how its target is contacted."""

    TCP = "tcp"
    """Connect only."""
    HTTP = "http"
    """GET, so that the server can report the client's address."""
    UDP = "udp"
    """Send a datagram, expect its echo."""
    DNS = "dns"
    """Resolve ``query`` of ``record`` type with the pod's own resolver settings (or at ``target``
    when given)."""


def plain(target: Target) -> Kind:
    """Return the simplest kind of attempt that shows whether a target is reached: a connection,
    or an echo.
    """
    return Kind.UDP if target.protocol == "udp" else Kind.TCP


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt. If it makes no progress for ``give_up_after`` seconds, it ends as TIMED_OUT,
    NO_ANSWER or DNS_FAILED."""

    source: Workload
    kind: Kind
    give_up_after: float
    target: Target | None = None
    """The target; None only for DNS through the pod's own resolver."""
    request: str = "/"
    """HTTP: the path; UDP: the payload."""
    query: str = ""
    record: str = "A"
    dns_over_tcp: bool = False
    whole: bool = False
    """UDP: the datagram is never fragmented. If the sender's system knows that the datagram does
    not fit, the result is PROHIBITED."""
    from_port: int = 0
    """UDP: the source port of every attempt, as if one socket were kept open; 0: another port each
    time."""
    payload: int = 0
    """The number of bytes that the source sends and expects back (HTTP POST body or UDP size); 0:
    none."""

    @property
    def label(self) -> str:
        """Return ``ns/client (windows, node w1) -> 10.244.2.9:80/tcp``; for DNS by the pod's own
        resolver ``... -> DNS A web.demo``."""
        where = self.target.label if self.target else ""
        if self.kind is Kind.DNS:
            where = f"DNS {self.record} {self.query}{f' at {where}' if where else ''}"
        return f"{self.source.label} -> {where or '?'}"

    @property
    def nodes(self) -> str:
        """Return the two ends in few words: ``w1 to linux-2 (80/tcp)``, ``w1 to Service web
        (53/udp)``, or ``w1 to DNS A web`` for a DNS query.
        """
        target = self.target
        where = [f"DNS {self.record} {self.query}"] * (self.kind is Kind.DNS)
        if target:
            own = target.path in (Addressing.POD_IP, Addressing.NODE_IP)
            nodes = ", ".join(dict.fromkeys(pod.node for pod in target.backends)) if own else ""
            where.append(f"{nodes or target.name or target.host} ({target.port}/{target.protocol})")
        return f"{self.source.node} to {' at '.join(where)}"
