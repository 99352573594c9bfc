# SPDX-License-Identifier: Apache-2.0
"""Expectations about the overlay between nodes. If no packet passes, they find the cause: the
network of the nodes, or the overlay.

Paths within a node and the nodes' own addresses are controls. The entries of each node for the
other node's pods (route, forwarding, VNI) are controls, too. UDP 4789 is to blame only if all
controls are sound and nothing passes between two nodes: neither a datagram nor a connection of any
pod, in either direction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import ControlBroken, MissingCapability, Unmet, UsageProblem
from conformance.expect.case import Row, rows_of
from conformance.expect.engine.answered import (
    UNTOLD,
    as_wanted,
    unexpected_backend,
    with_who,
)
from conformance.expect.explain import message
from conformance.expect.explain.between_nodes import Blamed, Entries, blamed
from conformance.expect.owners import lost_by
from conformance.expect.poll import Polled, poll
from conformance.expect.traffic import Expect
from conformance.model.attempt import plain
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Addressing, Pair, Target, Workload
from conformance.model.facts import Fact
from conformance.model.observation import ARRIVED, Observation, Verdict
from conformance.verdicts.meaning import of_demand

KUBELET = 10250
"""The port of every node's kubelet. A refusal counts like a connection: both are answers of the
node."""
REACHED = frozenset({Verdict.CONNECTED, Verdict.REFUSED, Verdict.RESET})


@dataclass(frozen=True)
class Carrier:
    """The name of the network between nodes in messages, and the advice about it."""

    name: str
    blamed: str
    """The likely cause if all entries are right, but packets do not pass between the nodes."""
    whole: str
    """The text of messages if all entries on both nodes are right."""
    do: str
    see: str
    """The claims about the entries that nodes have for each other's pods."""


VXLAN = Carrier(
    name="the overlay",
    blamed="UDP 4789 (VXLAN)",
    whole="route, forwarding entry and VNI are right on both nodes",
    do="UDP 4789 is blocked between the nodes, or not answered: open it in firewalls and "
    "security groups, in both directions; "
    "on Windows: Get-NetFirewallRule -Name OverlayTraffic4789UDP",
    see="CONN-3, VXLAN-2 and VXLAN-9",
)
ADDRESSES = Carrier(
    name="the fabric",
    blamed="traffic with a pod's address",
    whole="session and route are right on both nodes",
    do="turn the source/destination check off on the nodes' interfaces, and let security groups pass pods' networks",
    see="CONN-3, BGP-1 and BGP-3",
)


