# SPDX-License-Identifier: Apache-2.0
"""What several decisions say together: between two nodes, of a Windows build, of a claim."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from conformance.model.decision import WRONG, Decision
from conformance.model.verdict import PRECEDENCE, ClaimVerdict

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
"""What counts between one pair of nodes: a path that is as it should be stands beside what is said of a limitation."""


def folded(several: Iterable[Decision]) -> tuple[Decision, ...]:
    """One for each pair of nodes: the verdict that counts most between them, with all halves."""
    found: dict[tuple[str, str], Decision] = {}
    for item in several:
        key = item.source, item.target
        had = found.get(key, item)
        first = min((had, item), key=lambda each: BETWEEN_TWO.index(each.verdict))
        # All that was seen where both say the same: a wrong one that looks otherwise is not to be lost.
        same = [each.symptoms for each in (had, item) if each.verdict is first.verdict]
        told = list(dict.fromkeys(symptom for several in same for symptom in several))
        found[key] = replace(
            first,
            builds=tuple(sorted({*had.builds, *item.builds})),
            about=first.about if first.verdict in WRONG else _of_both(had, item, first.verdict),
            halves=tuple(sorted({*had.halves, *item.halves})),
            enforced=tuple(dict.fromkeys((*had.enforced, *item.enforced))),
            expected="; ".join(symptom[0] for symptom in told),
            observed="; ".join(symptom[1] for symptom in told),
        )
    return tuple(found.values())


def _of_both(one: Decision, other: Decision, verdict: ClaimVerdict) -> tuple[str, ...]:
    """The builds that those of two have shown this verdict for: one may be a path to Linux alone."""
    return tuple(
        sorted({build for item in (one, other) if item.verdict is verdict for build in item.about})
    )


def by_build(decisions: Sequence[Decision]) -> dict[str, ClaimVerdict]:
    """Windows build to the verdict that counts most among the decisions about it, in order of the names.

    What is wrong between two Windows nodes counts for one of them alone if that one is wrong elsewhere, too, and the
    other is well with all others.
    """
    found: dict[str, ClaimVerdict] = {}
    for decision in decisions:
        for build in _blamed(decision, decisions):
            found[build] = min(
                found.get(build, decision.verdict), decision.verdict, key=PRECEDENCE.index
            )
    return dict(sorted(found.items()))


def over_builds(
    verdicts: Collection[ClaimVerdict], builds: Mapping[str, ClaimVerdict]
) -> ClaimVerdict:
    """The verdict that counts of several about one claim: what one build still has is not LIFTED.

    Within a build LIFTED counts before CONFIRMED: the control that makes it believable is CONFIRMED beside it.
    ``builds``: what was decided on each (:func:`by_build`).
    """
    verdict = next(item for item in PRECEDENCE if item in verdicts)
    still_there = ClaimVerdict.CONFIRMED in builds.values()
    return ClaimVerdict.CONFIRMED if verdict is ClaimVerdict.LIFTED and still_there else verdict


def _blamed(one: Decision, decisions: Sequence[Decision]) -> tuple[str, ...]:
    """Return the builds that a decision counts for."""
    if one.verdict not in WRONG or len(one.about) < 2:
        return one.about
    for suspect, other in ((one.source, one.target), (one.target, one.source)):
        others = _apart(other, suspect, decisions)
        is_well = {decision.verdict for decision in others} == {ClaimVerdict.CONFIRMED}
        if is_well and any(item.verdict in WRONG for item in _apart(suspect, other, decisions)):
            cleared = set.intersection(*(set(decision.builds) for decision in others))
            return tuple(build for build in one.about if build not in cleared) or one.about
    return one.about


def _apart(node: str, other: str, decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions about a node that are not about another node."""
    ends = ((decision, (decision.source, decision.target)) for decision in decisions)
    return [decision for decision, nodes in ends if node in nodes and other not in nodes]
