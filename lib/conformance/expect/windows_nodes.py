"""Which Windows nodes a test about Services' sources is about: by direct server return, by build.

A cluster may mix nodes that can with nodes that cannot; a claim about one kind says nothing when seen on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.catalog import Range, Version, keeps_clients
from conformance.errors import MissingCapability
from conformance.model.facts import Facts, NodeFacts
from conformance.pods.placement import Placement


@dataclass(frozen=True)
class WindowsNodes:
    """The covered Windows nodes, by what their services do with sources."""

    facts: Facts
    placement: Placement

    def with_dsr(self) -> tuple[str, ...]:
        """Nodes whose build can do direct server return and whose kube-proxy was told to.  Raises MissingCapability."""
        return self._those(lambda node: keeps_clients(node, self.facts) is True, "with direct server return")

    def without_dsr(self) -> tuple[str, ...]:
        """Nodes without: of an older build, or whose kube-proxy was not told to.  Raises MissingCapability."""
        return self._those(lambda node: keeps_clients(node, self.facts) is False, "without direct server return")

    def of_build(self, builds: str) -> tuple[str, ...]:
        """Nodes of such a ``build.revision``: ``>=17763 <17763.1432``.  Raises MissingCapability."""
        wanted = Range(builds)
        return self._those(lambda node: Version.of(*(node.windows_build or ())) in wanted, f"of build {builds}")

    def all(self) -> tuple[str, ...]:
        """All covered ones.  Raises MissingCapability."""
        return self._those(lambda node: True, "")

    def _those(self, fits: Callable[[NodeFacts], bool], which: str) -> tuple[str, ...]:
        found = tuple(node.name for node in self.placement.covered("windows") if fits(node))
        if not found:
            raise MissingCapability(
                f"needs a covered Windows node {which}",
                "cover one (--nodes, --max-nodes-per-os), uncordon one, or tolerate its taint with --tolerate",
            )
        return found
