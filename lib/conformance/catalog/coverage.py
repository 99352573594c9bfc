# SPDX-License-Identifier: Apache-2.0
"""The coverage of claims by tests."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conformance.catalog.claims import Claim, IsolationKind
from conformance.model.by_key import by_key


@dataclass(frozen=True)
class Coverage:
    """Claims with tests, claims without tests, and claims that no program can decide."""

    tests: Mapping[str, tuple[str, ...]]
    """The node ids of each claim's tests, by claim."""
    without: tuple[str, ...]
    manual: tuple[str, ...]

    def __str__(self) -> str:
        """Return ``31 of 134 testable claims have tests; 6 more can only be checked by hand``."""
        testable = len(self.tests) + len(self.without)
        by_hand = f"{len(self.manual)} can only be checked by hand"
        return f"{len(self.tests)} of {testable} testable claims have tests; {by_hand}"


def coverage(claims: Iterable[Claim], tests: Iterable[tuple[str, str]]) -> Coverage:
    """Return the coverage. Each pair has a claim's id and a test's node id."""
    by_claim = by_key(tests)
    covered: dict[str, tuple[str, ...]] = {}
    without: list[str] = []
    manual: list[str] = []
    for claim in claims:
        if claim.id in by_claim:
            covered[claim.id] = tuple(by_claim[claim.id])
        elif claim.isolation.kind is IsolationKind.MANUAL:
            manual.append(claim.id)
        else:
            without.append(claim.id)
    return Coverage(covered, tuple(without), tuple(manual))
