# SPDX-License-Identifier: Apache-2.0
"""Does the overlay pass between nodes?  And if not: is it the network between the nodes, or what carries pods?

Paths within a node and the nodes' own addresses are controls, and so is what each node has for the other one's pods:
route, forwarding, VNI.  Only when all are well and nothing at all passes between two nodes, no datagram and no
connection, of no pod and neither way, is UDP 4789 on the way to blame.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import ControlBroken, MissingCapability, Unmet
from conformance.expect.engine.answered import (
    ARRIVED,
    UNTOLD,
    as_wanted,
    plain,
    unexpected_backend,
    with_who,
)
from conformance.expect.explain import message
from conformance.expect.explain.between_nodes import Blamed, Entries, blamed
from conformance.expect.owners import lost_by
from conformance.expect.poll import Polled, poll
from conformance.expect.traffic import Expect
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Addressing, Pair, Target, Workload
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict
from conformance.verdicts.meaning import of_demand

KUBELET = 10250
"""Port of every node's kubelet.  Refused is as good as connected: an answer came from that node."""
REACHED = frozenset({Verdict.CONNECTED, Verdict.REFUSED, Verdict.RESET})


@dataclass(frozen=True)
class Carrier:
    """How messages name what carries pods between nodes, and what to do about it."""

    name: str
    blamed: str
    """What is to blame where all else is well, and does not pass between the nodes."""
    whole: str
    """What both nodes have as they should then."""
    do: str
    see: str
    """The claims about what nodes have for each other's pods."""


VXLAN = Carrier(
    name="the overlay",
    blamed="UDP 4789 (VXLAN)",
    whole="both nodes have route, forwarding entry and VNI as they should be",
    do="UDP 4789 is blocked between the nodes, or not answered: open it in firewalls and security groups, both ways; "
    "on Windows: Get-NetFirewallRule -Name OverlayTraffic4789UDP",
    see="CONN-3, VXLAN-2 and VXLAN-9",
)
ADDRESSES = Carrier(
    name="the fabric",
    blamed="what has a pod's address",
    whole="both nodes have session and route as they should be",
    do="turn the source/destination check off on the nodes' interfaces, and let security groups pass pods' networks",
    see="CONN-3, BGP-1 and BGP-3",
)


