# SPDX-License-Identifier: Apache-2.0
"""Limits and costs of probing. An agent is a probe program that runs in a pod, and makes attempts
for the suite."""

from collections import Counter
from dataclasses import dataclass, field

from conformance.model.endpoint import OS
from conformance.settings.assumptions import number


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of probing, over all processes of a run."""

    powershell_starts: int = number("WIN-STARTS-AT-ONCE")
    """Concurrent PowerShell starts per Windows node: each takes 2 to 4 s and a core (dotnet-framework-docker#25, #211);
    mass exec has hung Windows nodes (kubernetes#98102, hcsshim#1574)."""
    agents: int = 60
    """Live agents: each holds an exec stream through API server and kubelet."""
    share: int = 60
    """The number of agents that a process may keep while another process waits for agents. Agents
    that were idle for some seconds are not kept, so that they do not starve the other process."""
    per_windows_node: int = number("WIN-AGENTS")
    """Live agents on one Windows node: execs in parallel have made Windows nodes unusable
    (kubernetes#124700)."""
    share_of_node: int = number("WIN-AGENTS")
    """The value of ``share`` for the agents on one Windows node."""
    restarts: int = 20
    """The number of restarts of a broken agent per pod and process. More failures are no
    coincidence, and each start costs a Windows node 2 to 4 s and a core."""
    sources: int = 64
    """The number of sources for which a process starts agents, or retries after an error, at the
    same time."""


@dataclass
class Counts:
    """The cost of probing, per ``(node, os)`` and in total."""

    starts: Counter[tuple[str, OS]] = field(default_factory=Counter)
    """Agents that were started, each by one exec."""
    restarts: Counter[tuple[str, OS]] = field(default_factory=Counter)
    """Agents that were started to replace a broken agent."""
    batches: Counter[tuple[str, OS]] = field(default_factory=Counter)
    attempts: Counter[tuple[str, OS]] = field(default_factory=Counter)
    repeated: Counter[tuple[str, OS]] = field(default_factory=Counter)
    """Attempts that were sent again after transport errors."""
    commands: Counter[tuple[str, OS]] = field(default_factory=Counter)
    """Execs that start no agent: commands that run word for word, and reads of hosts."""
