"""Who plays which part in tests about streams: four pods of the demo, so that one node of each system is enough.

The watched stream is between two of them; beside it is one between Linux pods.  A guest is let in, or let be called, by
what the test changes: that is seen at every pod which the policy concerns and which counts, the subjects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from conformance.model.endpoint import OS, Target, Workload
from conformance.pods.cast import Cast
from conformance.pods.roles import ECHO_PORT


@dataclass(frozen=True, kw_only=True)
class Way:
    """One of the two ways in which a policy can concern the scene's pods."""

    guest: Workload
    welcome: str
    """The guest's ``app`` label, for policies."""
    selects: Mapping[str, str]
    """Placeholders of the policy's manifest: ``app`` labels of those it selects."""
    routes: tuple[tuple[Workload, Target], ...]
    """Between the guest and each subject: what the change opens."""

    @property
    def targets(self) -> list[Target]:
        """Those routes' targets."""
        return [target for _, target in self.routes]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One direction's pods."""

    stream: tuple[Workload, Workload]
    """From whom to whom the watched stream goes."""
    beside: tuple[Workload, Workload]
    """Between Linux pods."""
    windows: tuple[Workload, ...]
    """The Windows pods among the watched."""
    ways: Mapping[str, Way]
    """``ingress``, ``egress``."""

    @property
    def ingress(self) -> Way:
        """The policy says who enters."""
        return self.ways["ingress"]


def scene_of(cast: Cast, client_os: OS, server_os: OS, node: str = "") -> Scene:
    """The pods of one direction; Windows pods on ``node`` if it is named.  Raises as :class:`Cast` does."""
    linux = cast.of("linux-client", "linux-server")
    roles = ("windows-client", "windows-server")
    windows = cast.at(node, *roles) if node else cast.of(*roles)
    client = windows[0] if client_os == "windows" else linux[0]
    server = windows[1] if server_os == "windows" else linux[1]
    watched = tuple(one for one in (client, server) if one.os == "windows")
    names = {"client_app": cast.name_of(client), "server_app": cast.name_of(server)}
    entries = tuple((linux[0], one.tcp(ECHO_PORT)) for one in (*watched, linux[1]))
    calls = tuple((one, linux[1].tcp(ECHO_PORT)) for one in (*watched, linux[0]))
    ways = {
        "ingress": Way(
            guest=linux[0], welcome="linux-client", selects=names | {"beside_app": "linux-server"}, routes=entries
        ),
        "egress": Way(
            guest=linux[1], welcome="linux-server", selects=names | {"beside_app": "linux-client"}, routes=calls
        ),
    }
    return Scene(stream=(client, server), beside=(linux[0], linux[1]), windows=watched, ways=ways)
