"""What is kept with a result about the network that nodes stand in: whether their routes crossed a router."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.expect.routes import Route
from conformance.expect.traffic import Context
from conformance.model.facts import Facts
from conformance.pods.coverage import subnet


@dataclass
class Underlay:
    """Underlay subnets of one cluster, as Calico's annotations of nodes tell them."""

    context: Context
    facts: Facts

    def crossed(self, routes: Iterable[Route]) -> None:
        """Keep how many underlay subnets the ends of these routes stand in, and which; decides nothing."""
        ways = list(routes)
        ends = {source.node for source, _ in ways} | {backend.node for _, target in ways for backend in target.backends}
        places = sorted({subnet(node) or "unknown" for node in self.facts.nodes if node.name in ends})
        several = "routed between several subnets" if len(places) > 1 else "within one subnet, through no router"
        self.context.record("underlay subnets", len(places))
        self.context.record("underlay", f"{several}: {', '.join(places)}" if "unknown" not in places else "not known")
