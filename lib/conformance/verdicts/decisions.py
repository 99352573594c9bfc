# SPDX-License-Identifier: Apache-2.0
"""Combines decisions: between two nodes, about a Windows build, and about a claim."""

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
"""The order in which verdicts about one pair of nodes count. It differs from the order for claims,
since a pair may have an expected path as well as a limitation."""


def folded(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Return one decision for each pair of nodes, with the verdict that counts most and the kinds
    of observations behind all decisions about the pair."""
    found: dict[tuple[str, str], Decision] = {}
    for item in decisions:
        key = item.source, item.target
        had = found.get(key, item)
        first = min((had, item), key=lambda each: BETWEEN_TWO.index(each.verdict))
        # Keep all symptoms where both verdicts agree: a failure with another symptom must not be lost.
        same = [each.symptoms for each in (had, item) if each.verdict is first.verdict]
        distinct = list(dict.fromkeys(symptom for symptoms in same for symptom in symptoms))
        found[key] = replace(
            first,
            builds=tuple(sorted({*had.builds, *item.builds})),
            about=first.about if first.verdict in WRONG else _of_both(had, item, first.verdict),
            halves=tuple(sorted({*had.halves, *item.halves})),
            enforced=tuple(dict.fromkeys((*had.enforced, *item.enforced))),
            expected="; ".join(symptom[0] for symptom in distinct),
            observed="; ".join(symptom[1] for symptom in distinct),
        )
    return tuple(found.values())


def _of_both(decision: Decision, other: Decision, verdict: ClaimVerdict) -> tuple[str, ...]:
    """Return the builds for which two decisions give a verdict. If only one of them gives it,
    return the builds of that decision: the other decision may be about a path to Linux."""
    return tuple(
        sorted(
            {build for item in (decision, other) if item.verdict is verdict for build in item.about}
        )
    )


def by_build(decisions: Sequence[Decision]) -> dict[str, ClaimVerdict]:
    """Map each Windows build to the verdict that counts most among its decisions, in order of the
    names.

    A failure between two Windows nodes counts for only one of them if that node fails on other
    paths, too, and the other node does not.
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
    """Return the verdict that counts for a claim over its builds: a limitation that one build still
    has is not LIFTED.

    Within a build LIFTED has precedence over CONFIRMED: the control that makes LIFTED credible is
    CONFIRMED, too. ``builds``: the verdict for each build (:func:`by_build`).
    """
    verdict = next(item for item in PRECEDENCE if item in verdicts)
    still_there = ClaimVerdict.CONFIRMED in builds.values()
    return ClaimVerdict.CONFIRMED if verdict is ClaimVerdict.LIFTED and still_there else verdict


def _blamed(decision: Decision, decisions: Sequence[Decision]) -> tuple[str, ...]:
    """Return the builds for which a decision counts."""
    if decision.verdict not in WRONG or len(decision.about) < 2:
        return decision.about
    for suspect, other in ((decision.source, decision.target), (decision.target, decision.source)):
        others = _apart(other, suspect, decisions)
        is_well = {decision.verdict for decision in others} == {ClaimVerdict.CONFIRMED}
        if is_well and any(item.verdict in WRONG for item in _apart(suspect, other, decisions)):
            cleared = set.intersection(*(set(decision.builds) for decision in others))
            return (
                tuple(build for build in decision.about if build not in cleared) or decision.about
            )
    return decision.about


def _apart(node: str, other: str, decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions about a node that do not involve the other node."""
    ends = ((decision, (decision.source, decision.target)) for decision in decisions)
    return [decision for decision, nodes in ends if node in nodes and other not in nodes]
