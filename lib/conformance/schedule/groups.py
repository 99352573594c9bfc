# SPDX-License-Identifier: Apache-2.0
"""Claims that cannot be decided on a cluster, grouped by reason. The run's header shows them before
tests are collected."""

from collections.abc import Iterator
from dataclasses import dataclass

from conformance.catalog import Catalog
from conformance.catalog.claims import IsolationKind
from conformance.model.counted import counted
from conformance.model.facts import Facts
from conformance.schedule import plan
from conformance.schedule.plan import PlannedTest
from conformance.settings import Settings
from conformance.verdicts.prospect import ClaimPart

NAMED = 6
"""The maximum number of claims that a group names. A larger group shows their number and areas."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Claims that cannot be decided for the same reason."""

    elsewhere: bool
    """True if the claims do not apply to this cluster; False if the cluster, or the run, lacks
    something."""
    reason: str
    remedy: str
    claims: tuple[str, ...]
    areas: tuple[str, ...]

    def __str__(self) -> str:
        """Return ``12 claims (Network policy): it writes Calico policies, ...; install Calico's API
        server ...``."""
        who = (
            ", ".join(self.claims)
            if len(self.claims) <= NAMED
            else f"{len(self.claims)} claims ({', '.join(self.areas)})"
        )
        return f"{who}: {self.reason}{f'; {self.remedy}' if self.remedy else ''}"


def groups(claims: Catalog, facts: Facts, settings: Settings) -> tuple[Group, ...]:
    """Return the groups, the largest first. A claim that a person decides is in a group only if it
    does not apply to this cluster."""
    found: dict[tuple[bool, str, str], dict[str, str]] = {}
    for claim in claims.values():
        test = PlannedTest(test="", parts=(ClaimPart(claim=claim.id),), needs=claim.needs)
        prospect = plan.prospect_of(test, claims, facts, settings)
        if prospect.verdict and (
            prospect.elsewhere or claim.isolation.kind is not IsolationKind.MANUAL
        ):
            reason = prospect.reason.removeprefix(f"{claim.id}: ")
            found.setdefault((prospect.elsewhere, reason, prospect.remedy), {})[claim.id] = (
                claim.area
            )
    made = [
        Group(
            elsewhere=elsewhere,
            reason=reason,
            remedy=remedy,
            claims=tuple(there),
            areas=tuple(dict.fromkeys(there.values())),
        )
        for (elsewhere, reason, remedy), there in found.items()
    ]
    return tuple(sorted(made, key=lambda group: (-len(group.claims), group.reason)))


def counted_line(claims: Catalog, facts: Facts, settings: Settings) -> str:
    """Return one line with the numbers of claims that apply here, that can be checked here, and
    that do not apply."""
    found = groups(claims, facts, settings)
    elsewhere = sum(len(group.claims) for group in found if group.elsewhere)
    lacking = sum(len(group.claims) for group in found) - elsewhere
    checked = f"{lacking} of them cannot be checked here" if lacking else "all can be checked"
    apply = counted(len(claims) - elsewhere, "claim applies", "claims apply")
    others = counted(elsewhere, "does", "do")
    return f"claims: {apply} here, {checked}; {others} not apply (-v shows the reasons)"


def lines(claims: Catalog, facts: Facts, settings: Settings) -> Iterator[str]:
    """Yield a line for each group of claims that apply to this cluster, and one line for all other
    groups."""
    found = groups(claims, facts, settings)
    lacking = [group for group in found if not group.elsewhere]
    yield from (f"not here: {group}" for group in lacking)
    others = [group for group in found if group.elsewhere]
    if others:
        count = sum(len(group.claims) for group in others)
        about = "; ".join(
            f"{len(group.claims)} {group.reason.removeprefix('it is ').partition('; here: ')[0]}"
            for group in others  # "3 about mode bgp", of "it is about mode bgp; here: mode vxlan"
        )
        yield f"not about this cluster: {count} claims: {about}"
