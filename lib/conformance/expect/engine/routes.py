"""Who goes where: the forms in which tests name routes, and the single routes that they mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.model.endpoint import Target, Workload

Route = tuple[Workload, Target]
"""One source and one target."""
Product = tuple[Workload | Sequence[Workload], Target | Sequence[Target]]
"""Each of some sources to each of some targets."""
Routes = Product | Iterable[Route]
"""What stands in a list of routes: a product, or several routes, such as those between two groups of pods."""


def each(several: Iterable[Routes]) -> list[Route]:
    """Every single route, in order, once."""
    found: dict[Route, None] = {}
    for routes in several:
        found.update(dict.fromkeys(_product(routes) if _is_product(routes) else routes))  # type: ignore[arg-type]
    return list(found)


def routes_of(sources: Workload | Iterable[Workload | Route], targets: Target | Sequence[Target] | None) -> list[Route]:
    """Routes from ``sources`` to ``targets``; without ``targets``, ``sources`` are routes themselves."""
    if targets is None:
        return each([sources])  # type: ignore[list-item]
    return each([(sources if isinstance(sources, Workload) else tuple(sources), targets)])  # type: ignore[list-item]


def _is_product(routes: Routes) -> bool:
    """Whether its second half is one target, or several of them."""
    if not isinstance(routes, tuple) or len(routes) != 2:
        return False
    second = routes[1]
    return isinstance(second, Target) or (
        isinstance(second, Sequence) and all(isinstance(item, Target) for item in second)
    )


def _product(routes: Product) -> list[Route]:
    sources, targets = routes
    return [
        (source, target)
        for source in ([sources] if isinstance(sources, Workload) else sources)
        for target in ([targets] if isinstance(targets, Target) else targets)
    ]
