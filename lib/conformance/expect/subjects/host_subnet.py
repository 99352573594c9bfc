# SPDX-License-Identifier: Apache-2.0
"""The source address that servers in the nodes' own network (on free ports of nodes) receive from
Windows pods: the node's or the pod's."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.errors import ControlBroken, MissingCapability, Nonconformance, first_line
from conformance.expect.check import Judged, Ruling, check
from conformance.expect.explain.advice import TRANSLATES
from conformance.expect.subjects.ping import ExternalPaths, asked_for
from conformance.expect.subjects.streams import StreamExpect
from conformance.model.endpoint import Workload
from conformance.model.explanation import Explanation
from conformance.model.facts import Fact
from conformance.model.stream import StreamState
from conformance.pods.groups import PodPairs
from conformance.probe.streams import Stream
from conformance.verdicts.meaning import of_absence

NAME_TARGET = "name a host beyond the cluster, so that NAT-2 is decided: --external-target ADDRESS"


@dataclass
class HostSubnet:
    """The expectations of a test about NAT of pods' traffic to nodes' networks (natOutgoing)."""

    streams: StreamExpect
    external: ExternalPaths
    _unknown: list[str] = field(default_factory=list)
    """Observations of pods for which it is not known whether their node translates addresses."""

    def is_natted(
        self,
        ways: PodPairs,
        pools: Mapping[str, Fact[str]],
        exclusions: Fact[str],
        *,
        beside: PodPairs,
        because: str,
    ) -> None:
        """Expect servers in the nodes' network to receive the address of these clients' nodes. If
        such a server receives the pod's address, while a server outside the cluster receives the
        node's, the limitation is LIFTED.

        ``exclusions``: Felix' natOutgoingExclusions. Raise MissingCapability in three cases: the
        control clients (``beside``) cannot reach the servers either, for example because of a
        firewall; one of the ``pools`` has no natOutgoing; nothing shows whether any of these nodes
        translates addresses. Raise Nonconformance if a server receives a third address. Raise
        ControlBroken if a client does not reach a server, or if the client's traffic to a server
        outside the cluster is not translated.
        """
        asked_for(pools)
        try:
            self.streams.open(*beside)
        except ControlBroken as broken:
            what = (
                f"no free port of a node accepts connections from Linux pods: {first_line(broken)}"
            )
            do = "let nodes' firewalls pass TCP to high ports from pods and nodes"
            raise MissingCapability(what, do) from broken
        opened = self.streams.open(*ways)
        states = self.streams.streams.look(opened)
        context = self.streams.expect.context

        def judge(case: tuple[Stream, StreamState]) -> Judged:
            stream, state = case
            client = stream.client
            source = state.server.remote.rpartition(":")[0]
            path = f"{client.label} -> {stream.target.label}"
            if source == client.node_address:
                return f"{because}; natOutgoingExclusions is {exclusions.value}"
            if source == client.address:
                text = f"{path}: the server saw the pod's own address {source}"
                return self._untranslated(client, text, f"although {because}", exclusions)
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
                    observed=f"source {source}",
                    lines={"because": because, "do": do},
                )
            )

        cases = [
            (stream.client, stream.target, (stream, state))
            for stream, state in zip(opened, states, strict=True)
        ]
        check(context, "open", cases, judge)
        if len(self._unknown) == len(cases):
            raise MissingCapability(self._unknown[0], NAME_TARGET)

    def _untranslated(
        self, client: Workload, text: str, although: str, exclusions: Fact[str]
    ) -> Judged:
        """Decide about a pod whose own address a server in the nodes' network receives. Such a pod
        shows that the nodes' subnet is excluded from NAT only if the pod's traffic to a server
        outside the cluster is translated (NAT-2)."""
        beyond = self.external.source_of(client)
        if beyond == client.node_address:
            found = f"natOutgoingExclusions is {exclusions.value}, {exclusions.source}"
            return Ruling(f"{text}, {although} ({found})", of_absence(expected=True))
        if self.external.outside is None:
            why = "which shows nothing, since it is not known whether the node translates at all"
            self._unknown.append(f"{text}, {why}")
            return Ruling(self._unknown[-1], of_absence(expected=False))
        seen = f"received source {beyond}" if beyond else "received nothing from it"
        why = f"and a server beyond the cluster {seen}: see NAT-2, {TRANSLATES}"
        return ControlBroken(f"{text}, {why} of node {client.node}", control="beyond the cluster")
