# SPDX-License-Identifier: Apache-2.0
"""Resets pods' established TCP connections at once, including silent connections.

The kernel's rules (``dataplane.generations``) act only on packets. Therefore a forged segment far
outside the window is sent to the pod. The pod's own kernel answers with its true sequence numbers
(RFC 5961, section 5). They show which reset an end accepts.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hybridlab.dataplane import generations
from hybridlab.kernel import namespaces
from hybridlab.kernel.conntrack import Connection, ConntrackSocket, alive, concerning
from hybridlab.kernel.segments import ACK, RST, LinkSocket, Segment, encode, raw_socket

logger = logging.getLogger(__name__)

_OPEN = frozenset({"SYN_RECV", "ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK"})
_SEQUENCES = (0, 1 << 31, 1 << 30)
"""Sequence numbers that are tried one after the other. A window that contains one of these numbers
(at most 1 in 4 million windows) does not contain the next."""
_AT_ONCE = 200
"""The number of segments that are sent before the answers are read: they fit into the socket's
buffer."""
_ANSWER_SECONDS = 0.1
"""Seconds to wait for answers. A pod's kernel answers within microseconds, unless its socket is in
use or the machine is busy."""


@dataclass(frozen=True)
class ResetTarget:
    """A pod with connections that should end."""

    address: str
    interface: str
    mac: str
    generation: int | None
    """Only connections of older generations end; None: all connections end."""


@dataclass(frozen=True)
class _Flow:
    """A connection from the pod's point of view."""

    pod: str
    pod_port: int
    peer: str
    peer_port: int


class Resets:
    """The resets of a node. A separate thread handles together all requests that have arrived since
    it last began."""

    def __init__(self, netns: int, *, both: bool) -> None:
        self._both = both
        """The pod gets a reset as well, not only the other end."""
        # If the far end sent a packet, the rules have answered it with a reset, and the connection
        # is tracked as closed. The pod itself has learnt nothing.
        self._states = _OPEN | {"CLOSE"} if both else _OPEN
        with namespaces.entered(netns):
            self._conntrack = ConntrackSocket()
            self._link = LinkSocket()
            self._raw = raw_socket()
        self._lock = threading.Lock()
        self._asked: dict[str, ResetTarget] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="resets")

    def request(self, targets: Sequence[ResetTarget]) -> None:
        """Begin the resets; return at once."""
        with self._lock:
            idle = not self._asked
            self._asked |= {target.address: target for target in targets}
            if idle and self._asked:
                self._thread.submit(self._work)

    def close(self) -> None:
        """Finish pending resets and close the sockets."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._conntrack.close()
        self._link.close()
        self._raw.close()

    def _work(self) -> None:
        with self._lock:
            targets = self._asked
            self._asked = {}
        try:
            self._end(targets)
        except Exception:
            logger.exception("connections of %s could not be reset", ", ".join(targets))

    def _end(self, targets: Mapping[str, ResetTarget]) -> None:
        """Provoke an answer from every pod, and reset the peers of the connections that must
        end."""
        theirs = concerning(targets)
        entries = self._conntrack.entries(lambda entry: alive(entry) and theirs(entry))
        waiting = dict.fromkeys(
            flow for c in entries if c.state in self._states for flow in _flows(c, targets)
        )
        if not waiting:
            return
        self._link.listen(on=True)
        try:
            for sequence in _SEQUENCES:
                flows = list(waiting)
                for start in range(0, len(flows), _AT_ONCE):
                    for flow in flows[start : start + _AT_ONCE]:
                        if not self._ask(flow, targets[flow.pod], sequence):
                            waiting.pop(flow, None)
                    self._hear(waiting, targets, flows[start : start + _AT_ONCE])
                if not waiting:
                    return
        finally:
            self._link.listen(on=False)

    def _ask(self, flow: _Flow, target: ResetTarget, sequence: int) -> bool:
        """Make the pod send a packet; return False if the pod is gone."""
        question = Segment(flow.peer, flow.peer_port, flow.pod, flow.pod_port, sequence, 0, ACK)
        try:
            # One byte of data: of segments without data, the kernel answers only two a second.
            self._link.send(target.interface, target.mac, encode(question, b"\0"))
        except OSError:
            return False
        return True

    def _hear(
        self, waiting: dict[_Flow, None], targets: Mapping[str, ResetTarget], asked: Sequence[_Flow]
    ) -> None:
        """Reset the far ends of the flows for which an answer arrives. Stop once all flows have
        answered, or no answer arrives for a while.

        Other flows of the pods may send at any time; their packets are ignored.
        """
        until = time.monotonic() + _ANSWER_SECONDS
        while any(flow in waiting for flow in asked):
            late = time.monotonic() >= until
            for answer in self._link.receive(max(0.0, until - time.monotonic())):
                flow = _Flow(
                    answer.source, answer.source_port, answer.destination, answer.destination_port
                )
                if flow in waiting:
                    del waiting[flow]
                    if not answer.flags & RST:
                        self._tell(answer, targets[flow.pod])
                    until = time.monotonic() + _ANSWER_SECONDS
                    late = False
                elif time.monotonic() >= until + _ANSWER_SECONDS:
                    return  # packets arrive faster than they can be read
            if late:
                return

    def _tell(self, answer: Segment, target: ResetTarget) -> None:
        there = Segment(
            answer.source,
            answer.source_port,
            answer.destination,
            answer.destination_port,
            answer.sequence,
            answer.acknowledged,
            RST | ACK,
        )
        back = Segment(
            answer.destination,
            answer.destination_port,
            answer.source,
            answer.source_port,
            answer.acknowledged,
            answer.sequence,
            RST | ACK,
        )
        with contextlib.suppress(OSError):  # there may be no route any more
            self._raw.sendto(encode(there), (there.destination, 0))
        if self._both:
            with contextlib.suppress(OSError):
                self._link.send(target.interface, target.mac, encode(back))


def _flows(connection: Connection, targets: Mapping[str, ResetTarget]) -> Iterator[_Flow]:
    """Yield the connections that must end, each from the point of view of the pods at its ends."""
    for opened, there in ((True, connection.original), (False, connection.reply)):
        target = targets.get(there.source)
        if target is None:
            continue
        if target.generation is None or generations.stale(
            connection.mark, opened=opened, generation=target.generation
        ):
            yield _Flow(there.source, there.source_port, there.destination, there.destination_port)
