# SPDX-License-Identifier: Apache-2.0
"""Which pods of the demo take part in tests about streams, so that one node of each operating system is enough.

The watched streams, one on each covered Windows node, are between them; beside them is one between Linux pods.  The
test's change lets a guest connect to the pods that the policy selects, or be connected to by them; that is observed at
each of those pods that counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.model.endpoint import OS, Pair, Target, Workload
from conformance.pods.groups import Group, PodPair, PodPairs
from conformance.pods.roles import ECHO_PORT
from conformance.pods.worker_pods import WorkerPods


@dataclass(frozen=True, kw_only=True)
class Way:
    """One of the two ways in which a policy can concern the topology's pods."""

    guest: Workload
    selects: Mapping[str, str]
    """Placeholders of the policy's manifest: ``app`` labels of those it selects."""
    pairs: tuple[Pair, ...]
    """Between the guest and each subject: what the change opens."""

    @property
    def guest_label(self) -> str:
        """The guest's ``app`` label, for policies."""
        return self.guest.role

    def to(self, others: Group) -> list[Pair]:
        return Group([self.guest]).to(others).tcp(ECHO_PORT)

    @property
    def targets(self) -> list[Target]:
        return [target for _, target in self.pairs]


@dataclass(frozen=True, kw_only=True)
class ResetTopology:
    """The pods of one direction, or of all."""

    streams: PodPairs
    """Client and server of each watched stream, one of each direction on each Windows node."""
    beside: PodPair
    """Between Linux pods."""
    windows: Group
    """The Windows pods among the watched."""
    ways: Mapping[str, Way]
    """``ingress``, ``egress``."""

    @property
    def windows_nodes(self) -> tuple[str, ...]:
        """The nodes of the watched Windows pods, each once."""
        return tuple(dict.fromkeys(workload.node for workload in self.windows))

    @property
    def ingress(self) -> Way:
        """The policy says who enters."""
        return self.ways["ingress"]


def reset_topology_of(worker_pods: WorkerPods, client_os: OS, server_os: OS) -> ResetTopology:
    """Return the pods of one direction.  Raises as ``WorkerPods`` does."""
    linux = worker_pods.get("linux-client", "linux-server")
    clients = worker_pods.clients("windows") if client_os == "windows" else Group(linux[:1])
    servers = worker_pods.servers("windows") if server_os == "windows" else Group(linux[1:])
    streams = clients.beside(servers) if client_os == server_os else clients.to(servers)
    return _topology(linux, clients, servers, streams)


def reset_topology_on(worker_pods: WorkerPods, *nodes: str) -> ResetTopology:
    """Return the pods of the three directions with a Windows end, the Windows pods on these nodes.

    Raises as ``WorkerPods`` does.
    """
    linux = worker_pods.get("linux-client", "linux-server")
    clients = worker_pods.clients("windows").at(*nodes)
    servers = worker_pods.servers("windows").at(*nodes)
    streams = PodPairs(
        (*Group(linux[:1]).to(servers), *clients.to(linux[1:]), *clients.beside(servers))
    )
    return _topology(linux, clients, servers, streams)


def _topology(
    linux: Sequence[Workload], clients: Group, servers: Group, streams: PodPairs
) -> ResetTopology:
    """Return the topology of these streams; ``linux``: the client and the server beside them."""
    client, server = linux
    watched = Group(
        {pod.uid: pod for pair in streams for pod in pair if pod.os == "windows"}.values()
    )
    names = {"client_app": clients.first.role, "server_app": servers.first.role}
    entries = tuple((client, item.tcp(ECHO_PORT)) for item in (*watched, server))
    calls = tuple((item, server.tcp(ECHO_PORT)) for item in (*watched, client))
    ways = {
        "ingress": Way(guest=client, selects=names | {"beside_app": server.role}, pairs=entries),
        "egress": Way(guest=server, selects=names | {"beside_app": client.role}, pairs=calls),
    }
    return ResetTopology(streams=streams, beside=(client, server), windows=watched, ways=ways)
