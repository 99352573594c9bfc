# SPDX-License-Identifier: Apache-2.0
"""Who connects to whom: the forms in which tests name pairs of a client and a target, and the pairs they mean."""

from collections.abc import Iterable, Sequence

from conformance.model.endpoint import Pair, Target, Workload

Product = tuple[Workload | Sequence[Workload], Target | Sequence[Target]]
"""Each of some sources to each of some targets."""
Pairs = Product | Iterable[Pair]
"""An item in a list of pairs: a product, or several pairs, such as those between two groups of pods."""


def each(several: Iterable[Pairs]) -> list[Pair]:
    """Return every single pair once, in order."""
    found: dict[Pair, None] = {}
    for pairs in several:
        found.update(dict.fromkeys(_product(pairs) if _is_product(pairs) else pairs))  # type: ignore[arg-type]
    return list(found)


def pairs_of(
    sources: Workload | Iterable[Workload | Pair], targets: Target | Sequence[Target] | None
) -> list[Pair]:
    """Return the pairs of ``sources`` and ``targets``; without ``targets``, ``sources`` are pairs themselves."""
    if targets is None:
        return each([sources])  # type: ignore[list-item]
    return each([(sources if isinstance(sources, Workload) else tuple(sources), targets)])  # type: ignore[list-item]


def _is_product(pairs: Pairs) -> bool:
    """Whether its second half is one target, or several of them."""
    if not isinstance(pairs, tuple) or len(pairs) != 2:
        return False
    second = pairs[1]
    return isinstance(second, Target) or (
        isinstance(second, Sequence) and all(isinstance(item, Target) for item in second)
    )


def _product(pairs: Product) -> list[Pair]:
    sources, targets = pairs
    return [
        (source, target)
        for source in ([sources] if isinstance(sources, Workload) else sources)
        for target in ([targets] if isinstance(targets, Target) else targets)
    ]


def key(source: Workload, target: Target | None) -> tuple[str, str]:
    """What a test's memory knows a path by."""
    return source.uid, target.label if target else ""
