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
"""The name of the part of a claim that changes something, if none of its tests names this part."""
UNDERLAY = "underlay"
"""The name of the measurement that holds the nodes' underlay subnets; summaries show the subnets
next to the verdict."""


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """The result of a test for a claim; pytest's ``user_properties`` carry it between processes."""

    claim: str
    verdict: ClaimVerdict
    test: str
    """The test's node id."""
    reason: str
    """The reason, in one line that is understood by itself."""
    part: str = ""
    """The part of the claim that this test decides (an OS direction, a path), stable from run to
    run."""
    remedy: str = ""
    active: bool = False
    """The test decides the half of the claim that changes something, if the claim has such a
    half."""
    evidence: Literal["lab", "field"] = "field"
    measured: dict[str, float | str] = field(default_factory=dict)
    """Measured values that are worth storing, such as seconds to the first correct answer."""
    decisions: tuple[Decision, ...] = ()
    """The decisions behind the result: one for each pair of nodes; empty if the test did not get
    that far."""
