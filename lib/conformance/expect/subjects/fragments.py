# SPDX-License-Identifier: Apache-2.0
"""Expectations about data that does not fit into one packet. The data is sent in parts, and the
receiver's system joins the parts.

Datagrams are sent without Don't Fragment and answered with few bytes, so that each direction is
judged by itself. UDP delivers whole datagrams or none: an answer of the server shows that all parts
arrived. TCP fills packets as far as both ends allow, and the answer has as many packets as the
request. A connection that loses packets because of their size never ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from conformance.expect.case import Row, rows_of
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
"""The size in bytes of a datagram that exceeds every MTU, including that of jumbo frames (9216).
Its fragments are few enough to arrive together."""

TRANSFER = 1_200_000
"""The bytes that a TCP connection carries in each direction. They exceed the bytes that TCP sends
before the first acknowledgement (RFC 6928), and the limits of windows and counters (64 KiB and 1
MiB)."""
ROUND_TRIPS = 20
"""The maximum number of round trips that :data:`TRANSFER` takes in both directions. A connection
begins with ten packets (RFC 6928) and doubles them with each round trip, seven times in each
direction. It needs further round trips for its start and for lost packets."""
BETWEEN = tuple(range(100, 1300, 100))
"""Sizes in bytes that fit into a packet; each path adds an offset of less than 100. A fault that
loses only packets of some sizes may let the full and the smallest packets pass, so the sizes
between them are tested, too."""
SENT_BACK = BETWEEN[-1]
"""The size in ``BETWEEN`` at which the server returns the whole datagram, so that its bytes are
compared."""
TINY = 50
"""The size in bytes of a datagram that passes wherever any datagram passes; smaller than all sizes
of ``BETWEEN``."""
DO = {
    "udp": "let IPv4 fragments pass inside the overlay: look at firewalls and at network adapters' offloads, on both "
    "nodes and between them",
    "http": "compare the pods' MTU with that of the path, and look at network adapters' offloads of TCP on both nodes",
    "small": "look for anything that drops or changes packets by their length on and between both nodes: firewalls, offloads",
}


@dataclass
class Fragments(Subject):
    """The expectations of a test about datagrams above the MTU, and transfers of many full
    packets."""

    def arrive(self, *rows: Row) -> None:
        """Expect a datagram of :data:`WHOLE` bytes, and datagrams of a single packet, to arrive on
        each path to a UDP port. On a path to a TCP port, expect :data:`TRANSFER` bytes to arrive
        and to come back.

        Raise Nonconformance; ControlBroken if small datagrams do not arrive either.
        """
        reasons = {pair: row.because for pair, row in rows_of(rows).items()}
        pairs = list(reasons)
        because = next(iter(reasons.values()))
        small = self.expect.control(
            pairs, because="small datagrams have to arrive before larger ones are judged"
        )
        took = {
            (observation.attempt.source.uid, observation.attempt.target): observation.seconds
            for observation in small
        }
        attempts = [
            self._attempt(source, target, size, answered_in=took[source.uid, target])
            for source, target in pairs
            for size in (WHOLE if target.protocol == "udp" else TRANSFER, SMALLEST)
        ]
        polled = poll(self.expect, attempts, _all_echoed, because=because)
        lost = self._find_lost(pairs, because)

        def judge(place: int) -> Judged:
            wrong = lost.get(place)
            if wrong is None and not (polled.converged or polled.agreed(2 * place, echoed)):
                wrong = self._failure(polled, 2 * place, 2 * place + 1)
            if wrong:
                return self.unless_changed(*pairs[place], wrong)
            return with_who(reasons[pairs[place]], polled.observations(2 * place)[-polled.agree :])

        self.check("behaviour", [(*pair, place) for place, pair in enumerate(pairs)], judge)

    def _find_lost(self, pairs: Sequence[Pair], because: str) -> dict[int, Exception]:
        """Return the error of each path on which packets of some size never arrive, by the path's
        index.

        Each size has a round of its own, so that queues of busy nodes do not overflow. A path
        without an answer is tried again, together with a small datagram. Each path has its own
        sizes, so that the sizes of a node lie close together and include odd sizes. Between three
        nodes of one system and two of another, no gap is larger than 37 bytes.
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
            observations = zip(
                attempts, self.expect.prober.observe([*attempts.values()]), strict=True
            )
            if not (
                silent := [place for place, observation in observations if not echoed(observation)]
            ):
                continue
            again = [attempts[place] for place in silent]
            again += [self._attempt(*pairs[place], TINY) for place in silent]
            polled = poll(self.expect, again, _all_echoed, because=because)
            for index, place in enumerate(silent):
                if not any(map(echoed, polled.observations(index))):
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
        """Return an attempt with the time limit that the slower end and the path need, so that a
        slow answer does not look like silence.

        Over TCP the server always returns the payload; a datagram is returned only with
        ``sent_back``. ``answered_in``: seconds that a small payload took on the same path; no round
        trip takes longer.
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
        """Return the failure of a lost attempt. ``index``: the position of the lost attempt;
        ``beside``: the position of the attempt with a small datagram on the same path."""
        lost = polled.observations(index)
        small = polled.observations(beside)
        attempt = polled.attempts[index]
        size = _size(attempt)
        is_udp = attempt.kind is Kind.UDP
        whole, little = (
            f"datagrams of {_size(each)} bytes" if is_udp else f"{_size(each)} bytes over TCP"
            for each in (attempt, polled.attempts[beside])
        )
        if not polled.agreed(beside, lambda observation: as_wanted(observation, True)):
            lines = {
                "beside": f"{whole} in the same rounds: {message.summary(lost)}",
                "do": "see CONN-3 on this path first: while small packets vanish, larger "
                "packets cannot be judged",
            }
            return polled.broken_control(beside, f"{little} answered", lines)
        lines = {
            "beside": f"{little} in the same rounds: {message.summary(small)}",
            "do": DO["small" if size < WHOLE else attempt.kind.value],
        }
        what = f"a datagram of {size} bytes" if is_udp else whole
        return polled.nonconformance(index, f"{what} answered", lines)


def _all_echoed(observations: Sequence[Observation]) -> bool:
    return all(map(echoed, observations))


def _beyond(place: int, pair: Pair) -> int:
    """Return the offset in bytes that a path adds to :data:`BETWEEN`; each operating system has its
    own offsets."""
    return (37 * place + 69 * (pair[1].backends[0].os == "windows")) % 100


def _size(attempt: Attempt) -> int:
    return attempt.payload or len(attempt.request)
