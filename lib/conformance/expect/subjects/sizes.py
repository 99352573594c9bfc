# SPDX-License-Identifier: Apache-2.0
"""Expectations about packet sizes: the largest datagram that passes whole, and larger datagrams
that vanish.

Datagrams are sent with Don't Fragment and answered with few bytes, so that each direction is
measured by itself. Above the largest size, the sender's own system must report that the datagram
does not fit; silence there is a black hole, in which full-sized packets disappear while small
packets pass. A server that is slow or absent for a moment is silent, too. Therefore a hole counts
only after agreeing rounds in which small datagrams pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from conformance.errors import (
    ControlBroken,
    MissingCapability,
    Nonconformance,
    ProbeBroken,
    SuiteError,
)
from conformance.expect.check import Judged
from conformance.expect.engine.answered import as_wanted
from conformance.expect.engine.at_once import at_once
from conformance.expect.explain import message
from conformance.expect.poll import Polled, poll
from conformance.expect.subject import Subject
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Pair, Target, Workload
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict
from conformance.pods.groups import PodPair
from conformance.settings.assumptions import number, result
from conformance.verdicts.meaning import of_limitation

HEADERS = 28
"""The bytes of an IPv4 header without options and a UDP header."""
SMALLEST = 576
LARGEST = 9216
"""The MTU is searched from SMALLEST, the size in bytes that every IPv4 host must accept (RFC 1122),
to LARGEST, the size of jumbo frames."""
AT_ONCE = 16
"""The number of sizes that a batch tries; with this number, four batches find the exact size."""
SEARCHES = 3
"""The number of times that a path is searched for a hole; a server is unlikely to be absent so many
times by chance."""
OVERLAY = number("OVERLAY-OVERHEAD")
"""Bytes that VXLAN over IPv4 adds; Calico subtracts them from the node's MTU if no MTU is set."""
TAKEN = frozenset({Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED, Verdict.UNREACHABLE})
"""Results which show that the sender's own system accepted the datagram, whether or not the
datagram arrived."""
ANSWERED = frozenset({result("WIN-UDP-CLOSED")[0], Verdict.RESET, Verdict.UNREACHABLE})
"""Results which show that a host other than the server has answered, so that the server is absent
for datagrams of every size."""

KUBELET = 10250
"""Port of every node's kubelet; it takes no datagrams, so datagrams to it have no effect."""


@dataclass(frozen=True, kw_only=True)
class Carried:
    """The sizes that a path carries."""

    mtu: int
    """The size in bytes of the largest IPv4 packet that passed whole."""
    above: Observation
    """The result of a packet with one byte more than ``mtu``."""
    observations: tuple[Observation, ...]
    """All attempts with one byte more than ``mtu``."""
    seconds: float
    """Seconds that the attempts took."""


