# SPDX-License-Identifier: Apache-2.0
"""The pods of the demo: the pods between which the change of a VNI is observed, and the pods that
are created during the change."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.model.change import ObjectRef
from conformance.model.endpoint import SYSTEMS, Pair, Workload
from conformance.pods.deploy import Pods, Wish
from conformance.pods.groups import Group
from conformance.pods.placement import Placement

PORT = 8080
"""The echo port of every server."""


@dataclass(frozen=True, kw_only=True)
class DemoPods:
    """The pods of the demo as they are now. After a drain, other pods replace them."""

    linux_clients: Group
    linux_servers: Group
    windows_clients: Group
    windows_servers: Group
    seats: Mapping[str, str] = field(default_factory=dict)
    """The name of each pod's Deployment, by the pod's uid."""

    def seat_of(self, workload: Workload) -> str:
        return self.seats[workload.uid]

    @property
    def between(self) -> list[Pair]:
        return [
            *self.linux_clients.to(self.windows_servers).tcp(PORT),
            *self.windows_clients.to(self.linux_servers).tcp(PORT),
        ]

    @property
    def among(self) -> list[Pair]:
        """Return the pairs of Linux pods, and the pairs of Windows pods on the same node."""
        within = self.windows_clients.beside(self.windows_servers)
        return [*self.linux_clients.to(self.linux_servers).tcp(PORT), *within.tcp(PORT)]

    @property
    def across(self) -> list[Pair]:
        pairs = self.windows_clients.to(self.windows_servers)
        return [
            (workload, goal.tcp(PORT)) for workload, goal in pairs if workload.node != goal.node
        ]

    @property
    def linux_nodes(self) -> list[str]:
        return sorted(
            {linux_client.node for linux_client in (*self.linux_clients, *self.linux_servers)}
        )


def demo_pods(deployer: Pods, placement: Placement) -> DemoPods:
    """Return the pods that the worker's tests share, as they are now. Call this again after a
    drain, which moves pods."""
    wishes = [
        Wish(role=f"{os}-{kind}", node=node, name=f"{os}-{kind}-{placement.number(node.name)}")
        for os in SYSTEMS
        for kind in ("client", "server")
        for node in placement.covered(os)
    ]
    found = deployer.deploy(wishes)

    def group(role: str) -> Group:
        return Group(found[wish.called] for wish in wishes if wish.role == role)

    return DemoPods(
        linux_clients=group("linux-client"),
        linux_servers=group("linux-server"),
        windows_clients=group("windows-client"),
        windows_servers=group("windows-server"),
        seats={workload.uid: name for name, workload in found.items()},
    )


class NewDeployments:
    """New pods on every Windows node. They get their network while a change is in force, and are
    removed afterwards."""

    _numbers = itertools.count(1)

    def __init__(self, deployer: Pods, placement: Placement) -> None:
        self._deployer = deployer
        self._placement = placement
        self._made: list[str] = []

    def create(self) -> None:
        """Create a new pod on each covered Windows node. Raise the EnvironmentBroken of the
        deployment."""
        wishes = [
            Wish(role="windows-client", node=node, name=f"windows-new-pod-{next(self._numbers)}")
            for node in self._placement.covered("windows")
        ]
        self._made += [wish.called for wish in wishes]
        self._deployer.deploy(wishes)

    def remove(self) -> None:
        for name in self._made:
            target = ObjectRef(
                api_version="apps/v1",
                kind="Deployment",
                name=name,
                namespace=self._deployer.namespace,
            )
            self._deployer.changes.delete(target, "its test is over")
        self._made.clear()
