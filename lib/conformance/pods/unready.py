# SPDX-License-Identifier: Apache-2.0
"""Servers that run and answer, but are not ready: a Service that selects them must send them no
traffic."""

from conformance.model.endpoint import Workload
from conformance.pods.deploy import Pods, Wish, end
from conformance.pods.groups import Group
from conformance.pods.placement import Placement


class UnreadyServers:
    """The unready servers of a test; :meth:`remove` removes them."""

    def __init__(self, deployer: Pods, placement: Placement) -> None:
        self._deployer = deployer
        self._placement = placement
        self._made: list[str] = []

    def beside(self, servers: Group) -> Workload:
        """Deploy another pod of these servers' role, with their label ``app``, on the first
        server's node.

        Return once the pod's containers are ready by their probes. The pod itself is never ready,
        because of a readiness gate with a condition that is never set. Raise EnvironmentBroken if
        the containers are not ready in time.
        """
        first = servers.first
        node = next(node for node in self._placement.covered(first.os) if node.name == first.node)
        name = f"{first.role}-unready"
        self._made.append(name)
        return self._deployer.deploy_unready(
            Wish(role=first.role, node=node, name=name, never_ready=True)
        )

    def remove(self) -> None:
        end(self._deployer, *self._made)
        self._made.clear()
