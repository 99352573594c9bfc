# SPDX-License-Identifier: Apache-2.0
"""Expectations about what fits into no packet: it is sent in several, and the receiver's system puts it together.

Datagrams are sent without Don't Fragment and answered shortly, so that each path is judged by itself.  UDP hands over
whole datagrams or none: an answer of the server says that all pieces came.  TCP fills packets as far as both ends say
that they may, and has them answered in as many: what is lost by its size on either way leaves it without an end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from conformance.expect.check import Judged
from conformance.expect.engine.answered import as_wanted, echoed, with_who
from conformance.expect.explain import message
from conformance.expect.poll import Polled, poll
from conformance.expect.subject import Subject
from conformance.expect.subjects.sizes import SMALLEST
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.observation import Observation

WHOLE = 12000
"""Bytes of a datagram that no MTU takes: more than jumbo frames (9216), and few enough pieces to arrive at once."""

TRANSFER = 1_200_000
"""Bytes there and back over TCP: more than a connection sends before it has heard of the first of it (RFC 6928), and
than 64 KiB and 1 MiB, at which windows and counters end."""
ROUND_TRIPS = 20
"""Round trips that :data:`TRANSFER` takes there and back at most: a connection begins with ten packets (RFC 6928) and
doubles them with each, seven times each way, and needs some for its beginning and for what is lost."""
BETWEEN = tuple(range(100, 1300, 100))
"""Bytes that one packet takes, and less than 100 more by the path: what loses packets of some sizes alone may let full
ones pass, and the smallest."""
SENT_BACK = BETWEEN[-1]
"""Of these sizes the one at which a datagram is sent back whole, so that its bytes are compared."""
TINY = 50
"""Bytes that pass where any do: less than those sizes."""
DO = {
    "udp": "let IPv4 fragments pass inside the overlay: look at firewalls and at network adapters' offloads, on both "
    "nodes and between them",
    "http": "compare the pods' MTU with that of the way, and look at network adapters' offloads of TCP on both nodes",
    "small": "look for what drops or changes packets by their length on and between both nodes: firewalls, offloads",
}


@dataclass
class Fragments(Subject):
    """Expectations of one test about datagrams above the MTU, and transfers of many full packets."""

    def arrive(self, pairs: Sequence[Pair], *, because: str) -> None:
        """A datagram of :data:`WHOLE` bytes arrives on each path to a UDP port, and so do those of one packet.

        To a TCP port :data:`TRANSFER` bytes do, and come back.  Raises Nonconformance, ControlBroken when what is small
        does not arrive either.
        """
        small = self.expect.controls(
            [pairs], because="where nothing small arrives nothing is said about what is larger"
        )
        took = {(one.attempt.source.uid, one.attempt.target): one.seconds for one in small}
        attempts = [
            self._attempt(source, target, size, answered_in=took[source.uid, target])
            for source, target in pairs
            for size in (WHOLE if target.protocol == "udp" else TRANSFER, SMALLEST)
        ]
        polled = poll(self.expect, attempts, _all_echoed, because=because)
        lost = self._lost(pairs, because)

        def judge(place: int) -> Judged:
            wrong = lost.get(place)
            if wrong is None and not (polled.converged or polled.agreed(2 * place, echoed)):
                wrong = self._failure(polled, 2 * place, 2 * place + 1)
            if wrong:
                return self.unless_changed(*pairs[place], wrong)
            return with_who(because, polled.seen(2 * place)[-polled.agree :])

        self.check("behaviour", [(*pair, place) for place, pair in enumerate(pairs)], judge)

    def _lost(self, pairs: Sequence[Pair], because: str) -> dict[int, Exception]:
        """By its place a path on which some size of one packet never arrives, and what is said of it.

        Each size has a round of its own, so that queues of busy nodes do not overflow; who did not get it is asked
        again and again, beside what is small.  Each path has its own sizes, so that those of a node lie close, odd
        ones among them: between three nodes of one system and two of another none is more than 37 bytes from the next.
        """
        found = dict[int, Exception]()
        for size in BETWEEN:
            attempts = {
                place: self._attempt(
                    *pair, size + _beyond(place, pair), sent_back=size == SENT_BACK
                )
                for place, pair in enumerate(pairs)
                if place not in found
            }
            seen = zip(attempts, self.expect.prober.observe([*attempts.values()]), strict=True)
            if not (silent := [place for place, one in seen if not echoed(one)]):
                continue
            again = [attempts[place] for place in silent]
            again += [self._attempt(*pairs[place], TINY) for place in silent]
            polled = poll(self.expect, again, _all_echoed, because=because)
            for index, place in enumerate(silent):
                if not any(map(echoed, polled.seen(index))):
                    found[place] = self._failure(polled, index, index + len(silent))
        return found

    def _attempt(
        self,
        source: Workload,
        target: Target,
        size: int,
        *,
        sent_back: bool = False,
        answered_in: float = 0.0,
    ) -> Attempt:
        """With the patience that the slower end and the path need: a slow answer is no silence.

        What goes over TCP is always ``sent_back``, and a datagram where that is asked for.  ``answered_in``: s, what is
        small on the same path; no round trip takes longer.
        """
        ends = [
            self.expect.timings.of(system)
            for system in {source.os, *(backend.os for backend in target.backends)}
        ]
        is_tcp = target.protocol == "tcp"
        kind = Kind.UDP
        give_up = max(patience.tcp_give_up for patience in ends)
        if is_tcp:
            slow = ROUND_TRIPS * answered_in
            kind = Kind.HTTP
            give_up = max(patience.http_give_up for patience in ends) + slow
        made = Attempt(source=source, target=target, kind=kind, give_up_after=give_up)
        return (
            replace(made, payload=size)
            if is_tcp or sent_back
            else replace(made, request="?" + "a" * (size - 1))
        )

    @staticmethod
    def _failure(polled: Polled, index: int, beside: int) -> Exception:
        """``index``: of the attempt that is lost; ``beside``: of that with what is small on the same path."""
        lost = polled.seen(index)
        small = polled.seen(beside)
        attempt = polled.attempts[index]
        size = _size(attempt)
        is_udp = attempt.kind is Kind.UDP
        whole, little = (
            f"datagrams of {_size(each)} bytes" if is_udp else f"{_size(each)} bytes over TCP"
            for each in (attempt, polled.attempts[beside])
        )
        if not polled.agreed(beside, lambda one: as_wanted(one, True)):
            lines = {
                "beside": f"{whole} in the same rounds: {message.summary(lost)}",
                "do": "see CONN-3 on this way first: nothing is said about what is large while small ones vanish",
            }
            return polled.broken_control(beside, f"{little} answered", lines)
        lines = {
            "beside": f"{little} in the same rounds: {message.summary(small)}",
            "do": DO["small" if size < WHOLE else attempt.kind.value],
        }
        what = f"a datagram of {size} bytes" if is_udp else whole
        return polled.nonconformance(index, f"{what} answered", lines)


def _all_echoed(seen: Sequence[Observation]) -> bool:
    return all(map(echoed, seen))


def _beyond(place: int, pair: Pair) -> int:
    """Bytes that a path's sizes have beyond round ones; with others for each system, one node's are not the same."""
    return (37 * place + 69 * (pair[1].backends[0].os == "windows")) % 100


def _size(attempt: Attempt) -> int:
    return attempt.payload or len(attempt.request)
