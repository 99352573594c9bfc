"""Does the overlay pass between nodes?  And if not: is it the network between the nodes, or what carries pods?

Paths within a node and the nodes' own addresses are controls.  Only when both are well and paths between nodes are
dead is VXLAN itself, that is UDP 4789 on the way, to blame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, Unmet
from conformance.expect import message
from conformance.expect.poll import Polled, poll
from conformance.expect.routes import Route
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Path, Target, Workload
from conformance.model.observation import Observation, Verdict

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

KUBELET = 10250
"""Port of every node's kubelet.  Refused is as good as connected: an answer came from that node."""
REACHED = frozenset({Verdict.CONNECTED, Verdict.REFUSED, Verdict.RESET})


@dataclass
class Overlay:
    """Expectations of one test about the overlay."""

    expect: Expect

    def passes(
        self, *, between: Sequence[Route], within: Sequence[Route], node: Workload, because: str
    ) -> list[Observation]:
        """Every route between nodes connects.

        ``within``: routes inside one node, ``node``: a pod in a node's network that asks each target's node; both are
        controls.  Raises Unmet when only the overlay is dead, ControlBroken when the controls are.
        """
        expect = self.expect
        addresses = dict.fromkeys(server.node_address for _, target in between for server in target.backends)
        nodes = [
            Target(host=address, port=KUBELET, protocol="tcp", path=Path.NODE_IP, name="the node's kubelet")
            for address in addresses
            if address != node.node_address
        ]
        routes = [*between, *within, *((node, target) for target in nodes)]
        attempts = [
            Attempt(source=source, target=goal, kind=Kind.TCP, give_up_after=expect.timings.of(source.os).tcp_give_up)
            for source, goal in routes
        ]
        count, same = len(between), len(within)
        polled = poll(
            expect,
            attempts,
            lambda seen: all(observation.verdict is Verdict.CONNECTED for observation in seen[:count]),
            because=because,
        )
        last = polled.settled.last
        if polled.converged:
            for source, target in between:
                expect.context.decided(source, target, ClaimVerdict.CONFIRMED, because)
            return list(last[:count])
        dead = [index for index in range(count) if last[index].verdict is not Verdict.CONNECTED] or [0]
        within_dead = [index for index in range(count, count + same) if last[index].verdict is not Verdict.CONNECTED]
        unreached = [index for index in range(count + same, len(last)) if last[index].verdict not in REACHED]
        expect.context.attach("expected and observed", self._table(polled, count + same))
        if within_dead or unreached:
            index = (within_dead or unreached)[0]
            line = polled.headline(index, "CONNECTED" if within_dead else "an answer")
            raise ControlBroken(
                f"control failed: {line} {'inside one node' if within_dead else 'from node to node'}, so that the "
                "overlay cannot be judged",
                control=attempts[index].label, seen=polled.seen(index),
            )  # fmt: skip
        seen = polled.seen(dead[0])
        text = polled.message(
            dead[0],
            "CONNECTED",
            {
                "beside": f"{len(dead)} of {count} routes between nodes are dead; routes inside one node connect, and "
                f"{node.node} reaches {', '.join(addresses)}",
                "do": "UDP 4789 is blocked between the nodes, or not answered: open it in firewalls and security "
                "groups, both ways; on Windows: Get-NetFirewallRule -Name OverlayTraffic4789UDP",
            },
        )
        first, _, rest = text.partition("\n")
        for index, (source, target) in enumerate(between):
            verdict = ClaimVerdict.UNMET if index in dead else ClaimVerdict.CONFIRMED
            reason = f"{attempts[index].label}  {last[index].verdict}" if index in dead else because
            expect.context.decided(source, target, verdict, reason)
        raise Unmet(f"{first}: UDP 4789 (VXLAN) does not pass between the nodes\n{rest}", seen=seen)

    @staticmethod
    def _table(polled: Polled, connect: int) -> str:
        return message.table(
            [
                (
                    attempt.label,
                    "CONNECTED" if index < connect else "an answer",
                    message.summary(seen),
                    seen[-1].verdict in (REACHED if index >= connect else {Verdict.CONNECTED}),
                )
                for index, (attempt, seen) in enumerate(polled)
            ]
        )
