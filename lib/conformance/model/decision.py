"""Decisions: one verdict for a claim, its part, a source node and a target node; claims' verdicts are made of them.

A Windows node counts by its build: 17763 before and from revision 1432 differ in what Services do with sources
(Calico's limitations page), of all others the build number alone says what HNS can do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from conformance.model.endpoint import Target, Workload
from conformance.model.facts import NodeFacts
from conformance.model.verdict import PRECEDENCE, ClaimVerdict

Half = Literal["open", "closed", "behaviour", "read"]
"""What was seen: a path that is open, one that is closed, something else that happened or was done, or only what the
cluster's objects say."""

Side = Literal["source", "target", "both"]

WRONG = (ClaimVerdict.VIOLATED, ClaimVerdict.UNMET, ClaimVerdict.LIFTED)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one expectation decided about one way, whichever claims its test is about."""

    source: str
    """The source's node; empty: no pod is the source."""
    target: str
    """The target's node, of a NodePort the one that was called; empty: the target is on no node of the cluster, or
    there is none."""
    builds: tuple[str, ...]
    """Names of the Windows builds of these nodes, each once (:func:`conformance.model.builds.build_name`)."""
    about: tuple[str, ...]
    """Those of them that the verdict is about: where a policy is enforced, if that is one of the two, else both."""
    verdict: ClaimVerdict
    reason: str
    """One line: enough on its own."""
    halves: tuple[Half, ...]
    """Which sorts of expectations speak, each once and sorted."""


@dataclass(frozen=True, kw_only=True)
class Decision(Seen):
    """What a test has decided about one claim between two nodes."""

    claim: str
    part: str
    """The claim's part that the test decides (an operating system's direction, a path), stable from run to run."""
    test: str
    """The test's node id."""


def seen(
    source: Workload | None,
    target: Workload | Target | None,
    verdict: ClaimVerdict,
    reason: str,
    half: Half,
    *,
    enforced_at: Side = "both",
) -> tuple[Seen, ...]:
    """What was seen between a pod and a target: one for each node that a pod behind the target stands on.

    Of a NodePort it is one, for the node that was called: that node's kube-proxy decides.  If it is a Linux node, its
    verdict counts for the builds of the backends too, unless something is wrong: then nothing shows that it is theirs.

    ``enforced_at``: the end whose node decides whether it is so; policy at the target is enforced where a backend is.
    """
    backends = target.backends if isinstance(target, Target) else (target,) if target else ()
    ends: Sequence[Workload | None] = list({backend.node: backend for backend in backends}.values()) or [None]
    called = target.at if isinstance(target, Target) and enforced_at != "target" else None
    found = [(end, _builds([source, end]), _about(source, end, enforced_at)) for end in ends]
    if called:
        builds, about = _builds([source, called, *backends]), _about(source, called, enforced_at)
        found = [(called, builds, about or (() if verdict in WRONG else builds))]
    return tuple(
        Seen(
            source=source.node if source else "",
            target=end.node if end else "",
            builds=builds,
            about=about,
            verdict=verdict,
            reason=reason,
            halves=(half,),
        )
        for end, builds, about in found
    )


def seen_on(node: NodeFacts, verdict: ClaimVerdict, reason: str, half: Half) -> Seen:
    """What was seen about one node, without a pod of the suite."""
    builds = (node.build,) if node.build else ()
    return Seen(
        source="", target=node.name, builds=builds, about=builds, verdict=verdict, reason=reason, halves=(half,)
    )


BETWEEN_TWO = (
    ClaimVerdict.VIOLATED,
    ClaimVerdict.INCONCLUSIVE,
    ClaimVerdict.UNMET,
    ClaimVerdict.NOT_RUN,
    ClaimVerdict.LIFTED,
    ClaimVerdict.ADVISED,
    ClaimVerdict.NOT_OBSERVED,
    ClaimVerdict.CONFIRMED,
    ClaimVerdict.NOT_APPLICABLE,
)
"""What counts between one pair of nodes: a way that is as it should be stands beside what is said of a limitation."""


def folded(several: Iterable[Seen]) -> tuple[Seen, ...]:
    """One for each pair of nodes: the verdict that counts most between them, with all halves."""
    found: dict[tuple[str, str], Seen] = {}
    for item in several:
        key = item.source, item.target
        had = found.get(key, item)
        first = min((had, item), key=lambda each: BETWEEN_TWO.index(each.verdict))
        found[key] = replace(
            first,
            builds=tuple(sorted({*had.builds, *item.builds})),
            about=first.about if first.verdict in WRONG else _of_both(had, item, first.verdict),
            halves=tuple(sorted({*had.halves, *item.halves})),
        )
    return tuple(found.values())


def _of_both(one: Seen, other: Seen, verdict: ClaimVerdict) -> tuple[str, ...]:
    """The builds that those of two have shown this verdict for: one may be a way to Linux alone."""
    return tuple(sorted({build for item in (one, other) if item.verdict is verdict for build in item.about}))


def by_build(decisions: Sequence[Seen]) -> dict[str, ClaimVerdict]:
    """Windows build to the verdict that counts most among the decisions about it, in order of the names.

    What is wrong between two Windows nodes counts for one of them alone if that one is wrong elsewhere, too, and the
    other is well with all others.
    """
    found: dict[str, ClaimVerdict] = {}
    for decision in decisions:
        for build in _blamed(decision, decisions):
            found[build] = min(found.get(build, decision.verdict), decision.verdict, key=PRECEDENCE.index)
    return dict(sorted(found.items()))


def over_builds(verdicts: Collection[ClaimVerdict], builds: Mapping[str, ClaimVerdict]) -> ClaimVerdict:
    """The verdict that counts of several about one claim: what one build still has is not LIFTED.

    Within a build LIFTED counts before CONFIRMED: the control that makes it believable is CONFIRMED beside it.
    ``builds``: what was decided on each (:func:`by_build`).
    """
    verdict = next(item for item in PRECEDENCE if item in verdicts)
    still_there = ClaimVerdict.CONFIRMED in builds.values()
    return ClaimVerdict.CONFIRMED if verdict is ClaimVerdict.LIFTED and still_there else verdict


def _blamed(one: Seen, decisions: Sequence[Seen]) -> tuple[str, ...]:
    if one.verdict not in WRONG or len(one.about) < 2:
        return one.about
    for suspect, other in ((one.source, one.target), (one.target, one.source)):
        without_other = [way for way in decisions if suspect in _ends(way) and other not in _ends(way)]
        without_suspect = [way for way in decisions if other in _ends(way) and suspect not in _ends(way)]
        is_well = {way.verdict for way in without_suspect} == {ClaimVerdict.CONFIRMED}
        if is_well and any(way.verdict in WRONG for way in without_other):
            cleared = set.intersection(*(set(way.builds) for way in without_suspect))
            return tuple(build for build in one.about if build not in cleared) or one.about
    return one.about


def _ends(one: Seen) -> tuple[str, str]:
    return one.source, one.target


def _builds(ends: Iterable[Workload | None]) -> tuple[str, ...]:
    """The builds of the Windows pods among them."""
    return tuple(sorted({workload.build for workload in ends if workload and workload.build}))


def _about(source: Workload | None, target: Workload | None, enforced_at: Side) -> tuple[str, ...]:
    enforcing = {"source": source, "target": target, "both": None}[enforced_at]
    return _builds([enforcing]) or _builds([source, target])
