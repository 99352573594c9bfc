# SPDX-License-Identifier: Apache-2.0
"""The Windows nodes that a test about Services' sources covers, selected by direct server return
and by build.

A cluster may mix nodes with and without direct server return; a claim about one kind of node cannot
be observed on the other kind.
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

REMEDY = (
    "allow HostProcess pods, which can read kube-proxy's command line, and set "
    "--enable-dsr=true or =false there"
)

LOOK = "allow HostProcess pods, which can read the type of the pods' HNS network"


@dataclass
class WindowsNodes:
    """The covered Windows nodes, grouped by the source addresses that their Services show.

    ``dsr`` returns whether a node's kube-proxy uses direct server return; it may read the node.
    """

    facts: Facts
    placement: Placement
    dsr: Callable[[str], Fact[bool]]
    source_vip: Callable[[str], Fact[str]] = lambda node: Fact(
        None, f"source VIP of node {node} was not read"
    )
    """A function that returns the ``--source-vip`` of a node's kube-proxy, read from the node."""
    undecided: dict[str, str] = field(default_factory=dict)
    """The reasons why a node's use of direct server return is not known, by node."""
    _asked: dict[str, Fact[bool]] = field(default_factory=dict)

    def with_dsr(self) -> tuple[str, ...]:
        """Return the nodes whose build supports direct server return and whose kube-proxy uses it.

        Nodes whose use of direct server return is not known are included, and are
        :attr:`undecided`. Raise NotAboutThisCluster if there are none.
        """
        return self._by_dsr(True, "that uses direct server return")

    def without_dsr(self) -> tuple[str, ...]:
        """Return the nodes of an older build, and those whose kube-proxy does not use direct server
        return.

        Nodes whose use of direct server return is not known are included, and are
        :attr:`undecided`. Raise NotAboutThisCluster if there are none.
        """
        return self._by_dsr(False, "without direct server return")

    def on_l2bridge(self, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the nodes whose pods' packets use no overlay. ``names``: consider only these
        nodes.

        Raise NotAboutThisCluster if there is no such node, MissingCapability if the network of no
        node is known.
        """
        covered = [node.name for node in self._covered("") if names is None or node.name in names]
        # A node's plane (overlay or l2bridge) may have been read after the test chose its nodes.
        planes = {node.name: node.plane for node in self.facts.nodes if node.name in covered}
        fitting = tuple(name for name, plane in planes.items() if plane.value == "l2bridge")
        if fitting:
            return fitting
        text = "; ".join(
            f"{name}: {plane.value or 'unknown'} ({plane.source})" for name, plane in planes.items()
        )
        if all(plane.known for plane in planes.values()):
            raise NotAboutThisCluster(f"each of these Windows nodes has an overlay ({text})")
        raise MissingCapability(f"needs a Windows node without an overlay ({text})", LOOK)

    def of_build(self, builds: str) -> tuple[str, ...]:
        """Return the nodes whose ``build.revision`` lies in a range such as ``>=17763
        <17763.1432``. Raise MissingCapability if there are none.
        """
        wanted = Range(builds)
        return self._those(
            lambda node: Version.of(*(node.windows_build or ())) in wanted, f"of build {builds}"
        )

    def all(self) -> tuple[str, ...]:
        """Return all covered Windows nodes. Raise MissingCapability if there are none."""
        return self._those(lambda node: True, "")

    def leave_undecided(
        self, context: Context, observed: Sequence[tuple[Pair, str]], *, nothing_else: bool
    ) -> None:
        """Record NOT_RUN, with the observation, for paths from :attr:`undecided` nodes, whose right
        result is not known.

        Raise MissingCapability if there was nothing else to decide.
        """
        undecided = []
        for (source, target), saw in observed:
            text = (
                f"{source.label} -> {target.label}: whether kube-proxy on node {source.node} uses direct server return "
                f"is not known; {saw} ({self.undecided[source.node]})"
            )
            context.decided(source, target, ClaimVerdict.NOT_RUN, text)
            undecided.append(text)
        if undecided and nothing_else:
            raise MissingCapability(undecided[0], REMEDY)

    def dsr_of(self, node: str) -> Fact[bool]:
        """Return what this test has read about a node: whether kube-proxy uses direct server return
        there."""
        return self._asked.get(node, Fact(None, "this test did not read it"))

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
                else f"its build {node.kernel_version} does not support it"
            )
            others.append(f"{node.name}: {why}")
        if not fitting:
            raise NotAboutThisCluster(
                f"there is no covered Windows node {which} ({'; '.join(others)})"
            )
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
