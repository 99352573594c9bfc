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
BETWEEN = tuple(range(100, 1400, 100))
"""Bytes that one packet takes: what loses packets of some sizes alone may let full ones pass, and the smallest."""
DO = {
    "udp": "let IPv4 fragments pass inside the overlay: look at firewalls and at network adapters' offloads, on both "
    "nodes and between them",
    "http": "compare the pods' MTU with that of the way, and look at network adapters' offloads of TCP on both nodes",
    "small": "look for what drops packets by their length on both nodes and between them: firewalls, and offloads",
}


@dataclass
class Fragments:
    """Expectations of one test about datagrams above the MTU, and transfers of many full packets."""

    expect: Expect

    def arrive(self, pairs: Sequence[Pair], *, because: str) -> None:
        """A datagram of :data:`WHOLE` bytes arrives on each path to a UDP port, and so do those of one packet.

        To a TCP port :data:`TRANSFER` bytes do, and come back.  Of what one packet takes a size is lost that never
        arrives.  Raises Nonconformance, ControlBroken when nothing small arrives either.
        """
        self.expect.controls([pairs], because="where nothing small arrives nothing is said about what is larger")
        attempts = [
            self._attempt(source, target, size)
            for source, target in pairs
            for size in (WHOLE if target.protocol == "udp" else TRANSFER, *BETWEEN)
        ]
        polled = poll(
            self.expect,
            attempts,
            lambda seen: all(map(_connected, seen)),
            because=because,
        )
        tally = Tally(self.expect.context, "behaviour")
        each = len(attempts) // max(len(pairs), 1)
        for index, (source, target) in enumerate(pairs):
            large, *small = range(index * each, (index + 1) * each)
            lost = [one for one in small if not polled.converged and not any(map(_connected, polled.seen(one)))]
            lost += [] if polled.converged or polled.agreed(large, _connected) else [large]
            if not lost:
                tally.right(source, target, with_who(because, polled.seen(large)[-polled.agree :]))
            else:
                failure = self._failure(polled, lost[-1], [one for one in small if polled.agreed(one, _connected)])
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
    def _failure(polled: Polled, index: int, passing: Sequence[int]) -> Exception:
        """``index``: of the attempt with what is lost; ``passing``: of those on its path whose sizes arrive."""
        control = passing[0] if passing else index
        lost, small = polled.seen(index), polled.seen(control)
        if not passing:
            do = "see CONN-3 on this way first: nothing is said about sizes while none arrives"
            broken = message.of_control(polled.message(index, f"{_what(polled.attempts[index])} answered", {"do": do}))
            return ControlBroken(broken, control=polled.attempts[index].label, seen=lost)
        lines = {
            "beside": f"{_what(polled.attempts[control])} in the same rounds: {message.summary(small)}",
            "do": DO["small" if _size(polled.attempts[index]) in BETWEEN else polled.attempts[index].kind.value],
        }
        text = polled.message(index, f"{_what(polled.attempts[index])} answered", lines)
        return Nonconformance(text, seen=[*lost, *small])


def _what(attempt: Attempt) -> str:
    size = f"{_size(attempt)} bytes"
    return f"a datagram of {size}" if attempt.kind is Kind.UDP else f"{size} over TCP"


def _size(attempt: Attempt) -> int:
    return len(attempt.request) if attempt.kind is Kind.UDP else attempt.payload


def _connected(seen: Observation) -> bool:
    """Whether the server itself answered."""
    return as_wanted(seen, True)
