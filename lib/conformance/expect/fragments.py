"""Expectations about what fits into no packet: it is sent in several, and the receiver's system puts it together.

Datagrams are sent without Don't Fragment and answered shortly, so that each path is judged by itself.  UDP hands over
whole datagrams or none: an answer of the server says that all pieces came.  TCP fills packets as far as both ends say
that they may, and has them answered in as many: what is lost by its size on either way leaves it without an end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.engine.answered import as_wanted, with_who
from conformance.expect.explain import message
from conformance.expect.guard import unless_changed
from conformance.expect.poll import Polled, poll
from conformance.expect.sizes import SMALLEST
from conformance.expect.tally import Tally
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.observation import Observation

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

WHOLE = 12000
"""Bytes of a datagram that no MTU takes: more than jumbo frames (9216), and few enough pieces to arrive at once."""

TRANSFER = 40000
"""Bytes there and back over TCP: more than a connection sends before it has heard of the first of it (RFC 6928)."""
DO = {
    "udp": "let IPv4 fragments pass inside the overlay: look at firewalls and at network adapters' offloads, on both "
    "nodes and between them",
    "tcp": "compare the pods' MTU with that of the way, and look at network adapters' offloads of TCP on both nodes",
}


@dataclass
class Fragments:
    """Expectations of one test about datagrams above the MTU, and transfers of many full packets."""

    expect: Expect

    def arrive(self, pairs: Sequence[Pair], *, because: str) -> None:
        """A datagram of :data:`WHOLE` bytes arrives on each path to a UDP port, while small ones do.

        To a TCP port :data:`TRANSFER` bytes do, and come back.  Raises Nonconformance, ControlBroken when small ones do
        not arrive either.
        """
        self.expect.controls([pairs], because="where nothing small arrives nothing is said about what is larger")
        attempts = [
            self._attempt(source, target, size)
            for source, target in pairs
            for size in (WHOLE if target.protocol == "udp" else TRANSFER, SMALLEST)
        ]
        polled = poll(
            self.expect,
            attempts,
            lambda seen: all(map(_connected, seen)),
            because=because,
        )
        tally = Tally(self.expect.context, "behaviour")
        for index, (source, target) in enumerate(pairs):
            if polled.converged or polled.agreed(2 * index, _connected):
                tally.right(source, target, with_who(because, polled.seen(2 * index)[-polled.agree :]))
            else:
                failure = self._failure(polled, 2 * index)
                tally.wrong(source, target, unless_changed(self.expect, [source, *target.backends], failure))
        tally.end()

    def _attempt(self, source: Workload, target: Target, size: int) -> Attempt:
        """With the patience that the slower end needs: a slow answer is no silence."""
        ends = [self.expect.timings.of(system) for system in {source.os, *(backend.os for backend in target.backends)}]
        if target.protocol == "tcp":
            give_up = max(patience.http_give_up for patience in ends)
            return Attempt(source=source, target=target, kind=Kind.HTTP, give_up_after=give_up, payload=size)
        give_up, request = max(patience.tcp_give_up for patience in ends), "?" + "a" * (size - 1)
        return Attempt(source=source, target=target, kind=Kind.UDP, give_up_after=give_up, request=request)

    @staticmethod
    def _failure(polled: Polled, index: int) -> Exception:
        """``index``: of the attempt with what is large, which that with what is small follows."""
        large, small = polled.seen(index), polled.seen(index + 1)
        is_udp = polled.attempts[index].kind is Kind.UDP
        sizes = (WHOLE if is_udp else TRANSFER, SMALLEST)
        whole, little = (f"datagrams of {size} bytes" if is_udp else f"{size} bytes over TCP" for size in sizes)
        if not polled.agreed(index + 1, _connected):
            beside = {
                "beside": f"{whole} in the same rounds: {message.summary(large)}",
                "do": "see CONN-3 on this way first: nothing is said about what is large while small ones vanish",
            }
            text = polled.message(index + 1, f"{little} answered", beside)
            broken = message.of_control(text)
            return ControlBroken(broken, control=polled.attempts[index + 1].label, seen=[*large, *small])
        lines = {
            "beside": f"{little} in the same rounds: {message.summary(small)}",
            "do": DO["udp" if is_udp else "tcp"],
        }
        text = polled.message(index, f"{f'a datagram of {WHOLE} bytes' if is_udp else whole} answered", lines)
        return Nonconformance(text, seen=[*large, *small])


def _connected(seen: Observation) -> bool:
    """Whether the server itself answered."""
    return as_wanted(seen, True)
