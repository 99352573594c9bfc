# SPDX-License-Identifier: Apache-2.0
"""Which Windows nodes a test about Services' sources is about: by direct server return, by build.

A cluster may mix nodes that can with nodes that cannot; a claim about one kind says nothing when seen on the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from conformance.catalog import Range, Version, direct_server_return, keeps_clients
from conformance.errors import MissingCapability, NotAboutThisCluster
from conformance.expect.context import Context
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Pair
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.pods.placement import Placement

REMEDY = "allow HostProcess pods, which see kube-proxy's command line, and name --enable-dsr=true or =false there"


@dataclass
class WindowsNodes:
    """The covered Windows nodes, by what their services do with sources.

    ``dsr`` says of a node whether its kube-proxy was told to use direct server return; it may look into the node.
    """

    facts: Facts
    placement: Placement
    dsr: Callable[[str], Fact[bool]]
    source_vip: Callable[[str], Fact[str]] = lambda node: Fact(None, f"nobody asked node {node}")
    """The ``--source-vip`` of a node's kube-proxy; it looks into the node."""
    undecided: dict[str, str] = field(default_factory=dict)
    """Nodes of which it is not known whether they use direct server return: node to the reason."""
    _asked: dict[str, Fact[bool]] = field(default_factory=dict)

    def with_dsr(self) -> tuple[str, ...]:
        """Nodes whose build can do direct server return and whose kube-proxy was told to, or may have been.

        The latter are :attr:`undecided`.  Raises NotAboutThisCluster.
        """
        return self._by_dsr(True, "with direct server return")

    def without_dsr(self) -> tuple[str, ...]:
        """Nodes without: of an older build, or whose kube-proxy was not told to, or may not have been.

        The latter are :attr:`undecided`.  Raises NotAboutThisCluster.
        """
        return self._by_dsr(False, "without direct server return")

    def on_l2bridge(self, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Those of the named nodes, or of all, whose pods no overlay carries.  Raises NotAboutThisCluster."""
        nodes = [node for node in self._covered("") if names is None or node.name in names]
        fitting = tuple(node.name for node in nodes if node.plane.value == "l2bridge")
        if not fitting:
            told = "; ".join(
                f"{node.name}: {node.plane.value or 'unknown'} ({node.plane.source})"
                for node in nodes
            )
            raise NotAboutThisCluster(f"no such Windows node is without an overlay ({told})")
        return fitting

    def of_build(self, builds: str) -> tuple[str, ...]:
        """Nodes of such a ``build.revision``: ``>=17763 <17763.1432``.  Raises MissingCapability."""
        wanted = Range(builds)
        return self._those(
            lambda node: Version.of(*(node.windows_build or ())) in wanted, f"of build {builds}"
        )

    def all(self) -> tuple[str, ...]:
        """All covered ones.  Raises MissingCapability."""
        return self._those(lambda node: True, "")

    def leave_undecided(
        self, context: Context, seen: Sequence[tuple[Pair, str]], *, nothing_else: bool
    ) -> None:
        """Say of paths from :attr:`undecided` nodes that nobody knows what to expect, and what was seen there.

        Raises MissingCapability when there was nothing else to decide.
        """
        told = []
        for (source, target), saw in seen:
            text = (
                f"{source.label} -> {target.label}: whether kube-proxy on node {source.node} uses direct server return "
                f"is not known; {saw} ({self.undecided[source.node]})"
            )
            context.decided(source, target, ClaimVerdict.NOT_RUN, text)
            told.append(text)
        if told and nothing_else:
            raise MissingCapability(told[0], REMEDY)

    def told(self, node: str) -> Fact[bool]:
        """Whether kube-proxy on a node was told to use it, for messages: as far as this test has asked."""
        return self._asked.get(node, Fact(None, "this test did not ask"))

    def _by_dsr(self, wanted: bool, which: str) -> tuple[str, ...]:
        fitting = []
        others = []
        for node in self._covered(which):
            known = replace(node, dsr=self.dsr(node.name)) if direct_server_return(node) else node
            self._asked[node.name] = known.dsr
            keeps = keeps_clients(known)
            if keeps is None:
                self.undecided[node.name] = known.dsr.source
            if keeps in (wanted, None):
                fitting.append(node.name)
            why = (
                known.dsr.source
                if direct_server_return(node)
                else f"its build {node.kernel_version} cannot do it"
            )
            others.append(f"{node.name}: {why}")
        if not fitting:
            raise NotAboutThisCluster(f"no covered Windows node is {which} ({'; '.join(others)})")
        return tuple(fitting)

    def _those(self, fits: Callable[[NodeFacts], bool], which: str) -> tuple[str, ...]:
        return tuple(node.name for node in self._covered(which, fits))

    def _covered(
        self, which: str, fits: Callable[[NodeFacts], bool] = lambda node: True
    ) -> list[NodeFacts]:
        found = [node for node in self.placement.covered("windows") if fits(node)]
        if not found:
            raise MissingCapability(
                f"needs a covered Windows node {which}",
                "cover one (--nodes, --max-nodes-per-os), uncordon one, or tolerate its taint with --tolerate",
            )
        return found