@dataclass
class Overlay:
    """The expectations of a test about the network that carries pods' packets between nodes."""

    expect: Expect
    entries: Entries
    by: Carrier = VXLAN

    def passes(self, *rows: Row, node: Workload) -> list[Observation]:
        """Expect every path between nodes to connect.

        The paths of ``witness`` rows are inside a node; ``node`` is a pod in a node's network that
        connects to each target's node. Both are controls. Raise Unmet if only UDP 4789 can be to
        blame. Raise ControlBroken if the controls are broken, or if nodes' entries that are not as
        announced explain every dead path; the message then begins with these entries.
        """
        expect = self.expect
        paths = rows_of(rows)
        between = [pair for pair, row in paths.items() if not row.witness]
        within = [pair for pair, row in paths.items() if row.witness]
        if not between:
            raise UsageProblem(
                "overlay.passes(...): name a case between nodes in addition to the witnesses"
            )
        because = paths[between[0]].because
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
            lambda observations: all(
                as_wanted(observation, True) for observation in observations[:count]
            ),
            because=because,
        )
        last = polled.settled.last
        if polled.converged:
            for index, (source, target) in enumerate(between):
                expect.context.decided(
                    source,
                    target,
                    ClaimVerdict.CONFIRMED,
                    with_who(because, polled.observations(index)[-polled.agree :]),
                )
            return list(last[:count])
        self._demand_controls(polled, count, count + len(within))
        found = self._explanations(polled, between)
        self._decide_each(polled, between, found)
        raise self._failure(
            polled,
            found,
            f"{len(found)} of {count} paths between nodes do not connect; paths within a node "
            "connect, and "
            f"{node.node} reaches {', '.join(addresses)} ({UNTOLD} there)",
        )

    def _demand_controls(self, polled: Polled, count: int, connect: int) -> None:
        """Raise ControlBroken if a path inside a node is dead, or a node cannot be reached.
        ``polled`` has paths between nodes (the first ``count`` paths), then paths inside a node (up
        to path ``connect``), and then paths to nodes."""
        rows = [
            (
                attempt.label,
                "CONNECTED" if index < connect else "an answer",
                message.summary(observations),
                observations[-1].verdict in REACHED
                if index >= connect
                else as_wanted(observations[-1], True),
            )
            for index, (attempt, observations) in enumerate(polled)
        ]
        self.expect.context.sink.attach("expected and observed", message.table(rows))
        last = polled.settled.last
        dead = [index for index in range(count, connect) if not as_wanted(last[index], True)]
        unreached = [
            index for index in range(connect, len(last)) if last[index].verdict not in REACHED
        ]
        for index in (dead or unreached)[:1]:
            lines = {
                "do": "see CONN-3 for pods of one node; if nodes do not reach each other, look "
                "at the underlay"
            }
            who = "pods inside one node" if dead else "nodes"
            text = polled.message(
                index,
                "CONNECTED" if dead else "an answer",
                lines,
                so=f"{who} do not reach each other, so {self.by.name} cannot be judged",
            )
            raise ControlBroken(
                message.of_control(text),
                control=polled.attempts[index].label,
                observations=polled.observations(index),
            )

    def _explanations(self, polled: Polled, between: Sequence[Pair]) -> dict[int, Blamed]:
        """Return the explanation of each dead path between nodes, by the path's index. If no path
        is dead any more, return the explanation of the first path."""
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
        """Decide each path between nodes. ``found``: the explanations of dead paths, by the path's
        index."""
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
        """Return the error that the overlay is blocked. If other causes explain all dead paths,
        return the error with these causes."""
        unexplained = [index for index, blame in found.items() if not blame.wrong]
        if unexplained:
            return self._blocked(polled, unexplained[0], found, beside)
        return self._explained(polled, next(iter(found)), found, beside)

    def _passing(
        self, polled: Polled, between: Sequence[Pair], blank: set[frozenset[str]]
    ) -> dict[frozenset[str], Blamed]:
        """Return an attempt that passes for each of these pairs of nodes, if there is such an
        attempt.

        ``blank``: pairs of nodes whose paths are dead without a known cause.
        """
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
        observations = [
            observation
            for index in range(len(between))
            for observation in polled.observations(index)
        ]
        for _ in range(polled.agree if attempts else 0):
            observations += self.expect.prober.observe(attempts)
        found: dict[frozenset[str], Blamed] = {}
        for observation in observations:
            if (
                observation.verdict in ARRIVED
                and observation.attempt.target
                and not unexpected_backend(observation)
            ):
                text = (
                    f"{observation.attempt.label} was {observation.verdict}: this overlay "
                    "passes packets"
                )
                found.setdefault(
                    _nodes(observation.attempt.source, observation.attempt.target), Blamed((text,))
                )
        return found

    def _blocked(
        self, polled: Polled, index: int, found: Mapping[int, Blamed], beside: str
    ) -> Unmet:
        """Return the error that names :attr:`Carrier.blamed` as the only remaining cause of this
        dead path."""
        names = [name for blame in found.values() for name in blame.wrong]
        lines = {
            "beside": beside,
            "routes": found[index].unread or self.by.whole,
        }
        lines |= (
            {"also": f"other paths do not connect for another reason: {names[0]}"} if names else {}
        )
        lines["do"] = self.by.do
        text = polled.message(index, "CONNECTED", lines)
        unread = found[index].unread.partition(": ")[0]
        why = (
            "probably does not pass between the nodes; " + unread
            if unread
            else "does not pass between the nodes"
        )
        return Unmet(
            replace(text, so=f"{self.by.blamed} {why}"), observations=polled.observations(index)
        )

    def _explained(
        self, polled: Polled, index: int, found: Mapping[int, Blamed], beside: str
    ) -> ControlBroken:
        """Return the error for dead paths that their nodes' entries explain."""
        first, *others = dict.fromkeys(name for blame in found.values() for name in blame.wrong)
        lines = {"beside": beside} | ({"also": "; ".join(others[:3])} if others else {})
        lines["do"] = (
            f"see {self.by.see}; compare that node's routes with the projectcalico.org annotations of "
            "both nodes; then restart calico-node there (on Windows this resets its pods' "
            "connections)"
        )
        explanation = replace(
            polled.message(index, "CONNECTED", lines),
            so=f"{first}, so {self.by.blamed.partition(' (')[0]} cannot be judged",
        )
        return ControlBroken(
            message.of_control(explanation), control=first, observations=polled.observations(index)
        )

    def _otherwise(self, source: Workload, target: Target, last: Observation) -> Blamed:
        """Return the explanation of a dead path: a change by another run, an answer by another pod,
        or wrong entries of the nodes."""
        found = blamed(self.entries, source, target)
        if by := lost_by(self.expect.context.world.runs, last.attempt, [last]):
            return Blamed((by, *found.wrong), found.unread)
        if other := unexpected_backend(last):
            return Blamed((f"{other} answers in place of the server", *found.wrong), found.unread)
        return found


@dataclass
class Fabric(Overlay):
    """The expectations of a test about the network that carries pods' packets without an
    overlay."""

    by: Carrier = ADDRESSES


class Unread:
    """A stand-in for entries that cannot be read on this cluster. Without entries, the nodes'
    network is the likely cause."""

    def deviations(self, node: str, toward: str) -> Mapping[str, Fact[str]]:
        raise MissingCapability(f"flannel programs the routes to node {toward}", "ip route")


@dataclass
class FlannelFabric(Fabric):
    """The expectations of :class:`Fabric` if flannel programs the routes."""

    entries: Entries = field(default_factory=Unread)


def _nodes(source: Workload, target: Target) -> frozenset[str]:
    """Return the nodes of a path's ends."""
    return frozenset((source.node, *(server.node for server in target.backends)))
