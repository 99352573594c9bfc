# SPDX-License-Identifier: Apache-2.0
"""Whom servers in nodes' own network see of Windows pods, on a port that is free there: the node, or the pod."""

from collections.abc import Mapping
from dataclasses import dataclass

from conformance.errors import ControlBroken, MissingCapability, Nonconformance, first_line
from conformance.expect.check import Judged, Ruling, check
from conformance.expect.subjects.ping import asked_for
from conformance.expect.subjects.streams import StreamExpect
from conformance.model.claim import ClaimVerdict
from conformance.model.explanation import Explanation
from conformance.model.facts import Fact
from conformance.model.stream import StreamState
from conformance.pods.groups import PodPairs
from conformance.probe.streams import Stream


@dataclass
class HostSubnet:
    """Expectations of one test."""

    streams: StreamExpect

    def is_natted(
        self, ways: PodPairs, pools: Mapping[str, Fact[str]], *, beside: PodPairs, because: str
    ) -> None:
        """Servers in nodes' network see the nodes of these clients; where one sees the pod, the claim is LIFTED.

        Raises MissingCapability where they do not hear the clients ``beside`` either, as behind a firewall, or one of
        the ``pools`` has no natOutgoing; Nonconformance where one sees a third address, ControlBroken where a client is
        not heard.
        """
        asked_for(pools)
        try:
            self.streams.open(*beside)
        except ControlBroken as broken:
            what = f"no free port of a node takes connections of Linux pods: {first_line(broken)}"
            do = "let nodes' firewalls pass TCP to high ports from pods and nodes"
            raise MissingCapability(what, do) from broken
        opened = self.streams.open(*ways)
        states = self.streams.streams.look(opened)
        context = self.streams.expect.context

        def judge(case: tuple[Stream, StreamState]) -> Judged:
            stream, state = case
            client = stream.client
            seen = state.server.remote.rpartition(":")[0]
            path = f"{client.label} -> {stream.target.label}"
            if seen == client.node_address:
                return because
            if seen == client.address:
                return Ruling(
                    f"{path}: the server saw the pod's own address {seen}, although {because}",
                    ClaimVerdict.LIFTED,
                )
            do = (
                f"compare the OutBoundNAT policy of the pod's endpoint on node {client.node}, "
                "and see NAT-2"
            )
            return Nonconformance(
                Explanation(
                    claims=context.claims,
                    path=path,
                    where=f"{client.node} to a node's own port",
                    expected=f"source {client.node_address} (its node)",
                    observed=f"source {seen}",
                    lines={"because": because, "do": do},
                )
            )

        cases = [
            (stream.client, stream.target, (stream, state))
            for stream, state in zip(opened, states, strict=True)
        ]
        check(context, "open", cases, judge)