@dataclass
class Sizes(Subject):
    """The expectations of a test about packet sizes."""

    def carries(
        self, pod_pairs: Sequence[PodPair], *, because: str, port: int = 8080
    ) -> list[Carried]:
        """Expect full-sized packets to pass in both directions. Expect the sender's system to
        refuse larger packets, so that no packet vanishes.

        The size is only recorded, since HNS sets the MTU of Windows pods. Return the result of each
        path: both directions of the first pair, then those of the next pair, and so on.
        """
        pairs = [
            pair
            for client, other in pod_pairs
            for pair in ((client, other.udp(port)), (other, client.udp(port)))
        ]
        self.expect.control(
            pairs, because="small datagrams have to arrive before larger ones are judged"
        )
        found: list[Carried] = []

        def judge(pair: Pair) -> Judged:
            found.append(self._judged(*pair, because))
            return because

        self.check("behaviour", [(*pair, pair) for pair in pairs], judge)
        return found

    def setting_ignored(
        self,
        setting: Fact[int],
        *,
        by: Sequence[PodPair],
        followed_by: PodPair,
        node: Workload,
        because: str,
    ) -> None:
        """Expect pods of the operating system ``by`` to keep their own MTU, while ``followed_by``
        shows that the setting is in force.

        The two pods of a pair run on one node and one operating system, so that only their own MTU
        limits them. ``node``: a pod in the network of a Linux node; its MTU shows what Windows uses
        without a setting.

        Raise MissingCapability if nothing is set, or if the setting is exactly the MTU that Windows
        uses without it.
        """
        remedy = "set Installation .spec.calicoNetwork.mtu lower than the nodes' MTU - 50 and start new pods"
        if setting.value is None:
            raise MissingCapability(
                f"no MTU is set, so nothing shows whether it is followed ({setting.source})", remedy
            )
        following, follower_mate = followed_by
        follower = self._taken(following, follower_mate.udp(8080))
        self.expect.context.sink.record(f"MTU of {following.os} pods, bytes", follower.mtu)
        if follower.mtu != setting.value:
            said = f"{setting.value} is set ({setting.source})"
            text = message.explanation(
                self.expect.context.claims,
                follower.above.attempt,
                f"an MTU of {setting.value}",
                follower.observations,
                follower.seconds,
                observed=f"an MTU of {follower.mtu}",
                so=f"{said}: the pod is older than the setting, or the setting is not in force",
                do="start new pods, and look at calico-node's log for the setting",
            )
            raise ControlBroken(
                message.of_control(text),
                control=following.label,
                observations=follower.observations,
            )
        # If nothing answers at a node, its search lasts until all its attempts have timed out, so
        # the searches run at once.
        searches = at_once([partial(self._node, node, ignoring) for ignoring, _ in by])
        for (ignoring, mate), on_node in zip(by, searches, strict=True):
            own = self._taken(ignoring, mate.udp(8080))
            self.expect.context.sink.record(f"MTU of {ignoring.os} pods, bytes", own.mtu)
            if setting.value == on_node.result().mtu - OVERLAY:
                raise MissingCapability(
                    f"the set MTU of {setting.value} is also the MTU that Windows uses "
                    "without the setting",
                    remedy,
                )
            lifted = own.mtu == setting.value
            statement = f"{ignoring.label} has the set MTU of {setting.value} ({setting.source})"
            self.expect.context.decided(
                ignoring, None, of_limitation(lifted), statement if lifted else because, "behaviour"
            )
            self.expect.control(ignoring, mate.udp(8080), because=because)

    # --- how ------------------------------------------------------------------------------------------------------

    def _judged(self, source: Workload, target: Target, because: str) -> Carried:
        """Return the sizes that a path carries, after a check that the source's own system refuses
        larger packets.

        Raise Nonconformance for a black hole. If no search decides, raise ControlBroken (the server
        answered only sometimes) or ProbeBroken.
        """
        for _ in range(SEARCHES):
            carried = self._carried(source, target)
            self.expect.context.sink.record(
                f"MTU {source.os}->{target.backends[0].os}, bytes", carried.mtu
            )
            if carried.above.verdict is Verdict.PROHIBITED:
                return carried
            again = poll(  # as many rounds as verdicts need, each with a small datagram
                self.expect,
                self._attempts(source, target, [carried.mtu + 1, SMALLEST]),
                _hole,
                because=because,
                within=lambda _: 0.0,
            )
            above = again.observations(0)
            forbidden = [
                observation for observation in above if observation.verdict is Verdict.PROHIBITED
            ]
            # meanwhile, the path has reported its size (ICMP fragmentation needed), and the system
            # obeys
            if forbidden:
                return Carried(
                    mtu=carried.mtu,
                    above=forbidden[-1],
                    observations=tuple(above),
                    seconds=again.settled.seconds,
                )
            if all(map(_hole, again.settled.observations)):
                raise self.unless_changed(source, target, self._black_hole(carried, again, because))
        raise self.unless_changed(source, target, self._undecided(carried, again))

    def _carried(self, source: Workload, target: Target) -> Carried:
        """Find the largest datagram that is answered on a path.

        Raise ProbeBroken if small datagrams pass, but none of the sizes that every host must
        accept.
        """
        observations: list[Observation] = []
        seconds = 0.0
        for _ in range(2):  # the server may have been absent for the first batch
            carried = self._largest(
                source, target, lambda observation: as_wanted(observation, True)
            )
            if carried.mtu >= SMALLEST:
                return carried
            observations += carried.observations
            seconds += carried.seconds
            self.expect.control(
                source, target, because=f"packets of {SMALLEST} bytes pass everywhere (RFC 1122)"
            )
        attempt = observations[0].attempt
        expected = f"packets of {SMALLEST} bytes to pass"
        raise ProbeBroken(
            message.explanation(
                self.expect.context.claims,
                attempt,
                expected,
                observations,
                seconds,
                so=f"small datagrams pass, but none of {SMALLEST} bytes",
            ),
            observations,
        )

    def _node(self, node: Workload, there: Workload) -> Carried:
        """Return the MTU of a node's device, which the sender's kernel shows without an answer of
        the other node."""
        target = Target(
            host=there.node_address,
            port=KUBELET,
            protocol="udp",
            path=Addressing.NODE_IP,
            name=there.node,
        )
        return self._taken(node, target)

    def _taken(self, source: Workload, target: Target) -> Carried:
        """Return the largest datagram that the sender's kernel accepts."""
        found = self._largest(source, target, lambda observation: observation.verdict in TAKEN)
        if found.mtu < SMALLEST:
            expected = f"packets of {SMALLEST} bytes to be accepted by the sender's own system"
            explanation = message.explanation(
                self.expect.context.claims,
                found.above.attempt,
                expected,
                found.observations,
                found.seconds,
            )
            raise ProbeBroken(explanation, found.observations)
        return found

    def _largest(
        self, source: Workload, target: Target, passes: Callable[[Observation], bool]
    ) -> Carried:
        """Return the largest size that passes. A packet with one byte more failed as often as
        answers must agree for a verdict.

        A result below SMALLEST means that nothing passes.
        """
        agree = self.expect.timings.of(source.os).agree
        good = SMALLEST - 1
        bad = LARGEST + 1
        while True:
            while bad - good > 1:
                sizes = list(range(good + 1, bad, max(1, -(-(bad - good - 1) // AT_ONCE))))
                began = self.expect.clock.monotonic()
                observations = self._try(source, target, sizes)
                passed = [
                    size
                    for size, observation in zip(sizes, observations, strict=True)
                    if passes(observation)
                ]
                if passed:  # if so, smaller datagrams were lost by chance
                    good = max(passed)
                bad = min([size for size in sizes if size > good], default=bad)
                if good < SMALLEST <= bad <= SMALLEST:
                    return Carried(
                        mtu=good,
                        above=observations[0],
                        observations=(observations[0],),
                        seconds=self.expect.clock.monotonic() - began,
                    )
            began = self.expect.clock.monotonic()
            above = self._try(source, target, [good + 1] * agree)
            if not any(passes(observation) for observation in above):
                return Carried(
                    mtu=good,
                    above=above[-1],
                    observations=tuple(above),
                    seconds=self.expect.clock.monotonic() - began,
                )
            good = good + 1
            bad = LARGEST + 1

    def _try(self, source: Workload, target: Target, sizes: Sequence[int]) -> list[Observation]:
        """Try all sizes at once, with the slower end's time limit, so that a slow answer does not
        look like silence."""
        return self.expect.prober.observe(self._attempts(source, target, sizes))

    def _attempts(self, source: Workload, target: Target, sizes: Sequence[int]) -> list[Attempt]:
        ends = {source.os, *(backend.os for backend in target.backends)}
        give_up = max(self.expect.timings.of(system).tcp_give_up for system in ends)
        return [
            Attempt(
                source=source,
                target=target,
                kind=Kind.UDP,
                give_up_after=give_up,
                whole=True,
                request="?" + "a" * (size - HEADERS - 1),
            )
            for size in sizes
        ]

    def _vanishing(self, carried: Carried) -> str:
        """Describe which sizes vanish, and on which path. The sizes end at the pod's MTU: the pod's
        own system refuses to send larger packets."""
        source = carried.above.attempt.source
        target = carried.above.attempt.target
        nodes = (
            f"{source.node} to {', '.join(pod.node for pod in target.backends)}"
            if target
            else source.node
        )
        try:
            own = self._taken(source, target).mtu if target else 0
        except SuiteError:
            own = 0
        sizes = (
            f"{carried.mtu + 1} to {own} bytes"
            if own > carried.mtu
            else f"{carried.mtu + 1} bytes and more"
        )
        return f"packets of {sizes} vanish from {nodes}" + (
            f" (MTU of the pod {own})" if own > carried.mtu else ""
        )

    def _black_hole(self, carried: Carried, again: Polled, because: str) -> Nonconformance:
        observations = [*carried.observations, *again.observations(0)]
        small = again.observations(1)
        text = message.explanation(
            self.expect.context.claims,
            carried.above.attempt,
            expected=_no_silence(carried),
            because=because,
            observations=observations,
            seconds=carried.seconds + again.settled.seconds,
            further={
                "passed": f"packets of up to {carried.mtu} bytes",
                "beside": f"packets of {SMALLEST} bytes in the same rounds: "
                f"{message.summary(small)} ({len(small)} of {len(small)})",
                "do": "compare the MTU of the pod with that of the path: underlay - 50 for VXLAN; and let ICMP "
                "fragmentation-needed pass",
            },
            observed=f"no answer to packets of {carried.mtu + 1} bytes or more",
        )
        text = replace(text, cause=self._vanishing(carried))
        violation = Nonconformance(text, observations=observations)
        violation.cause = f"packets of more than {carried.mtu} bytes vanish between nodes"
        return violation

    def _undecided(self, carried: Carried, again: Polled) -> Exception:
        """Return the error for a path on which no search for a black hole gave a result."""
        above = again.observations(0)
        small = again.observations(1)
        text = again.message(
            0,
            _no_silence(carried),
            {
                "beside": f"packets of {SMALLEST} bytes in the same rounds: {message.summary(small)}",
                "do": "look at the server's pod: it answers only at times",
            },
        )
        flat = [*above, *small]
        searched = f"{SEARCHES} times; each repetition showed another result"
        text = replace(text, lines={**text.lines, "searched": searched})
        if any(not as_wanted(observation, True) for observation in small) or any(
            observation.verdict is Verdict.CONNECTED or observation.verdict in ANSWERED
            for observation in above
        ):
            return ControlBroken(
                message.of_control(text), control=carried.above.attempt.label, observations=flat
            )
        return ProbeBroken(text, flat)


def _no_silence(carried: Carried) -> str:
    return f"packets over {carried.mtu} bytes to arrive, or to be refused by the sender (message too long)"


def _hole(round_: Sequence[Observation]) -> bool:
    """Return whether a size got no answer while a small datagram passed in the same round."""
    above, small = round_
    return above.verdict is Verdict.TIMED_OUT and as_wanted(small, True)
