"""Which Windows node a test about Services' sources is about: by direct server return, by build.

A cluster may mix nodes that can with nodes that cannot; a claim about one kind says nothing when seen on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.catalog import Range, Version, keeps_clients
from conformance.errors import EnvironmentLacks
from conformance.model.facts import Facts, NodeFacts
from conformance.pods.placement import Placement


@dataclass(frozen=True)
class WindowsNodes:
    """The Windows nodes that take the suite's pods, by what their services do with sources."""

    facts: Facts
    placement: Placement

    def with_dsr(self) -> str:
        """A node whose build can do direct server return and whose kube-proxy was told to.  Raises EnvironmentLacks."""
        return self._one(lambda node: keeps_clients(node, self.facts) is True, "with direct server return")

    def without_dsr(self) -> str:
        """A node without: of an older build, or whose kube-proxy was not told to.  Raises EnvironmentLacks."""
        return self._one(lambda node: keeps_clients(node, self.facts) is False, "without direct server return")

    def of_build(self, builds: str) -> str:
        """A node of such a ``build.revision``: ``>=17763 <17763.1432``.  Raises EnvironmentLacks."""
        wanted = Range(builds)
        return self._one(lambda node: Version.of(*(node.windows_build or ())) in wanted, f"of build {builds}")

    def any(self) -> str:
        """Any, one that is not known to have direct server return before one that is.  Raises EnvironmentLacks."""
        usable = sorted(self.placement.usable("windows"), key=lambda node: keeps_clients(node, self.facts) is True)
        return usable[0].name if usable else self.placement.first("windows").name

    def _one(self, fits: Callable[[NodeFacts], bool], which: str) -> str:
        found = [node.name for node in self.placement.usable("windows") if fits(node)]
        if not found:
            raise EnvironmentLacks(
                f"needs a usable Windows node {which}", "uncordon one, or tolerate its taint with --tolerate"
            )
        return found[0]
