# SPDX-License-Identifier: Apache-2.0
"""The cost of probing: execs, agents, attempts, and when each slot was in use. A slot is the
permission to run one more agent, or to start one more PowerShell or Python program on a node.

These are data for the report; no verdict depends on them.
"""

from dataclasses import dataclass

from conformance.model.endpoint import OS


@dataclass(frozen=True, kw_only=True)
class NodeCost:
    """The cost of probing on one node, for one process or for all."""

    node: str
    os: OS
    agents: int = 0
    """The number of agents that were started, each by one exec."""
    restarts: int = 0
    """The number of these agents that replaced a broken agent."""
    commands: int = 0
    """The number of other execs: literal commands and questions to hosts."""
    batches: int = 0
    attempts: int = 0
    resent: int = 0
    """The number of attempts that were sent again because the connection to the probe had broken.
    """


@dataclass(frozen=True, kw_only=True)
class Interval:
    """The time in which a slot was in use; two intervals with the same name and number never
    overlap."""

    name: str
    """``powershell-NODE``, ``python-NODE`` or ``agent``."""
    number: int
    taken_at: float
    """The time in seconds on the machine's monotonic clock, which all its processes share."""
    given_back_at: float


@dataclass(frozen=True, kw_only=True)
class Probing:
    """The use of slots by one process of a run."""

    costs: tuple[NodeCost, ...] = ()
    intervals: tuple[Interval, ...] = ()
    limits: tuple[tuple[str, int], ...] = ()
    """The number of slots that may be in use at once: ``powershell`` (per Windows node) and
    ``agent`` (for all nodes together)."""
