# SPDX-License-Identifier: Apache-2.0
"""The routes and addresses that faults remove, on a network whose routes Calico does not set."""

from collections.abc import Callable

from hybridlab.profiles.machines import Machine


class Missing:
    """The missing routes of a cluster, each by the id of its fault."""

    def __init__(self, words: Callable[[Machine], str]) -> None:
        """Set up the tables. ``words``: the words in which a node's plugin refuses a pod once no
        address is left."""
        self.words = words
        self.node_routes: dict[str, tuple[str, str]] = {}
        """A node, and the node to which it has no route, by the id of the fault."""
        self.fabric_routes: dict[str, str] = {}
        """The node to which the fabric has no route, by the id of the fault."""
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever routes may have to change."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Notify the listeners that routes may have to change."""
        for listener in self._listeners:
            listener()
