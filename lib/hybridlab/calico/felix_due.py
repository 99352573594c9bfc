# SPDX-License-Identifier: Apache-2.0
"""The endpoints and IP sets that a node's Felix still has to program, as the calculation graph
marks them.

Linux and Windows nodes both use this module.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field


@dataclass
class Due:
    """The endpoints and sets that may differ from the data plane."""

    everything: bool = False
    """True: all endpoints and sets must be sent, changed or not."""
    endpoints: set[str] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)


class DueMarks:
    """The interface through which the calculation graph marks changes in a node's policy.
    ``_on_due`` is called whenever policy may differ from the data plane."""

    _due: Due
    _sets: Container[str]
    """Names of the sets that the node has."""
    _on_due: Callable[[], None]

    def endpoint_due(self, uid: str) -> None:
        """Mark that this endpoint was added or removed, or that its policies or their order have
        changed."""
        self._due.endpoints.add(uid)
        self._on_due()

    def set_due(self, name: str) -> None:
        """Mark that this set's members have changed."""
        if name in self._sets:
            self._due.sets.add(name)
            self._on_due()

    def everything_due(self) -> None:
        """Mark that everything must be sent, changed or not."""
        self._due.everything = True
        self._on_due()
