"""What is told with a result about the network that nodes stand in: whether their paths crossed a router."""

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.expect.context import Context
from conformance.model.claim import UNDERLAY
from conformance.model.endpoint import Pair
from conformance.model.facts import Facts
from conformance.pods.coverage import subnet


@dataclass
class Underlay:
    """Underlay subnets of one cluster, as Calico's annotations of nodes tell them."""

    context: Context
    facts: Facts

    def beside(self, because: str, pairs: Iterable[Pair]) -> str:
        """``because``, and how many underlay subnets the ends of these paths stand in; decides nothing.

        It is kept with the test's result, too, and the report's summary shows it beside the claim.
        """
        several = list(pairs)
        ends = {source.node for source, _ in several} | {pod.node for _, target in several for pod in target.backends}
        places = sorted({subnet(node) for node in self.facts.nodes if node.name in ends})
        self.context.record("underlay subnets", len(places))
        told = _told(places)
        self.context.record(UNDERLAY, told)
        return f"{because}; {told}"


def _told(places: list[str]) -> str:
    """``places``: subnets, each once; an empty one is not known."""
    if "" in places:
        return "the nodes' subnets are not known, nor whether a router was crossed"
    if len(places) > 1:
        return f"between nodes of {len(places)} subnets, over routers: {', '.join(places)}"
    return f"between nodes of one subnet, over no router: {', '.join(places)}"
