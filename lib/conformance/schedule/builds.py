# SPDX-License-Identifier: Apache-2.0
"""The Windows builds that a run covers for a claim."""

from conformance.catalog import ALL, Applies, Claim, Conditions, applicability
from conformance.model.facts import Facts
from conformance.pods.placement import Placement
from conformance.settings import Settings


def builds_of(
    claim: Claim, facts: Facts, settings: Settings, part: Conditions = ALL
) -> dict[str, str]:
    """Return the covered Windows builds to which the claim, and a part with these conditions,
    applies, each with its first node. Applicability is decided for each node separately."""
    found: dict[str, str] = {}
    for covered in Placement(facts, settings.tolerations, cover=settings.cover).coverage("windows"):
        alone = facts.with_windows((covered.node.name,))
        if isinstance(applicability(claim, alone, part), Applies):
            found.setdefault(covered.node.build, covered.node.name)
    return found
