"""Does the overlay pass between nodes?  And if not: is it the network between the nodes, or what carries pods?

Paths within a node and the nodes' own addresses are controls, and so is what each node has for the other one's pods:
route, forwarding, VNI.  Only when all are well and paths between nodes are dead is UDP 4789 on the way to blame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from conformance.errors import ControlBroken, SuiteError, Unmet, first_line
from conformance.expect import message
from conformance.expect.poll import Polled, poll
from conformance.expect.routes import Route
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Path, Target, Workload
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

KUBELET = 10250
"""Port of every node's kubelet.  Refused is as good as connected: an answer came from that node."""
REACHED = frozenset({Verdict.CONNECTED, Verdict.REFUSED, Verdict.RESET})


@dataclass(frozen=True)
class _Blamed:
    """What the nodes of one dead route have for each other."""

    wrong: tuple[str, ...]
    """What is not as announced or configured: ``route of node a to block B of node b: no route``."""
    unread: str
    """Why something of it is not known; empty: all was read."""


class Entries(Protocol):
    """What is needed of reading nodes (``conformance.facts.vxlan.VxlanFacts``)."""

    def otherwise(self, node: str, toward: str) -> Mapping[str, Fact[str]]:
        """What the overlay needs on a node for another one's pods, and is not as announced or configured."""


@dataclass
class Overlay:
    """Expectations of one test about the overlay."""

    expect: Expect
    entries: Entries

    def passes(
        self, *, between: Sequence[Route], within: Sequence[Route], node: Workload, because: str
    ) -> list[Observation]:
        """Every route between nodes connects.

        ``within``: routes inside one node, ``node``: a pod in a node's network that asks each target's node; both are
        controls.  Raises Unmet when only UDP 4789 can be to blame, ControlBroken when the controls are broken, or what
        the nodes of every dead route have for each other is not as announced: that is said first.
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
            lines = {"do": "see CONN-3 for pods of one node; where nodes do not reach each other, look at the underlay"}
            head, _, rest = polled.message(index, "CONNECTED" if within_dead else "an answer", lines).partition("\n")
            who = "pods inside one node" if within_dead else "nodes"
            text = f"{head}: {who} do not reach each other, so the overlay cannot be judged\n{rest}"
            raise ControlBroken(message.of_control(text), control=attempts[index].label, seen=polled.seen(index))
        blamed = {index: self._otherwise(*between[index]) for index in dead}
        for index, (source, target) in enumerate(between):
            verdict, reason = ClaimVerdict.CONFIRMED, because
            if index in dead:
                names = blamed[index].wrong
                verdict = ClaimVerdict.INCONCLUSIVE if names else ClaimVerdict.UNMET
                reason = f"{attempts[index].label}  {last[index].verdict}{f': {names[0]}' if names else ''}"
            expect.context.decided(source, target, verdict, reason)
        beside = (
            f"{len(dead)} of {count} routes between nodes do not connect; routes inside one node connect, and "
            f"{node.node} reaches {', '.join(addresses)}"
        )
        unexplained = [index for index in dead if not blamed[index].wrong]
        if unexplained:
            raise self._blocked(polled, unexplained[0], blamed, beside)
        raise self._explained(polled, dead[0], blamed, beside)

    @staticmethod
    def _blocked(polled: Polled, index: int, blamed: Mapping[int, _Blamed], beside: str) -> Unmet:
        """Nothing but UDP 4789 is left to explain why this route is dead."""
        names = [name for found in blamed.values() for name in found.wrong]
        lines = {
            "beside": beside,
            "routes": blamed[index].unread or "both nodes have route, forwarding entry and VNI as they should be",
        }
        lines |= {"also": f"other routes do not connect for another reason: {names[0]}"} if names else {}
        lines["do"] = (
            "UDP 4789 is blocked between the nodes, or not answered: open it in firewalls and security groups, both "
            "ways; on Windows: Get-NetFirewallRule -Name OverlayTraffic4789UDP"
        )
        head, _, rest = polled.message(index, "CONNECTED", lines).partition("\n")
        unread = blamed[index].unread.partition(": ")[0]
        why = "probably does not pass between the nodes; " + unread if unread else "does not pass between the nodes"
        return Unmet(f"{head}: UDP 4789 (VXLAN) {why}\n{rest}", seen=polled.seen(index))

    @staticmethod
    def _explained(polled: Polled, index: int, blamed: Mapping[int, _Blamed], beside: str) -> ControlBroken:
        """Every dead route is explained by what its nodes have for each other."""
        first, *others = dict.fromkeys(name for found in blamed.values() for name in found.wrong)
        lines = {"beside": beside} | ({"also": "; ".join(others[:3])} if others else {})
        lines["do"] = (
            "see VXLAN-2 and VXLAN-9; compare that node's routes with the projectcalico.org annotations of both nodes; "
            "then restart calico-node there (on Windows that resets its pods' connections)"
        )
        head, _, rest = polled.message(index, "CONNECTED", lines).partition("\n")
        text = message.of_control(f"{head}: {first}, so that UDP 4789 cannot be judged\n{rest}")
        return ControlBroken(text, control=first, seen=polled.seen(index))

    def _otherwise(self, source: Workload, target: Target) -> _Blamed:
        """What is wrong with what both ends' nodes have for each other, there and back."""
        found: dict[str, None] = {}
        unread = ""
        for server in target.backends:
            for node, toward in ((source.node, server.node), (server.node, source.node)):
                try:
                    facts = self.entries.otherwise(node, toward)
                except SuiteError as error:
                    unread = unread or f"routes of node {node} could not be read: {first_line(error)}"
                else:
                    found |= dict.fromkeys(f"{name}: {fact.value}" for name, fact in facts.items())
        return _Blamed(tuple(found), unread)

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
