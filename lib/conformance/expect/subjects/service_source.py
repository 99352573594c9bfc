# SPDX-License-Identifier: Apache-2.0
"""The source address that a server receives from a Windows pod by ClusterIP, and a policy that
selects that pod.

Without direct server return kube-proxy rewrites the source. In an overlay, for backends that are
pods, the source becomes kube-proxy's ``--source-vip``. On Calico this is the third address of the
node's block (the address after the overlay's own). For other backends, the source becomes the
node's address. Without an overlay (l2bridge) it always becomes the node's address
(kubernetes#83072, KEP-5100). A policy's source selector does not match a rewritten source. With
direct server return the pod's address is kept.

Without an overlay Felix admits the node's address to its own pods before any policy, so that a
backend on the client's node is open to every pod there; another claim covers this
(:mod:`.own_node`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import ControlBroken, Nonconformance, NotAboutThisCluster
from conformance.expect.addresses import Addresses
from conformance.expect.case import Paths
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
    """The paths from clients to servers, each through a Service, before and under a policy that
    admits only these clients.

    ``stranger`` is another client, which the policy does not admit. ``service`` returns the target
    of a server's ClusterIP.
    """

    facts: Facts
    pod_pairs: PodPairs
    stranger: Workload
    service: Callable[[Workload], Target]
    nodes: WindowsNodes
    """The clients' nodes. Pairs whose client is on an ``undecided`` node are not judged."""
    _kept: list[PodPair] = field(default_factory=list)
    """Pairs whose server received the client's own address by ClusterIP."""

    # --- for tests -----------------------------------------------------------------------------------------------

    def is_kept(self, *, because: str) -> None:
        """Expect each server to receive the client's pod address by ClusterIP, by TCP and by UDP,
        as it does at its own address.

        If it is not known whether the source must be kept, the observation is recorded and nothing
        is decided. Raise MissingCapability if this is not known for any pair.
        """
        known = self._keep_judged(self._read_sources(because))
        self._judge(known, lambda client, server: (client.address,), because)
        datagrams = PodPairs(known).through(
            lambda server: replace(self.service(server), protocol="udp")
        )
        sources = self.expect.reported_sources(datagrams, because=because)
        known = {pods: sources[pair] for pods, pair in zip(known, datagrams, strict=True)}
        self._judge(known, lambda client, server: (client.address,), because)
        self._kept = list(self.pod_pairs)

    def is_rewritten(self, *, because: str) -> None:
        """Expect each server to receive by ClusterIP the address that this mode gives; otherwise
        the limitation is gone.

        Any third address, or an address that changes, is a Nonconformance. LIFTED is decided only
        once a policy has admitted the client. If it is not known whether the source must be
        rewritten, nothing is decided, as in :meth:`is_kept`.
        """
        known = self._keep_judged(self._read_sources(because))
        self._kept = [
            pair for pair, source in known.items() if _addresses(source) == {pair[0].address}
        ]
        others = {pair: source for pair, source in known.items() if pair not in self._kept}
        addresses = Addresses(self.facts, self.nodes.source_vip)
        self._judge(others, addresses.through_service, because)
        own = [  # their rewritten source is the server's own node, which policies always admit
            (client, server)
            for client, server in others
            if client.node == server.node and addresses.plane(client.node).value == "l2bridge"
        ]
        self.pod_pairs = PodPairs(pair for pair in self.pod_pairs if pair not in own)
        if own and not self.pod_pairs:
            raise NotAboutThisCluster(
                f"node {own[0][0].node} has no overlay ({addresses.plane(own[0][0].node).source}): its clients "
                "reach backends there with the node's address, which policies always admit: see "
                f"{OWN_NODE}"
            )

    def admits_by_address_alone(self, *, because: str) -> None:
        """Expect the policy to admit clients by pod address and not by ClusterIP, and to admit the
        ``stranger`` by neither.

        A client whose source was kept must connect by ClusterIP, too; then the claim is LIFTED for
        this client.
        """
        hidden = PodPairs(pair for pair in self.pod_pairs if pair not in self._kept)
        kept = PodPairs(self._kept)
        opened = [*self.pod_pairs.tcp(ECHO_PORT), *kept.through(self.service), *self._beside]
        closed = [*hidden.through(self.service), *self._strangers(direct=True)]
        self.expect.matrix(
            Paths(opened, open=True, because=because), Paths(closed, open=False, because=because)
        )
        for client, target in kept.through(self.service):
            text = (
                f"{client.label} -> {target.label}: the server saw the pod's own address {client.address}, and a "
                "policy that allows only this pod let it in"
            )
            self.expect.context.decided(client, target, ClaimVerdict.LIFTED, text)
        self._lift_beside(hidden, kept)

    def admits_everywhere(self, *, because: str) -> None:
        """Expect clients to connect under the policy by pod address and by ClusterIP, and the
        ``stranger`` by neither of them."""
        opened = [
            *self.pod_pairs.tcp(ECHO_PORT),
            *self.pod_pairs.through(self.service),
            *self._beside,
        ]
        closed = [*self._strangers(direct=True), *self._strangers(direct=False)]
        self.expect.matrix(
            Paths(opened, open=True, because=because), Paths(closed, open=False, because=because)
        )

    # --- how ----------------------------------------------------------------------------------------------------------

    def _lift_beside(self, hidden: PodPairs, kept: PodPairs) -> None:
        """Decide LIFTED for the stranger's paths at servers whose limitation is lifted, since these
        paths alone confirm no limitation."""
        text = (
            "the policy was in force: a client that it does not admit reached no server, but "
            "all other targets"
        )
        ends = {workload.uid for pair in kept for workload in pair} - {
            workload.uid for pair in hidden for workload in pair
        }
        for source, target in [*self._beside, *self._strangers(direct=True)]:
            if ends.issuperset(backend.uid for backend in target.backends):
                self.expect.context.decided(source, target, ClaimVerdict.LIFTED, text)

    @property
    def _beside(self) -> list[Pair]:
        """Return paths on which the stranger connects while servers are closed to it: paths to
        clients, to which no policy applies."""
        return [(self.stranger, client.tcp(ECHO_PORT)) for client in self.pod_pairs.clients]

    def _strangers(self, *, direct: bool) -> list[Pair]:
        """Return the stranger's paths to the servers, by the servers' own addresses (``direct``) or
        by ClusterIP."""
        servers = self.pod_pairs.servers
        return [
            (self.stranger, server.tcp(ECHO_PORT) if direct else self.service(server))
            for server in servers
        ]

    def _read_sources(self, because: str) -> dict[PodPair, list[Observation]]:
        """Return the sources that servers receive by ClusterIP. First, expect the paths by pod
        address and by ClusterIP to be open, and the sources by pod address to be right."""
        direct = self.pod_pairs.tcp(ECHO_PORT)
        self.expect.control(
            [*direct, *self._strangers(direct=True), *self._beside],
            because="no policy is in force yet",
        )
        for (client, _), plain in self.expect.reported_sources(direct, because=because).items():
            if _addresses(plain) != {client.address}:
                text = message.explanation(
                    self.expect.context.claims,
                    plain[-1].attempt,
                    f"source {client.address}",
                    plain,
                    _span(plain),
                    observed=f"{_observed(plain)} by pod address",
                    so="so the source by ClusterIP says nothing about Services",
                    do="see NAT-1 first: the source is rewritten even without a Service",
                )
                raise ControlBroken(
                    message.of_control(text),
                    control="the source by pod address",
                    observations=plain,
                )
        through = self.pod_pairs.through(self.service)
        self.expect.reachable([*through, *self._strangers(direct=False)], because=because)
        sources = self.expect.reported_sources(through, because=because)
        return {
            pod_pair: sources[pair] for pod_pair, pair in zip(self.pod_pairs, through, strict=True)
        }

    def _keep_judged(
        self, observations: dict[PodPair, list[Observation]]
    ) -> dict[PodPair, list[Observation]]:
        """Return the observations that can be judged. Exclude the other pairs from the rest of the
        test."""
        unknown = [pair for pair in observations if pair[0].node in self.nodes.undecided]
        self.pod_pairs = PodPairs(pair for pair in self.pod_pairs if pair not in unknown)
        known = [
            (pair, f"the server saw {_observed(observations[pods])}")
            for pods, pair in zip(unknown, PodPairs(unknown).through(self.service), strict=True)
        ]
        self.nodes.leave_undecided(self.expect.context, known, nothing_else=not self.pod_pairs)
        return {pair: sources for pair, sources in observations.items() if pair in self.pod_pairs}

    def _judge(
        self,
        observations: dict[PodPair, list[Observation]],
        wanted: Callable[[Workload, Workload], tuple[str, ...]],
        because: str,
    ) -> None:
        """Expect each pair's server to receive one of the wanted addresses, the same at each
        attempt.

        Raise Nonconformance if a server does not.
        """
        wrong = [
            (client, server, (client, source, addresses))
            for (client, server), source in observations.items()
            for addresses in [wanted(client, server)]
            if not any(_addresses(source) == {address} for address in addresses)
        ]
        self.check("open", wrong, lambda case: self._wrong(*case, because))

    def _wrong(
        self,
        client: Workload,
        observations: Sequence[Observation],
        wanted: Sequence[str],
        because: str,
    ) -> Nonconformance:
        build = f"build {client.windows_build or 'unknown'}"
        flag = self.nodes.dsr_of(client.node)
        addresses = Addresses(self.facts, self.nodes.source_vip)
        observed = message.tally(
            [addresses.named(observation.seen_client, client) for observation in observations]
        )
        return Nonconformance(
            message.explanation(
                self.expect.context.claims,
                observations[-1].attempt,
                expected=f"source {' or '.join(addresses.named(address, client) for address in wanted)}",
                because=because,
                observations=observations,
                seconds=_span(observations),
                further={
                    "DSR": f"{build}, kube-proxy --enable-dsr {'unknown' if flag.value is None else flag.value} "
                    f"({flag.source})",
                    "do": f"compare Get-HnsPolicyList on node {client.node}, and kube-proxy's log there",
                },
                observed=f"source {observed}",
            ),
            observations=observations,
        )


def _addresses(observations: Sequence[Observation]) -> set[str]:
    return {observation.seen_client for observation in observations}


def _observed(observations: Sequence[Observation]) -> str:
    return f"source {message.tally([observation.seen_client for observation in observations])}"


def _span(observations: Sequence[Observation]) -> float:
    """Return the seconds from the first request to the last answer."""
    return observations[-1].at - observations[0].at + observations[-1].seconds
