# SPDX-License-Identifier: Apache-2.0
"""The surroundings of a test's expectations: the sink that receives their results, the cluster, and
the time limits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from conformance.expect.explain.between_nodes import Blamed
from conformance.expect.figures import FigureLog, PolicyChange
from conformance.expect.open_paths import OpenPaths
from conformance.expect.owners import ForeignPolicyView, NoForeignChanges, Runs
from conformance.expect.watches import Turns
from conformance.model import decision
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision, Half, Side, Symptom
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import NodeFacts
from conformance.pods.cluster_dns import ClusterDns
from conformance.probe.machine import Machine

FELIX_BEFORE = 10.0
"""A message about a change of policy covers Felix' log from this many seconds before the change."""
FELIX_WITHOUT_CHANGE = 60.0
"""Seconds of Felix' log that a message covers if there was no change of policy."""

End = Workload | Target | NodeFacts | None
DecisionParts = tuple[ClaimVerdict, str, Half, Symptom]
"""Verdict, reason, half, and symptom (expected and observed result)."""


@dataclass
class Sink:
    """Receives the results of a test; this class holds them in memory."""

    decisions: list[Decision] = field(default_factory=list)
    recorded: dict[str, float | str] = field(default_factory=dict)
    attached: dict[str, str] = field(default_factory=dict)
    figures: FigureLog = field(default_factory=FigureLog)

    def keep(self, decisions: Sequence[Decision]) -> None:
        """Record a decision for the test's claims and parts."""
        self.decisions += decisions

    def record(self, name: str, value: float | str) -> None:
        """Store a measured value with the claim's result."""
        self.recorded[name] = value

    def attach(self, name: str, text: str) -> None:
        """Put a text into the report."""
        self.attached[name] = text

    def progress(self, line: str) -> None:
        """Show the user what the test is waiting for, unless the wait is short."""

    def tell(self, line: str) -> None:
        """Show the user a line at once."""


@dataclass
class World:
    """The cluster around a test's own pods. This base class reports nothing: no policies, no Felix,
    no problems."""

    others: ForeignPolicyView = field(default_factory=NoForeignChanges)
    """Policies of other owners."""
    runs: Runs = field(default_factory=NoForeignChanges)
    """Changes of other runs. They may explain a closed path, and nothing else."""

    def policies(self) -> Sequence[str]:
        """Return the names of the test's policies in force now, with their age."""
        return ()

    def change(self) -> PolicyChange | None:
        """Return the newest change of policy that this test has made."""
        return None

    def felix(self, nodes: Sequence[str], seconds: float, *, unwell_only: bool) -> Sequence[str]:
        """Return a line about the state of Felix for each of these nodes; only the last ``seconds``
        of Felix' log count.

        ``unwell_only``: only nodes with a problem.
        """
        return ()

    def dns(self) -> ClusterDns | None:
        """Return the cluster's DNS, for messages about names, or None if it is not known."""
        return None

    def policies_there(self, pods: Sequence[Workload]) -> Sequence[str]:
        """Return the names of policies that may be in force at some pods, for messages about closed
        paths."""
        return ()

    def unwell(self, nodes: Sequence[str]) -> str:
        """Describe which of these nodes have a problem that their network plugin or the run's own
        disruption may have caused. Return an empty string if none has."""
        return ""

    def silent(self, nodes: Sequence[str]) -> Sequence[str]:
        """Return the nodes that may have died just now: their kubelets' reports are late, but the
        nodes do not count as lost yet."""
        return ()

    def unready(self, pods: Sequence[Workload], since: float) -> str:
        """Describe which of these pods the kubelet found unready after ``since`` (Unix s), so that
        Services did not lead to them."""
        return ""

    def overlay(self, source: Workload, target: Target) -> Blamed:
        """Return the problems of the overlay on the nodes of a path's ends."""
        return Blamed()


@dataclass(frozen=True)
class Pace:
    """The reasons for which a test waits longer than its timings say."""

    machine: Machine = field(default_factory=Machine)
    """Measures how late the suite's own machine is."""
    open_paths: OpenPaths = field(default_factory=OpenPaths)
    """The paths that earlier tests found open. ``may_wait`` says whether a test with a path that
    loses connections can be run once more at the end."""
    watches: Turns | None = None
    """The denials that are watched for longer than a decision needs; None: no denial is watched for
    longer."""


@dataclass(frozen=True)
class Context:
    """The running test: its claims, the sink of its results, its cluster, and its time limits."""

    claims: tuple[str, ...] = ()
    sink: Sink = field(default_factory=Sink)
    world: World = field(default_factory=World)
    pace: Pace = field(default_factory=Pace)
    part: tuple[str, str] = ("", "")
    """The claim and the part that all decisions are about. Empty: all claims and parts of the test.
    A part without a claim: the part with this name of each of the test's claims."""
    at: Side | None = None
    """The end whose node enforces the policies; None: the end that the newest change of policy
    names."""
    undelivered: dict[tuple[object, object], DecisionParts] | None = None
    """Receives the decisions about each source and target in place of the sink; None: the sink
    receives them."""
    since: dict[tuple[str, str, bool], float] = field(default_factory=dict)
    """The time when this test first observed a path in a state. The keys: the source's uid, the
    target's label, and whether the path is open."""

    @property
    def enforced_at(self) -> Side | None:
        """Return the end whose node enforces the test's policies. Return None if no policy was
        changed."""
        change = self.world.change()
        return (self.at or change.enforced_at) if change else None

    def felix_on(self, *ends: Workload) -> str:
        """Return the state of Felix on the nodes of these pods. If no policy was changed, return
        only nodes where Felix has a problem."""
        change = self.world.change()
        seconds = time.monotonic() - change.at + FELIX_BEFORE if change else FELIX_WITHOUT_CHANGE
        return "; ".join(
            self.world.felix(
                list(dict.fromkeys(end.node for end in ends)), seconds, unwell_only=change is None
            )
        )

    def of_part(self, part: str, claim: str = "") -> Context:
        """Return the context whose decisions count for this part of a claim; without a claim, for
        this part of each claim."""
        return replace(self, part=(claim, part)) if part or claim else self

    def as_expected(self, reason: str, half: Half) -> None:
        """Record that the cluster met an expectation that is about no path."""
        self.decided(None, None, ClaimVerdict.CONFIRMED, reason, half)

    def decided(
        self,
        source: Workload | None,
        target: End,
        verdict: ClaimVerdict,
        reason: str,
        half: Half = "open",
        *,
        symptom: Symptom = ("", ""),
    ) -> None:
        """Record an expectation's decision about a path: a reason that needs no other text, and the
        expected and observed results.

        Do not call this for controls, which decide nothing. Without ``source`` and ``target``, the
        decision is about the cluster. With a node as ``target``, the decision is about readings of
        this node.
        """
        if self.undelivered is not None:
            self.undelivered[source, target] = (verdict, reason, half, symptom)
            return
        line = reason.partition("\n")[0]
        found: Sequence[Decision]
        if isinstance(target, NodeFacts):
            found = [decision.decision_on(target, verdict, line, half, symptom)]
        else:
            found = decision.decisions_about(
                source,
                target,
                verdict,
                line,
                half,
                enforced_at=self.enforced_at,
                symptom=symptom,
            )
        claim, part = self.part
        claims = self.claims if part and not claim else (claim,)
        self.sink.keep(
            [replace(decision, claim=each, part=part) for each in claims for decision in found]
        )