@dataclass
class Overlay:
    """Expectations of one test about what carries pods between nodes."""

    expect: Expect
    entries: Entries
    by: Carrier = VXLAN

    def passes(
        self, *, between: Sequence[Pair], within: Sequence[Pair], node: Workload, because: str
    ) -> list[Observation]:
        """Every path between nodes connects.

        ``within``: paths inside one node, ``node``: a pod in a node's network that asks each target's node; both are
        controls.  Raises Unmet when only UDP 4789 can be to blame, ControlBroken when the controls are broken, or what
        the nodes of every dead path have for each other is not as announced: that is said first.
        """
        expect = self.expect
        addresses = dict.fromkeys(
            server.node_address for _, target in between for server in target.backends
        )
        nodes = [
            Target(
                host=address,
                port=KUBELET,
                protocol="tcp",
                path=Addressing.NODE_IP,
                name="the node's kubelet",
            )
            for address in addresses
            if address != node.node_address
        ]
        # A pod answers with its name; a node's own port gets a bare connection.
        attempts = [
            expect.attempt(source, goal)
            for source, goal in [*between, *within, *((node, target) for target in nodes)]
        ]
        count = len(between)
        polled = poll(
            expect,
            attempts,
            lambda seen: all(as_wanted(observation, True) for observation in seen[:count]),
            because=because,
        )
        last = polled.settled.last
        if polled.converged:
            for index, (source, target) in enumerate(between):
                expect.context.decided(
                    source,
                    target,
                    ClaimVerdict.CONFIRMED,
                    with_who(because, polled.seen(index)[-polled.agree :]),
                )
            return list(last[:count])
        self._demand_controls(polled, count, count + len(within))
        found = self._explanations(polled, between)
        self._decide_each(polled, between, found)
        raise self._failure(
            polled,
            found,
            f"{len(found)} of {count} routes between nodes do not connect; routes inside one node connect, and "
            f"{node.node} reaches {', '.join(addresses)} ({UNTOLD} there)",
        )

    def _demand_controls(self, polled: Polled, count: int, connect: int) -> None:
        """Raise ControlBroken when a path inside a node is dead, or a node cannot be reached.

        ``count``: paths between nodes, the first of those that are ``polled``; ``connect``: those
        and the paths inside one node; the others lead to nodes.
        """
        rows = [
            (
                attempt.label,
                "CONNECTED" if index < connect else "an answer",
                message.summary(seen),
                seen[-1].verdict in REACHED if index >= connect else as_wanted(seen[-1], True),
            )
            for index, (attempt, seen) in enumerate(polled)
        ]
        self.expect.context.sink.attach("expected and observed", message.table(rows))
        last = polled.settled.last
        dead = [index for index in range(count, connect) if not as_wanted(last[index], True)]
        unreached = [
            index for index in range(connect, len(last)) if last[index].verdict not in REACHED
        ]
        for index in (dead or unreached)[:1]:
            lines = {
                "do": "see CONN-3 for pods of one node; where nodes do not reach each other, look at the underlay"
            }
            who = "pods inside one node" if dead else "nodes"
            told = polled.message(
                index,
                "CONNECTED" if dead else "an answer",
                lines,
                so=f"{who} do not reach each other, so {self.by.name} cannot be judged",
            )
            raise ControlBroken(
                message.of_control(told),
                control=polled.attempts[index].label,
                seen=polled.seen(index),
            )

    def _explanations(self, polled: Polled, between: Sequence[Pair]) -> dict[int, Blamed]:
        """Return what explains each dead path between nodes, by its place.

        Where none is dead any more, the first path stands for them.
        """
        last = polled.settled.last
        places = range(len(between))
        dead = [index for index in places if not as_wanted(last[index], True)] or [0]
        found = {index: self._otherwise(*between[index], last[index]) for index in dead}
        blank = {index: _nodes(*between[index]) for index in dead if not found[index].wrong}
        passing = self._passing(polled, between, set(blank.values()))
        return found | {index: passing[nodes] for index, nodes in blank.items() if nodes in passing}

    def _decide_each(
        self, polled: Polled, between: Sequence[Pair], found: Mapping[int, Blamed]
    ) -> None:
        """Decide each path between nodes once some are dead; ``found``: what explains these."""
        for index, (source, target) in enumerate(between):
            last = polled.settled.last[index]
            names: Sequence[str] = ()
            reason = with_who(polled.because, [last])
            if index in found:
                names = found[index].wrong
                why = f": {names[0]}" if names else ""
                reason = f"{polled.attempts[index].label}  {last.verdict}{why}"
            self.expect.context.decided(
                source, target, of_demand(met=index not in found, explained=bool(names)), reason
            )

    def _failure(
        self, polled: Polled, found: Mapping[int, Blamed], beside: str
    ) -> Unmet | ControlBroken:
        """Return that the overlay is blocked, or what else explains every dead path."""
        unexplained = [index for index, blame in found.items() if not blame.wrong]
        if unexplained:
            return self._blocked(polled, unexplained[0], found, beside)
        return self._explained(polled, next(iter(found)), found, beside)

    def _passing(
        self, polled: Polled, between: Sequence[Pair], blank: set[frozenset[str]]
    ) -> dict[frozenset[str], Blamed]:
        """What passes between pairs of nodes (``blank``) between which paths are dead, and nothing says why."""
        pods = {
            pod.uid: pod for source, target in between for pod in (source, *target.backends)
        }.values()
        attempts = [
            replace(self.expect.attempt(source, goal), kind=plain(goal))
            for source in pods
            for server in pods
            if frozenset((source.node, server.node)) in blank
            for goal in (server.tcp(between[0][1].port), server.udp(between[0][1].port))
        ]
        seen = [one for index in range(len(between)) for one in polled.seen(index)]
        for _ in range(polled.agree if attempts else 0):
            seen += self.expect.prober.observe(attempts)
        found: dict[frozenset[str], Blamed] = {}
        for one in seen:
            if one.verdict in ARRIVED and one.attempt.target and not unexpected_backend(one):
                told = f"{one.attempt.label} was {one.verdict}: this overlay passes"
                found.setdefault(_nodes(one.attempt.source, one.attempt.target), Blamed((told,)))
        return found

    def _blocked(
        self, polled: Polled, index: int, found: Mapping[int, Blamed], beside: str
    ) -> Unmet:
        """Nothing but UDP 4789 is left to explain why this path is dead."""
        names = [name for blame in found.values() for name in blame.wrong]
        lines = {
            "beside": beside,
            "routes": found[index].unread or self.by.whole,
        }
        lines |= (
            {"also": f"other routes do not connect for another reason: {names[0]}"} if names else {}
        )
        lines["do"] = self.by.do
        told = polled.message(index, "CONNECTED", lines)
        unread = found[index].unread.partition(": ")[0]
        why = (
            "probably does not pass between the nodes; " + unread
            if unread
            else "does not pass between the nodes"
        )
        return Unmet(replace(told, so=f"{self.by.blamed} {why}"), seen=polled.seen(index))

    def _explained(
        self, polled: Polled, index: int, found: Mapping[int, Blamed], beside: str
    ) -> ControlBroken:
        """Every dead path is explained by what its nodes have for each other."""
        first, *others = dict.fromkeys(name for blame in found.values() for name in blame.wrong)
        lines = {"beside": beside} | ({"also": "; ".join(others[:3])} if others else {})
        lines["do"] = (
            f"see {self.by.see}; compare that node's routes with the projectcalico.org annotations of "
            "both nodes; then restart calico-node there (on Windows that resets its pods' connections)"
        )
        told = replace(
            polled.message(index, "CONNECTED", lines),
            so=f"{first}, so that {self.by.blamed.partition(' (')[0]} cannot be judged",
        )
        return ControlBroken(message.of_control(told), control=first, seen=polled.seen(index))

    def _otherwise(self, source: Workload, target: Target, last: Observation) -> Blamed:
        """What explains a dead path: another pod that answers in the server's place, else what the nodes have."""
        found = blamed(self.entries, source, target)
        if by := lost_by(self.expect.context.world.runs, last.attempt, [last]):
            return Blamed((by, *found.wrong), found.unread)
        if other := unexpected_backend(last):
            return Blamed(
                (f"{other} answers in the place of the server", *found.wrong), found.unread
            )
        return found


@dataclass
class Fabric(Overlay):
    """Expectations of one test about what lies between nodes and carries pods without an overlay."""

    by: Carrier = ADDRESSES


class Unread:
    """What nodes have for each other's pods where nothing here reads it: what does not pass is probably to blame."""

    def deviations(self, node: str, toward: str) -> Mapping[str, Fact[str]]:
        raise MissingCapability(f"flannel has laid them, for node {toward}", "ip route")


@dataclass
class FlannelFabric(Fabric):
    """The same where flannel lays the routes."""

    entries: Entries = field(default_factory=Unread)


def _nodes(source: Workload, target: Target) -> frozenset[str]:
    """The nodes of a path's ends."""
    return frozenset((source.node, *(server.node for server in target.backends)))
