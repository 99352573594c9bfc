"""The pods in the story of a changed VNI, and new ones that are networked in the middle of it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from conformance.expect.routes import Route
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Workload
from conformance.pods.deploy import Pods, Wish
from conformance.pods.placement import Placement

PORT = 8080
"""Echo of every server in the story."""


@dataclass(frozen=True, kw_only=True)
class Parties:
    """Pods as they are now; after a drain they are others."""

    linux_client: Workload
    linux_server: Workload
    linux_elsewhere: Workload
    """On another node than the client, where there are two."""
    windows_client: Workload
    windows_server: Workload
    """On the client's node."""
    windows_elsewhere: Workload | None
    """On another node; None where there is one only."""

    @property
    def between(self) -> list[Route]:
        """From Linux to Windows, and back."""
        return [
            (self.linux_client, self.windows_server.tcp(PORT)),
            (self.windows_client, self.linux_server.tcp(PORT)),
        ]

    @property
    def among(self) -> list[Route]:
        """From Linux to Linux, and inside the Windows node."""
        return [
            (self.linux_client, self.linux_elsewhere.tcp(PORT)),
            (self.windows_client, self.windows_server.tcp(PORT)),
        ]

    @property
    def across(self) -> list[Route]:
        """From Windows to Windows across nodes."""
        there = self.windows_elsewhere
        return [(self.windows_client, there.tcp(PORT))] if there else []

    @property
    def linux_nodes(self) -> list[str]:
        """Linux nodes in the story."""
        return sorted({self.linux_client.node, self.linux_server.node, self.linux_elsewhere.node})


def parties(deployer: Pods, placement: Placement) -> Parties:
    """The pods of the story as they are now: those of the worker's cast, found again after a drain."""
    linux, windows = placement.usable("linux"), placement.usable("windows")
    wishes = [
        Wish(role=f"{os}-{kind}", node=nodes[0])
        for os, nodes in (("linux", linux), ("windows", windows))
        for kind in ("client", "server")
    ]
    wishes += [Wish(role="linux-peer", node=linux[1])] if len(linux) > 1 else []
    wishes += [Wish(role="windows-peer", node=windows[1])] if len(windows) > 1 else []
    found = deployer.deploy(wishes)
    return Parties(
        linux_client=found["linux-client"],
        linux_server=found["linux-server"],
        linux_elsewhere=found.get("linux-peer", found["linux-server"]),
        windows_client=found["windows-client"],
        windows_server=found["windows-server"],
        windows_elsewhere=found.get("windows-peer"),
    )


class Newcomers:
    """New pods on every Windows node, networked while something holds; removed again."""

    _numbers = itertools.count(1)

    def __init__(self, deployer: Pods, placement: Placement) -> None:
        self._deployer, self._placement = deployer, placement
        self._made: list[str] = []

    def arrive(self) -> None:
        """Have one networked on each node.  Raises EnvironmentBroken as deploying does."""
        wishes = [
            Wish(role="windows-peer", node=node, name=f"windows-newcomer-{next(self._numbers)}")
            for node in self._placement.usable("windows")
        ]
        self._made += [one.called for one in wishes]
        self._deployer.deploy(wishes)

    def leave(self) -> None:
        """Remove them."""
        for name in self._made:
            target = ObjectRef(api_version="apps/v1", kind="Deployment", name=name, namespace=self._deployer.namespace)
            self._deployer.changes.delete(target, "its test is over")
        self._made.clear()
