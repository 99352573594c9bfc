"""Clients that come while a policy is in force: the labels that they come with decide whether its rules admit them."""

from __future__ import annotations

from conformance.model.change import ObjectRef
from conformance.pods.deploy import Pods, Wish
from conformance.pods.groups import Group
from conformance.pods.placement import Placement
from conformance.pods.relabel import GUEST


class Newcomers:
    """The newcomers of one test; :meth:`remove` takes them away again."""

    def __init__(self, deployer: Pods, placement: Placement) -> None:
        self._deployer, self._placement = deployer, placement
        self._made: list[str] = []

    def beside(self, clients: Group) -> tuple[Group, Group]:
        """A guest, with the label by which guests are known, and a stranger on each of these clients' nodes.

        They come all at once, and are of the clients' role, with its label ``app``.  Raises EnvironmentBroken when one
        is not ready in time.
        """
        nodes = {node.name: node for node in self._placement.covered(clients.first.os)}
        guests, strangers = (
            [
                Wish(
                    role=client.role,
                    node=nodes[client.node],
                    name=f"{client.role}-{kind}-{self._placement.number(client.node)}",
                    labels=labels,
                )
                for client in clients
            ]
            for kind, labels in (("guest", {GUEST: "welcome"}), ("stranger", {}))
        )
        self._made += [wish.called for wish in (*guests, *strangers)]
        there = self._deployer.deploy([*guests, *strangers])
        return Group(there[wish.called] for wish in guests), Group(there[wish.called] for wish in strangers)

    def remove(self) -> None:
        """Delete them."""
        for name in self._made:
            target = ObjectRef(api_version="apps/v1", kind="Deployment", name=name, namespace=self._deployer.namespace)
            self._deployer.changes.delete(target, "its test is over")
        self._made.clear()
