# SPDX-License-Identifier: Apache-2.0
"""What somebody else has decided is not decided by Calico: policies of others, asked before and after an expectation.

A path that such a policy surely closes is not waited for; one that is not as it is to be, and that such a policy could
make so, decides nothing about the cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from conformance.errors import EnvironmentBroken, MissingCapability, Wavered
from conformance.expect.engine.answered import unexpected_backend
from conformance.expect.explain import message
from conformance.model.attempt import Attempt, Kind
from conformance.model.decision import Side
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.explanation import Explanation
from conformance.model.observation import DENIED_VERDICTS, Observation, Verdict
from conformance.policy.foreign import ForeignPolicy
from conformance.probe.clocks import unix

RESOLVER = Target(host="", port=53, protocol="udp", path=Addressing.EXTERNAL)
"""Whatever answers a pod's names: the cluster's DNS."""
CLOSED = DENIED_VERDICTS | {Verdict.PROHIBITED, Verdict.REFUSED, Verdict.DNS_FAILED}
"""How a path ends that a policy closes, where a denial may be told to the sender as well."""
LOST = CLOSED | {
    Verdict.RESET,
    Verdict.ABORTED,
    Verdict.CLOSED,
    Verdict.NO_ANSWER,
    Verdict.UNREACHABLE,
}
"""How a path ends that is lost."""


@dataclass(frozen=True)
class Times:
    """When a path was asked first, and when it first behaved otherwise (``time.monotonic``)."""

    since: float | None = None
    """None: it is asked now."""
    otherwise: float | None = None
    """None: it never behaved otherwise."""


NOW = Times()


class Others(Protocol):
    """What is known of policies that are not the suite's."""

    exempt: str
    """What to do about one that is in the way."""

    def excuse(
        self,
        source: Workload,
        target: Target,
        seen: Literal["closed", "open"],
        *,
        protocol: str = "",
        times: Times = NOW,
        at: Side = "both",
        lasting: bool = False,
    ) -> str:
        """Return which could give what was seen; it may be gone since a look has found it.

        ``at``: the end at which the suite's own policies close it, since only there another can open it.
        ``lasting``: only those that were there before that, and still are as they were.
        """

    def blame(
        self,
        policies: Sequence[ForeignPolicy],
        source: Workload,
        target: Target,
        seen: Literal["closed", "open"],
        *,
        protocol: str,
        at: Side = "both",
    ) -> str:
        """Return which of these policies could give what was observed; empty: none."""

    def forecloses(self, ways: Sequence[tuple[Workload, Target, str]]) -> list[str]:
        """For each way which policy surely closes it; empty: none."""


class Runs(Protocol):
    """What is known of changes that other runs have made and not put back yet."""

    exempt: str
    """What to do about one that is in the way."""

    def look(self) -> None:
        """Remember those that are open now."""

    def excuse(self, nodes: Sequence[str], since: float | None = None) -> str:
        """Which may have lost a path between these nodes since then (``time.monotonic``; None: now); empty: none."""


class Nobody:
    """Where nothing is known of others."""

    exempt = ""

    def excuse(self, *way: object, **how: object) -> str:
        return ""

    def blame(self, policies: Sequence[ForeignPolicy], *way: object, **how: object) -> str:
        return ""

    def look(self) -> None:
        """Nothing to look at."""

    def forecloses(self, ways: Sequence[tuple[Workload, Target, str]]) -> list[str]:
        return [""] * len(ways)


def way(attempt: Attempt) -> tuple[Workload, Target, str]:
    """Source, target and protocol of an attempt as policies see them."""
    over_udp = attempt.kind is Kind.UDP or (attempt.kind is Kind.DNS and not attempt.dns_over_tcp)
    return attempt.source, attempt.target or RESOLVER, "UDP" if over_udp else "TCP"


def demand_open(others: Others, attempts: Sequence[Attempt], *, all_needed: bool) -> None:
    """Raises MissingCapability where policies of others surely close what is to be open: all of it, or any."""
    closing = others.forecloses([way(attempt) for attempt in attempts])
    if closing and (any if all_needed else all)(closing):
        place = next(place for place, told in enumerate(closing) if told)
        raise MissingCapability(
            f"{closing[place]}, and that is not this run's: {attempts[place].label}", others.exempt
        )


def excused(
    others: Others,
    attempt: Attempt,
    seen: Sequence[Observation],
    *,
    want: bool,
    otherwise: float | None = None,
    at: Side = "both",
    lasting: bool = False,
) -> str:
    """Which policies of others could give what was seen on a way that is to be open, or closed."""
    if not seen or (want and not any(one.verdict in CLOSED for one in seen)):
        return ""
    source, target, protocol = way(attempt)
    seen_so: Literal["closed", "open"] = "closed" if want else "open"
    side = "both" if want else at
    times = Times(seen[0].at - unix(0.0), otherwise)
    ways = [(target, protocol)]
    if attempt.target and any(one.verdict is Verdict.DNS_FAILED for one in seen):
        ways.append((RESOLVER, "UDP"))
    told = (
        others.excuse(source, each, seen_so, protocol=by, times=times, at=side, lasting=lasting)
        for each, by in ways
    )
    return next(filter(None, told), "")


def nodes_of(source: Workload, target: Target | None) -> list[str]:
    """Return the nodes of a path's ends; a target that is on none of them has the empty name."""
    ends = [*target.backends, *([target.at] if target.at else [])] if target else []
    return [source.node, *([end.node for end in ends] or [""])]


def lost_by(runs: Runs, attempt: Attempt, seen: Sequence[Observation]) -> str:
    """Which change of another run may have lost a path that is to be open; empty: none, or another pod answers."""
    if not seen or seen[-1].verdict not in LOST or any(map(unexpected_backend, seen)):
        return ""
    return runs.excuse(nodes_of(attempt.source, attempt.target), seen[0].at - unix(0.0))


def decided(
    others: Others | Runs, text: str | Explanation, by: str, *, lasting: bool = True
) -> EnvironmentBroken:
    """The failure that somebody else's policy is, in place of a message about what was seen.

    Unless that is ``lasting``, the test may show more once it is run again.
    """
    kind = EnvironmentBroken if lasting else Wavered
    told = f"{by}, and that is not this run's"
    told += "" if lasting else ", and came, changed or went about then"
    if isinstance(text, Explanation):
        explained = message.explained(text, by=told)
        return kind(replace(explained, lines={**explained.lines, "do": others.exempt}))
    return kind(f"{message.explained(text, by=told)}\n  do        {others.exempt}")
