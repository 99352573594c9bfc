# SPDX-License-Identifier: Apache-2.0
"""Claims and their verdicts."""

from dataclasses import dataclass, field
from typing import Literal

from conformance.model.decision import Decision
from conformance.model.verdict import PRECEDENCE, ClaimKind, ClaimVerdict, Finding, precedence

__all__ = [
    "ACTIVE_HALF",
    "PRECEDENCE",
    "UNDERLAY",
    "ClaimKind",
    "ClaimResult",
    "ClaimVerdict",
    "Finding",
    "precedence",
]


ACTIVE_HALF = "active half"
"""Name of a claim's part that changes something, if none of its tests names it."""
UNDERLAY = "underlay"
"""Name of the measurement that holds the nodes' underlay subnets; summaries show it beside the
verdict."""


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """The result of a test for a claim; pytest's ``user_properties`` carry it between processes."""

    claim: str
    verdict: ClaimVerdict
    test: str
    """The test's node id."""
    reason: str
    """One line: enough on its own."""
    part: str = ""
    """Which part of the claim this test decides (an OS direction, a path), stable from run to
    run."""
    remedy: str = ""
    active: bool = False
    """The test decides the half of the claim that changes something, if the claim has such a
    half."""
    evidence: Literal["lab", "field"] = "field"
    measured: dict[str, float | str] = field(default_factory=dict)
    """Figures worth keeping: seconds to first correct answer, tries ..."""
    decisions: tuple[Decision, ...] = ()
    """The decisions behind it: an entry for each pair of nodes; empty where the test did not get
    that far."""
