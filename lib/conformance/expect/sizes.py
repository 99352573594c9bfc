"""Expectations about the size of packets: the largest datagram that passes whole, and whether larger ones vanish.

Datagrams are sent with Don't Fragment and answered shortly, so that each way is measured by itself.  Above the largest
one the sender's own system must say that it does not fit; silence there is a black hole, in which full-sized packets
disappear while small ones pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, EnvironmentLacks, Nonconformance, ProbeBroken
from conformance.expect import message
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Path, Target, Workload
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

HEADERS = 28
"""Bytes of an IPv4 header without options and a UDP header."""
SMALLEST, LARGEST = 576, 9216
"""Bytes between which an MTU is looked for: what every IPv4 host must take (RFC 1122), and jumbo frames."""
AT_ONCE = 16
"""Sizes that one batch tries, so that four batches find the byte."""
OVERLAY = 50
"""Bytes that VXLAN over IPv4 adds: what Calico takes off the node's MTU where none is set."""
TAKEN = frozenset({Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED, Verdict.UNREACHABLE})
"""The sender's own system took the datagram, whatever became of it."""


KUBELET = 10250
"""Port of every node's kubelet; it takes no datagrams, so that sending some does nothing there."""

Pair = tuple[Workload, Workload]
"""A client and a server."""


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What one way carries."""

    mtu: int
    """Bytes of the largest IPv4 packet that passed whole."""
    above: Observation
    """How one byte more ended."""


@dataclass
class Sizes:
    """Expectations of one test about sizes; ``lifted`` tells the report that a limitation is gone."""

    expect: Expect
    lifted: Callable[[str], None]

    def carries(self, one: Workload, other: Workload, *, because: str, port: int = 8080) -> tuple[Carried, Carried]:
        """Full-sized packets pass both ways: what is too large for a Linux pod is refused there, and nothing vanishes.

        Of Windows pods the sizes are recorded only (their MTU is whatever HNS gave them).
        """
        ways = ((one, other.udp(port)), (other, one.udp(port)))
        found = tuple(self._carried(source, target) for source, target in ways)
        for (source, target), carried in zip(ways, found, strict=True):
            self.expect.context.record(f"MTU {source.os}->{target.backends[0].os}, bytes", carried.mtu)
            if source.os == "linux" and carried.above.verdict is not Verdict.PROHIBITED:
                raise self._hole(carried, because)
        return found[0], found[1]

    def setting_ignored(self, setting: Fact[int], *, by: Pair, followed_by: Pair, node: Workload, because: str) -> None:
        """Pods of ``by``'s system keep their own MTU, while ``followed_by`` shows that the setting is in force.

        Pairs are of one system and one node each, so that nothing but their own MTU limits them.  ``node``: a pod in
        the network of a Linux node; by its MTU one knows what Windows takes without any setting.  Raises
        EnvironmentLacks where nothing is set, or what is set is that.
        """
        remedy = "set Installation .spec.calicoNetwork.mtu lower than the nodes' MTU - 50 and start new pods"
        if setting.value is None:
            raise EnvironmentLacks(f"no MTU is set, so nothing shows whether it is followed ({setting.source})", remedy)
        (ignoring, _), (following, _) = by, followed_by
        ignorer, follower = self._own(*by), self._own(*followed_by)
        for one, own in ((ignoring, ignorer), (following, follower)):
            self.expect.context.record(f"MTU of {one.os} pods, bytes", own.mtu)
        if follower.mtu != setting.value:
            raise ControlBroken(
                f"control failed: {following.label} has an MTU of {follower.mtu}, and {setting.value} is set "
                f"({setting.source}): it is older than the setting, or the setting is not in force",
                control=following.label, seen=[follower.above],
            )  # fmt: skip
        if setting.value == self._node(node, ignoring).mtu - OVERLAY:
            raise EnvironmentLacks(f"{setting.value}, which is set, is what Windows takes by itself", remedy)
        if ignorer.mtu == setting.value:
            self.lifted(f"{ignoring.label} has the MTU of {setting.value} that is set ({setting.source})")
        self.expect.control(ignoring, by[1].udp(8080), because=because)

    # --- how ------------------------------------------------------------------------------------------------------

    def _carried(self, source: Workload, target: Target) -> Carried:
        """By what comes back."""
        carried = self._largest(source, target, lambda seen: seen.verdict is Verdict.CONNECTED)
        if carried is None:
            self.expect.reachable(source, target, because=f"datagrams of {SMALLEST} bytes pass everywhere (RFC 1122)")
            raise ProbeBroken(f"{source.label} -> {target.label}: small datagrams pass, but none of {SMALLEST} bytes")
        return carried

    def _own(self, source: Workload, mate: Workload) -> Carried:
        """The MTU of the source's device."""
        return self._taken(source, mate.udp(8080))

    def _node(self, node: Workload, there: Workload) -> Carried:
        """The MTU of a node's device; whether anything answers at the other node does not matter."""
        target = Target(host=there.node_address, port=KUBELET, protocol="udp", path=Path.NODE_IP, name=there.node)
        return self._taken(node, target)

    def _taken(self, source: Workload, target: Target) -> Carried:
        """By what the source's own system takes."""
        found = self._largest(source, target, lambda seen: seen.verdict in TAKEN)
        if found is None:
            raise ProbeBroken(f"{source.label}: its system takes no datagram of {SMALLEST} bytes to {target.label}")
        return found

    def _largest(self, source: Workload, target: Target, passes: Callable[[Observation], bool]) -> Carried | None:
        """The largest size that passes, with one byte more tried as often as verdicts must agree; None: none does."""
        patience = self.expect.timings.of(source.os)
        good, bad = SMALLEST - 1, LARGEST + 1
        while True:
            while bad - good > 1:
                step = max(1, -(-(bad - good - 1) // AT_ONCE))
                sizes = list(range(good + 1, bad, step))
                seen = self._try(source, target, sizes, patience.tcp_give_up)
                passed = [size for size, one in zip(sizes, seen, strict=True) if passes(one)]
                if passed:  # a smaller one that did not pass was lost by chance
                    good = max(passed)
                failed = [size for size in sizes if size > good]
                bad = min(failed, default=bad)
                if good < SMALLEST <= bad <= SMALLEST:
                    return None
            above = self._try(source, target, [good + 1] * patience.agree, patience.tcp_give_up)
            if not any(passes(one) for one in above):
                return Carried(mtu=good, above=above[-1])
            good, bad = good + 1, LARGEST + 1

    def _try(self, source: Workload, target: Target, sizes: Sequence[int], give_up: float) -> list[Observation]:
        return self.expect.prober.observe(
            [
                Attempt(
                    source=source, target=target, kind=Kind.UDP, give_up_after=give_up, whole=True,
                    request="?" + "a" * (size - HEADERS - 1),
                )
                for size in sizes
            ]
        )  # fmt: skip

    def _hole(self, carried: Carried, because: str) -> Nonconformance:
        above = carried.above
        text = message.connectivity(
            self.expect.context.claims,
            above.attempt,
            expected=f"packets over {carried.mtu} bytes PROHIBITED by the sender's own system",
            because=because,
            seen=[above],
            seconds=above.seconds,
            further={
                "passed": f"packets of up to {carried.mtu} bytes",
                "do": "compare the MTU of the pod with that of the way: underlay - 50 for VXLAN; and let ICMP "
                "fragmentation-needed pass",
            },
            observed=f"{above.verdict} from {carried.mtu + 1} bytes on: larger packets vanish",
        )
        return Nonconformance(text, seen=[above])
