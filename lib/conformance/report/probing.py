# SPDX-License-Identifier: Apache-2.0
"""The cost of probing in a run, per node and operating system, and the highest use of each limit at
one moment."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from conformance.model.by_key import by_key
from conformance.model.counted import counted
from conformance.model.endpoint import OS
from conformance.model.probing import Interval, NodeCost, Probing

FIGURES = tuple(field.name for field in fields(NodeCost) if field.name not in {"node", "os"})


@dataclass(frozen=True, kw_only=True)
class ProbingCost:
    """The cost of probing in one run."""

    nodes: tuple[NodeCost, ...]
    agents_at_once: int
    """The maximum number of agents that lived at one moment, in all processes together."""
    agents_limit: int
    powershell_at_once: int
    """The maximum number of PowerShell starts under way at one moment on one Windows node."""
    powershell_limit: int
    processes: int
    """The number of workers that reported their cost; a crashed worker reports nothing."""


def cost(records: Iterable[Probing]) -> ProbingCost:
    """Return the summed cost of probing by all processes, and the highest use of each limit at one
    moment."""
    given = list(records)
    sums: dict[tuple[str, OS], Counter[str]] = {}
    for node_cost in (entry for each in given for entry in each.costs):
        sums.setdefault((node_cost.node, node_cost.os), Counter()).update(
            {name: getattr(node_cost, name) for name in FIGURES}
        )
    by_name = by_key((interval.name, interval) for each in given for interval in each.intervals)
    limits = dict(entry for each in given for entry in each.limits)
    starts = [at_once(used) for name, used in by_name.items() if name.startswith("powershell-")]
    return ProbingCost(
        nodes=tuple(
            NodeCost(node=node, os=os, **found) for (node, os), found in sorted(sums.items())
        ),
        agents_at_once=at_once(by_name.get("agent", [])),
        agents_limit=limits.get("agent", 0),
        powershell_at_once=max(starts, default=0),
        powershell_limit=limits.get("powershell", 0),
        processes=len(given),
    )


def joined(costs: Iterable[ProbingCost]) -> ProbingCost:
    """Return the cost of several runs that ran one after the other: the sums, and the highest use
    at one moment."""
    given = list(costs)
    sums: dict[tuple[str, OS], Counter[str]] = {}
    for node in (node for each in given for node in each.nodes):
        figures = {name: getattr(node, name) for name in FIGURES}
        sums.setdefault((node.node, node.os), Counter()).update(figures)
    most = {
        field.name: max(getattr(each, field.name) for each in given)
        for field in fields(ProbingCost)
        if field.name != "nodes"
    }
    nodes = (NodeCost(node=node, os=os, **found) for (node, os), found in sorted(sums.items()))
    return ProbingCost(nodes=tuple(nodes), **most)


def at_once(intervals: Sequence[Interval]) -> int:
    """Return the maximum number of intervals that overlap; two intervals that only touch do not
    overlap."""
    steps = [(interval.taken_at, 1) for interval in intervals] + [
        (interval.given_back_at, -1) for interval in intervals
    ]
    now = most = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most


def lines(found: ProbingCost) -> list[str]:
    """Return the lines for the terminal; none if nothing was probed."""
    text_lines = []
    for system in ("linux", "windows"):
        nodes = [node for node in found.nodes if node.os == system]
        if not nodes:
            continue
        agents, restarts, commands, attempts, resent = (
            sum(getattr(node, name) for node in nodes)
            for name in ("agents", "restarts", "commands", "attempts", "resent")
        )
        kinds = [counted(agents, "agent")] + ([counted(commands, "command")] if commands else [])
        kinds += [f"{restarts} restarted"] if restarts else []
        again = f" ({resent} sent again)" if resent else ""
        text_lines.append(
            f"execs on {system}: {agents + commands} ({', '.join(kinds)}) "
            f"on {counted(len(nodes), 'node')} for {counted(attempts, 'attempt')}{again}"
        )
    if text_lines:
        text_lines.append(
            f"peak: {counted(found.agents_at_once, 'agent')} (limit {found.agents_limit}), "
            f"{counted(found.powershell_at_once, 'concurrent PowerShell start')} per node "
            f"(limit {found.powershell_limit})"
        )
    return text_lines
