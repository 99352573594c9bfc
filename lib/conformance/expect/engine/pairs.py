# SPDX-License-Identifier: Apache-2.0
"""Pairs of a client and a target, in the forms in which tests write them."""

from collections.abc import Iterable, Sequence

from conformance.errors import UsageProblem
from conformance.model.endpoint import Pair, Target, Workload

Product = tuple[Workload | Sequence[Workload], Target | Sequence[Target]]
"""One or more sources, and one or more targets. A product stands for every combination of them."""
Pairs = Product | Iterable[Pair]
"""An item in a list of pairs: a product, or pairs such as those between two groups of pods."""


def each(choices: Iterable[Pairs]) -> list[Pair]:
    """Return every single pair of the items once, in order. Raise UsageProblem if the items have no
    pair."""
    found: dict[Pair, None] = {}
    for pairs in choices:
        found.update(dict.fromkeys(_product(pairs) if _is_product(pairs) else pairs))  # type: ignore[arg-type]
    if not found:
        raise UsageProblem("the expectation has no path: it names no client or no server")
    return list(found)


def pairs_of(
    sources: Workload | Iterable[Workload | Pair], targets: Target | Sequence[Target] | None
) -> list[Pair]:
    """Return the pairs of ``sources`` and ``targets``. Without ``targets``, return ``sources``,
    which are pairs themselves."""
    if targets is None:
        return each([sources])  # type: ignore[list-item]
    return each([(sources if isinstance(sources, Workload) else tuple(sources), targets)])  # type: ignore[list-item]


def _is_product(pairs: Pairs) -> bool:
    """Return whether the item is a product: its second half is a target or a list of targets."""
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
    """Return the key of a path in a test's memory."""
    return source.uid, target.label if target else ""
