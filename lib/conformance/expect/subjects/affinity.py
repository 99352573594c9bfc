# SPDX-License-Identifier: Apache-2.0
"""Expectations about session affinity: all connections of a client through a Service reach the same
backend."""

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.check import Judged, Ruling
from conformance.expect.engine.answered import as_wanted, telling
from conformance.expect.explain import message
from conformance.expect.explain.advice import kube_proxy
from conformance.expect.poll import Polled, poll
from conformance.expect.subject import Subject
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation

CONNECTIONS = 8
"""The number of connections of a client in a round. If a Service chose between two backends at
random, one backend would answer all connections in one of 128 rounds. The connections of all
agreeing rounds are counted together."""
SINCE = 20348
"""The first Windows build with session affinity (Kubernetes, Networking on Windows)."""
SEVERAL = "without session affinity the client's connections go to several backends"
STAYS = "one backend"


@dataclass
class Affinity(Subject):
    """The expectation of a test about a Service with ``sessionAffinity: ClientIP``."""

    def stays(
        self,
        clients: Sequence[Workload],
        target: Target,
        plain: Target,
        *,
        beside: Sequence[Workload],
        because: str,
    ) -> None:
        """Expect each Windows client's connections to stay with one backend on Server 2022 and
        later. On earlier builds the connections should reach several backends; if they stay with
        one, the limitation is LIFTED.

        ``plain``: a Service with the same backends, without session affinity. ``beside``: Linux
        clients, which stay with one backend.

        Raise Nonconformance if a connection reaches no backend, or if a client that should stay
        with one backend does not. Raise ControlBroken if a client does not reach several backends
        by ``plain``, or if a Linux client does not stay with one backend.
        """
        expect = self.expect
        everyone = [*beside, *clients]
        attempts = [
            expect.attempt(client, goal, telling(goal))
            for client in everyone
            for goal in (target, plain)
            for _ in range(CONNECTIONS)
        ]
        polled = poll(
            expect,
            attempts,
            lambda round_: all(
                _is_right(client, *_of(round_, place)) for place, client in enumerate(everyone)
            ),
            because=because,
        )

        def judge(place: int) -> Judged:
            for witness in range(len(beside)):
                if error := self._problem(polled, witness):
                    raise ControlBroken(message.of_control(str(error)), "a Linux client")
            client = everyone[place]
            kept, _ = _newest(polled, place)
            if error := self._problem(polled, place):
                observed = message.summary(kept) if not _answered(kept) else "several backends"
                return Ruling(
                    error=self.unless_changed(client, target, error), symptom=(STAYS, observed)
                )
            if not _should_stay(client) and len(_names(kept)) == 1:
                text = f"{client.label} -> {target.label}: its connections stay with one backend"
                return Ruling(
                    f"{text}, although its build is older than Windows Server 2022",
                    ClaimVerdict.LIFTED,
                )
            return because

        places = range(len(beside), len(everyone))
        self.check("behaviour", [(everyone[at], target, at) for at in places], judge)

    def _problem(self, polled: Polled, place: int) -> Exception | None:
        """Return the failure of a client. Return None if the client stays with one backend, or does
        not have to."""
        kept, plain = _newest(polled, place)
        index = 2 * place * CONNECTIONS
        names = _names(kept)
        if _answered(kept) and not (_answered(plain) and len(_names(plain)) > 1):
            return polled.broken_control(
                index + CONNECTIONS, "several backends", {}, so=f"although {SEVERAL}"
            )
        if _answered(kept) and (len(names) == 1 or not _should_stay(polled.attempts[index].source)):
            return None
        source = polled.attempts[index].source
        target = polled.attempts[index].target
        assert target is not None
        observed = (
            f"{counted(len(names), 'backend')}: {', '.join(sorted(names))}"
            if _answered(kept)
            else message.summary([one for one in kept if not as_wanted(one, True)])
        )
        text = polled.message(index, STAYS, {"do": kube_proxy(source, target)}, observed=observed)
        return Nonconformance(text, observations=kept)


def _of(round_: Sequence[Observation], place: int) -> tuple[Sequence[Observation], ...]:
    """Return a client's connections in one round: first those with session affinity, then those
    without."""
    start = 2 * place * CONNECTIONS
    middle = start + CONNECTIONS
    return round_[start:middle], round_[middle : middle + CONNECTIONS]


def _newest(polled: Polled, place: int) -> tuple[list[Observation], list[Observation]]:
    """Return a client's connections with session affinity, and those without, in the newest rounds.
    The number of rounds is the number that must agree.

    If there are enough rounds in which every connection was answered, only these rounds count: a
    lost connection does not show which backend it would have reached.
    """
    rounds = [_of(one, place) for one in polled.settled.observations]
    whole = [one for one in rounds if all(map(_answered, one))]
    chosen = whole if len(whole) >= polled.agree else rounds
    kept, plain = zip(*chosen[-polled.agree :], strict=True)
    return [one for part in kept for one in part], [one for part in plain for one in part]


def _should_stay(client: Workload) -> bool:
    return client.os == "linux" or int(client.windows_build.partition(".")[0] or 0) >= SINCE


def _is_right(client: Workload, kept: Sequence[Observation], plain: Sequence[Observation]) -> bool:
    """Return whether a client's connections in a round are as documented."""
    answered = _answered(kept) and _answered(plain) and len(_names(plain)) > 1
    return answered and (len(_names(kept)) == 1) == _should_stay(client)


def _answered(observations: Sequence[Observation]) -> bool:
    """Return whether a backend answered each of these connections."""
    return all(as_wanted(observation, True) for observation in observations)


def _names(observations: Sequence[Observation]) -> set[str]:
    """Return the names of the pods that answered."""
    return {observation.served_by for observation in observations if observation.served_by}
