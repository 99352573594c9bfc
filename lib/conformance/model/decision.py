# SPDX-License-Identifier: Apache-2.0
"""Decisions: a decision is the verdict for one source node and one target node. The verdict of a
claim is computed from decisions.

A Windows node counts by its build. Build 17763 counts as two builds, before revision 1432 and from
1432 on, since Services treat source addresses differently (Calico's limitations page). For all
other builds the build number alone determines HNS' abilities.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from conformance.model.endpoint import Target, Workload
from conformance.model.facts import NodeFacts
from conformance.model.verdict import ClaimVerdict

Half = Literal["open", "closed", "behaviour", "read"]
"""What was observed: an open path, a closed path, another event or action, or only the content of
the cluster's objects."""

Side = Literal["source", "target", "both"]

WRONG = (ClaimVerdict.VIOLATED, ClaimVerdict.UNMET, ClaimVerdict.LIFTED)
_ARRIVED = ("CONNECTED", "REFUSED", "RESET", "CLOSED", "NO_ANSWER")
"""Verdicts of attempts whose packets arrived."""
Symptom = tuple[str, str]
"""An expected result and the observed result."""
UNANSWERED = "got no answer"
"""The last words of the reason for an open path that lost attempts before it was decided."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """An expectation's decision about a path. A decision that names a claim is the test's decision
    between two nodes."""

    source: str
    """The source's node; empty: the source is no pod."""
    target: str
    """The target's node; for a NodePort, the called node. Empty: the target is on no node of the
    cluster, or there is no target."""
    builds: tuple[str, ...]
    """Names of the Windows builds of the source's and the target's nodes, each once
    (:func:`conformance.model.builds.build_name`)."""
    about: tuple[str, ...]
    """The builds that the verdict is about. If the policy is enforced at one end only, the builds
    of that end; otherwise the builds of both ends."""
    verdict: ClaimVerdict
    reason: str
    """The reason, in one line that is understood by itself."""
    halves: tuple[Half, ...]
    """The kinds of observations behind the decision, each once and sorted."""

    expected: str = ""
    """The expected verdict, as messages write it (CONNECTED, TIMED_OUT, ...); several verdicts are
    joined with ``; ``, in the order of :attr:`observed`. Empty: no path and no fact was compared.
    """
    observed: str = ""
    """The newest observation, in the form of :attr:`expected`."""
    enforced: tuple[str, ...] = ()
    """The nodes that enforce the test's policies; empty: the test has applied none."""
    claim: str = ""
    """The claim's id. A decision that names a claim, or a claim and a part, counts only for these.
    Empty: the decision of an expectation, which counts for every claim of its test."""
    part: str = ""
    """The part of the claim that the test decides (a direction between operating systems, a path),
    stable from run to run. In an expectation's decision, the end of the part's name is enough."""
    test: str = ""
    """The test's node id."""

    @property
    def symptoms(self) -> list[Symptom]:
        """Return expected and observed results for each path between the two nodes that ended
        otherwise than expected."""
        return (
            list(zip(self.expected.split("; "), self.observed.split("; "), strict=True))
            if self.expected
            else []
        )

    @property
    def opens(self) -> bool:
        """Return whether traffic gets through on a path that should be closed."""
        return self.verdict is ClaimVerdict.VIOLATED and any(
            expected == "TIMED_OUT" and any(word in observed for word in _ARRIVED)
            for expected, observed in self.symptoms
        )


def _backends(target: Workload | Target | None) -> Sequence[Workload]:
    if isinstance(target, Target):
        return target.backends
    return (target,) if target else ()


def decisions_about(
    source: Workload | None,
    target: Workload | Target | None,
    verdict: ClaimVerdict,
    reason: str,
    half: Half,
    *,
    enforced_at: Side | None = None,
    symptom: Symptom = ("", ""),
) -> tuple[Decision, ...]:
    """Return the decisions about the path from a pod to a target, one for each node with a pod
    behind the target.

    A NodePort has one decision, for the called node, since that node's kube-proxy decides. If the
    called node runs Linux, the verdict also counts for the backends' builds, unless the verdict is
    a failure: nothing shows that the backends cause the failure. ``enforced_at``: the end whose
    node enforces the policy; at the target, policy is enforced on the backends' nodes. None: no
    policy decides.
    """
    backends = _backends(target)
    ends: Sequence[Workload | None] = [
        *{workload.node: workload for workload in backends}.values()
    ] or [None]
    called = target.at if isinstance(target, Target) and enforced_at != "target" else None
    side = enforced_at or "both"
    found = [(end, _builds([source, end]), _about(source, end, side)) for end in ends]
    if called:
        builds = _builds([source, called, *backends])
        about = _about(source, called, side) or (() if verdict in WRONG else builds)
        found = [(called, builds, about)]
    return tuple(
        Decision(
            source=source.node if source else "",
            target=end.node if end else "",
            builds=builds,
            about=about,
            verdict=verdict,
            reason=reason,
            halves=(half,),
            expected=_half_of_symptom(symptom[0]),
            observed=_half_of_symptom(symptom[1]),
            enforced=_enforcing(source, end, enforced_at),
        )
        for end, builds, about in found
    )


def decision_on(
    node: NodeFacts, verdict: ClaimVerdict, reason: str, half: Half, symptom: Symptom = ("", "")
) -> Decision:
    """Return the decision about one node, in which no pod of the suite takes part."""
    builds = (node.build,) if node.build else ()
    return Decision(
        source="",
        target=node.name,
        builds=builds,
        about=builds,
        verdict=verdict,
        reason=reason,
        halves=(half,),
        expected=_half_of_symptom(symptom[0]),
        observed=_half_of_symptom(symptom[1]),
    )


def _enforcing(
    source: Workload | None, target: Workload | None, enforced_at: Side | None
) -> tuple[str, ...]:
    ends = {"source": (source,), "target": (target,), "both": (source, target), None: ()}[
        enforced_at
    ]
    return tuple(dict.fromkeys(end.node for end in ends if end))


def _builds(ends: Iterable[Workload | None]) -> tuple[str, ...]:
    """Return the builds of the Windows pods among some ends of paths."""
    return tuple(sorted({workload.build for workload in ends if workload and workload.build}))


def _about(source: Workload | None, target: Workload | None, enforced_at: Side) -> tuple[str, ...]:
    enforcing = {"source": source, "target": target, "both": None}[enforced_at]
    return _builds([enforcing]) or _builds([source, target])


def _half_of_symptom(words: str) -> str:
    """Return the expected or observed result without ``; ``, which separates symptoms."""
    return words.replace("; ", ", ")
