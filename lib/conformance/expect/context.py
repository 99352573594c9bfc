"""Test context: the claims it is about, the policies in force, and where its reports go."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from conformance.expect.explain.between_nodes import Blamed
from conformance.expect.figures import FigureLog, PolicyChange
from conformance.expect.others import Nobody, Others, Runs
from conformance.expect.watches import Turns
from conformance.expect.wavering import OpenPaths
from conformance.model import decision
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision, Half, Symptom
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import NodeFacts
from conformance.pods.cluster_dns import ClusterDns
from conformance.probe.machine import Machine

FELIX_BEFORE = 10.0
"""s.  Of Felix' log before the newest change of policy that a message about it looks through, too."""
FELIX_WITHOUT_CHANGE = 60.0
"""s.  Of Felix' log where there was no change."""

End = Workload | Target | NodeFacts | None
Said = tuple[ClaimVerdict, str, Half, Symptom]
"""Verdict, reason, what was seen of it, and what was expected and observed."""


@dataclass(frozen=True)
class Context:
    """What a message and a report need to know about the test that expects."""

    claims: tuple[str, ...] = ()
    policies: Callable[[], Sequence[str]] = tuple
    """Names of the policies in force now, with their age."""
    attach: Callable[[str, str], object] = lambda name, text: None
    """Puts a text into the report."""
    record: Callable[[str, float | str], None] = lambda name, value: None
    """Keeps a figure with the claim's result."""
    change: Callable[[], PolicyChange | None] = lambda: None
    """The newest change of policy that this test has made."""
    felix: Callable[[Sequence[str], float, bool], Sequence[str]] = (
        lambda nodes, seconds, unwell_only: ()
    )
    """How Felix fares on these nodes, a line each, or on those alone where it is not well; of its log the last so many
    seconds count."""
    figures: FigureLog = field(default_factory=FigureLog)
    keep: Callable[[Sequence[Decision]], object] = lambda seen: None
    """Keeps what was decided, for the test's claims and parts."""
    take: Callable[[End, End, Said], object] | None = None
    """Takes down what is decided of a source and a target, in the place of :attr:`keep`; None: nobody does."""
    dns: Callable[[], ClusterDns | None] = lambda: None
    """The cluster's DNS, for messages about names; None: not known."""
    policies_there: Callable[[Sequence[Workload]], Sequence[str]] = lambda pods: ()
    """Names of policies that may be in force at some pods, for messages about paths that are closed."""
    since: dict[tuple[str, str, bool], float] = field(default_factory=dict)
    """Paths (source's uid, target's label) and whether they were open, with when this test began to see that."""
    unwell: Callable[[Sequence[str]], str] = lambda nodes: ""
    """Which of these nodes died of their network plugin, or after the run's own disruption."""
    silent: Callable[[Sequence[str]], Sequence[str]] = lambda nodes: ()
    """Those of these nodes that may have died just now: their kubelets are late, and nobody calls them lost yet."""
    others: Others = field(default_factory=Nobody)
    """Policies that are not the suite's."""
    runs: Runs = field(default_factory=Nobody)
    """Changes of other runs, which may lose a path and give nothing else."""
    open_paths: OpenPaths = field(default_factory=OpenPaths)
    """What earlier tests saw open, and whether what wavers of it may be asked once more at the end."""
    watches: Turns | None = None
    """Which denials are watched for longer than they need to be decided; None: none."""
    progress: Callable[[str], object] = lambda line: None
    """Tells the user what is waited for; what goes quickly is not told."""
    machine: Machine = field(default_factory=Machine)
    """What is known of how far behind the machine is that the suite runs on."""
    overlay: Callable[[Workload, Target], Blamed] = lambda source, target: Blamed()
    """What is wrong with what the overlay needs on the nodes of a path's ends, for messages about closed paths."""

    def felix_on(self, *ends: Workload) -> str:
        """How Felix fares on the nodes of these pods; before the test has changed policy, only where it is not well."""
        change = self.change()
        seconds = time.monotonic() - change.at + FELIX_BEFORE if change else FELIX_WITHOUT_CHANGE
        nodes = list(dict.fromkeys(end.node for end in ends))
        return "; ".join(self.felix(nodes, seconds, change is None))

    def of_part(self, end: str, *claims: str) -> Context:
        """Return the context whose decisions count for the part of these claims that ends so.

        Without claims: of each claim of the test.
        """

        def keep(seen: Sequence[Decision]) -> object:
            return self.keep(
                [
                    replace(one, claim=claim, part=end)
                    for claim in claims or self.claims
                    for one in seen
                ]
            )

        return replace(self, keep=keep) if end else self

    def as_expected(self, reason: str, half: Half) -> None:
        """Say that what an expectation about the cluster asked for was so."""
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
        """Say what an expectation decided about one path, with a reason that is enough on its own, and what was
        expected and observed.

        Not for controls: they decide nothing.  Without ``source`` and ``target`` it is about the cluster; a node in the
        target's place was only read about.
        """
        if self.take:
            self.take(source, target, (verdict, reason, half, symptom))
            return
        if isinstance(target, NodeFacts):
            self.keep(
                [decision.decision_on(target, verdict, reason.partition("\n")[0], half, symptom)]
            )
            return
        change = self.change()
        self.keep(
            decision.decisions_about(
                source,
                target,
                verdict,
                reason.partition("\n")[0],
                half,
                enforced_at=change.enforced_at if change else None,
                symptom=symptom,
            )
        )
