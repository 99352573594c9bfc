# SPDX-License-Identifier: Apache-2.0
"""Whom a server sees when a Windows pod comes by ClusterIP, and what a policy that names that pod makes of it.

Without direct server return kube-proxy rewrites the source: in an overlay to its ``--source-vip``, which on Calico is
the third address of the node's block (the one after the overlay's own), for backends that are pods, and to the node's
address for backends that are not; without an overlay (l2bridge) to the node's address always (kubernetes#83072,
KEP-5100).  A policy's source selector then does not match.  With direct server return the pod's address is kept.

Without an overlay Felix lets the node's address into its own pods before any policy, so that a backend on the client's
node is open to everybody there: another claim's matter (:mod:`.own_node`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import ControlBroken, Nonconformance, NotAboutThisCluster
from conformance.expect.addresses import Addresses
from conformance.expect.explain import message
from conformance.expect.subject import Subject
from conformance.expect.subjects.windows_nodes import WindowsNodes
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.facts import Facts
from conformance.model.observation import Observation
from conformance.pods.groups import PodPair, PodPairs
from conformance.pods.roles import ECHO_PORT

OWN_NODE = "XSVC-5"
"""The claim about backends on the client's own node without an overlay."""


@dataclass
class ServiceSource(Subject):
    """Clients' paths to servers through a Service of each, before and under a policy that admits these clients alone.

    ``stranger`` is another client, which the policy does not admit; ``service`` gives a server's ClusterIP.
    """

    facts: Facts
    pod_pairs: PodPairs
    stranger: Workload
    service: Callable[[Workload], Target]
    nodes: WindowsNodes
    """What is known of the clients' nodes; pairs whose client is on one of its ``undecided`` are not judged."""
    _kept: list[PodPair] = field(default_factory=list)
    """Pairs whose server saw the client's own address by ClusterIP."""

    # --- what tests say -----------------------------------------------------------------------------------------------

    def is_kept(self, *, because: str) -> None:
        """By ClusterIP as by its own address each server sees the client's pod address, of datagrams too.

        Where nobody knows whether it has to, what was seen is said and nothing decided; MissingCapability when that
        is everywhere.
        """
        seen = self._known(self._seen(because))
        self._judge(seen, lambda client, server: (client.address,), because)
        datagrams = PodPairs(seen).through(
            lambda server: replace(self.service(server), protocol="udp")
        )
        told = self.expect.told(datagrams, because=because)
        seen = {pods: told[pair] for pods, pair in zip(seen, datagrams, strict=True)}
        self._judge(seen, lambda client, server: (client.address,), because)
        self._kept = list(self.pod_pairs)

    def is_rewritten(self, *, because: str) -> None:
        """By ClusterIP each server sees the one address that this mode gives, or the limitation is gone there.

        Any third address, and now this and now that one, is a Nonconformance; that it is gone is said only once a
        policy admitted the client.  Where nobody knows whether it has to be so: as :meth:`is_kept`.
        """
        seen = self._known(self._seen(because))
        self._kept = [pair for pair, told in seen.items() if _addresses(told) == {pair[0].address}]
        others = {pair: told for pair, told in seen.items() if pair not in self._kept}
        addresses = Addresses(self.facts, self.nodes.source_vip)
        self._judge(others, addresses.through_service, because)
        own = [pair for pair in others if as_its_node(addresses, *pair)]
        self.pod_pairs = PodPairs(pair for pair in self.pod_pairs if pair not in own)
        if own and not self.pod_pairs:
            raise NotAboutThisCluster(
                f"node {own[0][0].node} has no overlay ({addresses.plane(own[0][0].node).source}), so that its clients "
                f"come to backends there with its address, which policies let in: see {OWN_NODE}"
            )

    def admits_by_address_alone(self, *, because: str) -> None:
        """Under the policy clients get in by pod address and not by ClusterIP, a stranger not at all.

        A client whose source was kept has to get in by ClusterIP too, and there the claim is LIFTED.
        """
        hidden = PodPairs(pair for pair in self.pod_pairs if pair not in self._kept)
        kept = PodPairs(self._kept)
        opened = [*self.pod_pairs.tcp(ECHO_PORT), *kept.through(self.service), *self._beside]
        self.expect.matrix(
            open=[opened],
            closed=[[*hidden.through(self.service), *self._strangers(direct=True)]],
            because=because,
        )
        for client, target in kept.through(self.service):
            told = (
                f"{client.label} -> {target.label}: the server saw the pod's own address {client.address}, and a "
                "policy that allows only this pod let it in"
            )
            self.expect.context.decided(client, target, ClaimVerdict.LIFTED, told)
        self._lift_beside(hidden, kept)

    def admits_everywhere(self, *, because: str) -> None:
        """Under the policy clients get in by pod address and by ClusterIP, a stranger by neither."""
        opened = [
            *self.pod_pairs.tcp(ECHO_PORT),
            *self.pod_pairs.through(self.service),
            *self._beside,
        ]
        self.expect.matrix(
            open=[opened],
            closed=[[*self._strangers(direct=True), *self._strangers(direct=False)]],
            because=because,
        )

    # --- how ----------------------------------------------------------------------------------------------------------

    def _lift_beside(self, hidden: PodPairs, kept: PodPairs) -> None:
        """What the stranger shows stands beside the pairs that it is a control of: alone it confirms no limitation."""
        told = "the policy was in force beside it: a stranger was kept out of the servers, and of nothing else"
        ends = {workload.uid for pair in kept for workload in pair} - {
            workload.uid for pair in hidden for workload in pair
        }
        for source, target in [*self._beside, *self._strangers(direct=True)]:
            if ends.issuperset(backend.uid for backend in target.backends):
                self.expect.context.decided(source, target, ClaimVerdict.LIFTED, told)

    @property
    def _beside(self) -> list[Pair]:
        """Where the stranger gets while it does not get to the servers: to the clients, which no policy selects."""
        return [(self.stranger, client.tcp(ECHO_PORT)) for client in self.pod_pairs.clients]

    def _strangers(self, *, direct: bool) -> list[Pair]:
        """The stranger's paths to the servers, by their addresses or by ClusterIP."""
        servers = self.pod_pairs.servers
        return [
            (self.stranger, server.tcp(ECHO_PORT) if direct else self.service(server))
            for server in servers
        ]

    def _seen(self, because: str) -> dict[PodPair, list[Observation]]:
        """Whom servers see by ClusterIP, once both paths are open and clients' addresses show by the direct one."""
        direct = self.pod_pairs.tcp(ECHO_PORT)
        self.expect.controls(
            [[*direct, *self._strangers(direct=True), *self._beside]],
            because="no policy is in force yet",
        )
        for (client, _), plain in self.expect.told(direct, because=because).items():
            if _addresses(plain) != {client.address}:
                text = message.explanation(
                    self.expect.context.claims,
                    plain[-1].attempt,
                    f"source {client.address}",
                    plain,
                    _span(plain),
                    observed=f"{_observed(plain)} by pod address",
                    so="what the server sees by ClusterIP says nothing about Services",
                    do="see NAT-1 first: what rewrites the source without a Service",
                )
                raise ControlBroken(
                    message.of_control(text), control="the source by pod address", seen=plain
                )
        through = self.pod_pairs.through(self.service)
        self.expect.reachable([*through, *self._strangers(direct=False)], because=because)
        told = self.expect.told(through, because=because)
        return {
            pod_pair: told[pair] for pod_pair, pair in zip(self.pod_pairs, through, strict=True)
        }

    def _known(self, seen: dict[PodPair, list[Observation]]) -> dict[PodPair, list[Observation]]:
        """Return the observations that can be judged; from here on the other pairs are none of this test."""
        unknown = [pair for pair in seen if pair[0].node in self.nodes.undecided]
        self.pod_pairs = PodPairs(pair for pair in self.pod_pairs if pair not in unknown)
        told = [
            (pair, f"the server saw {_observed(seen[pods])}")
            for pods, pair in zip(unknown, PodPairs(unknown).through(self.service), strict=True)
        ]
        self.nodes.leave_undecided(self.expect.context, told, nothing_else=not self.pod_pairs)
        return {pair: observations for pair, observations in seen.items() if pair in self.pod_pairs}

    def _judge(
        self,
        seen: dict[PodPair, list[Observation]],
        wanted: Callable[[Workload, Workload], tuple[str, ...]],
        because: str,
    ) -> None:
        """Each pair's server sees the one address that is wanted, of several always the same.

        Raises Nonconformance where one does not.
        """
        wrong = [
            (client, server, (client, told, several))
            for (client, server), told in seen.items()
            for several in [wanted(client, server)]
            if not any(_addresses(told) == {address} for address in several)
        ]
        self.check("open", wrong, lambda case: self._wrong(*case, because))

    def _wrong(
        self, client: Workload, seen: Sequence[Observation], wanted: Sequence[str], because: str
    ) -> Nonconformance:
        build = f"build {client.windows_build or 'unknown'}"
        flag = self.nodes.told(client.node)
        addresses = Addresses(self.facts, self.nodes.source_vip)
        observed = message.tally(
            [addresses.named(observation.seen_client, client) for observation in seen]
        )
        return Nonconformance(
            message.explanation(
                self.expect.context.claims,
                seen[-1].attempt,
                expected=f"source {' or '.join(addresses.named(one, client) for one in wanted)}",
                because=because,
                seen=seen,
                seconds=_span(seen),
                further={
                    "DSR": f"{build}, kube-proxy --enable-dsr {'unknown' if flag.value is None else flag.value} "
                    f"({flag.source})",
                    "do": f"compare Get-HnsPolicyList on node {client.node}, and kube-proxy's log there",
                },
                observed=f"source {observed}",
            ),
            seen=seen,
        )


def as_its_node(addresses: Addresses, client: Workload, server: Workload) -> bool:
    """Whether a rewritten client comes to a server as that server's own node, to which policies do not apply."""
    return client.node == server.node and addresses.plane(client.node).value == "l2bridge"


def _addresses(seen: Sequence[Observation]) -> set[str]:
    return {observation.seen_client for observation in seen}


def _observed(seen: Sequence[Observation]) -> str:
    return f"source {message.tally([observation.seen_client for observation in seen])}"


def _span(seen: Sequence[Observation]) -> float:
    """Seconds from the first question to the last answer."""
    return seen[-1].at - seen[0].at + seen[-1].seconds
