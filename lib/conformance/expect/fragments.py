"""Expectations about datagrams that fit into no packet: cut up by the sender's system, put together by the receiver's.

They are sent without Don't Fragment and answered shortly, so that each path is judged by itself.  UDP hands over whole
datagrams or none: an answer of the server says that all pieces came.
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


@dataclass
class Fragments:
    """Expectations of one test about datagrams above the MTU."""

    expect: Expect

    def arrive(self, pairs: Sequence[Pair], *, because: str) -> None:
        """A datagram of :data:`WHOLE` bytes arrives on each path to a UDP port, while small ones do.

        Raises Nonconformance, ControlBroken when small datagrams do not arrive either.
        """
        self.expect.controls([pairs], because="without small datagrams nothing is said about larger ones")
        attempts = [self._attempt(source, target, size) for source, target in pairs for size in (WHOLE, SMALLEST)]
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
        ends = {source.os, *(backend.os for backend in target.backends)}
        give_up = max(self.expect.timings.of(system).tcp_give_up for system in ends)
        request = "?" + "a" * (size - 1)
        return Attempt(source=source, target=target, kind=Kind.UDP, give_up_after=give_up, request=request)

    @staticmethod
    def _failure(polled: Polled, index: int) -> Exception:
        """``index``: of the attempt with the large datagram, which the small one's follows."""
        large, small = polled.seen(index), polled.seen(index + 1)
        if not polled.agreed(index + 1, _connected):
            beside = {
                "beside": f"datagrams of {WHOLE} bytes in the same rounds: {message.summary(large)}",
                "do": "see CONN-3 for UDP on this way: nothing is said about large datagrams while small ones vanish",
            }
            text = polled.message(index + 1, f"datagrams of {SMALLEST} bytes answered", beside)
            broken = message.of_control(text)
            return ControlBroken(broken, control=polled.attempts[index + 1].label, seen=[*large, *small])
        lines = {
            "beside": f"datagrams of {SMALLEST} bytes in the same rounds: {message.summary(small)}",
            "do": "let IPv4 fragments pass inside the overlay: look at firewalls and at network adapters' offloads, "
            "on both nodes and between them",
        }
        text = polled.message(index, f"a datagram of {WHOLE} bytes answered", lines)
        return Nonconformance(text, seen=[*large, *small])


def _connected(seen: Observation) -> bool:
    """Whether the server itself answered."""
    return as_wanted(seen, True)
