# SPDX-License-Identifier: Apache-2.0
"""Policies of other owners that may determine a path's result in place of the suite's own policies.
They are read before and after an expectation.

If such a policy certainly closes a path, the suite does not wait for the path to open. If such a
policy could explain an unexpected result, the path decides nothing about the cluster.
"""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from conformance.errors import EnvironmentBroken, MissingCapability, Wavered
from conformance.expect.engine.answered import unexpected_backend
from conformance.expect.explain import message
from conformance.model.attempt import Attempt, Kind
from conformance.model.decision import Side
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation, Verdict
from conformance.policy.foreign import ForeignPolicy
from conformance.probe.clocks import unix
from conformance.settings.assumptions import DENIED_VERDICTS

NOT_OURS = "caused neither by Calico nor by this run"
"""The beginning of a message that blames the policy or the change of another owner."""
RESOLVER = Target(host="", port=53, protocol="udp", path=Addressing.EXTERNAL)
"""The target of a pod's DNS queries: the cluster's DNS."""
CLOSED = DENIED_VERDICTS | {Verdict.PROHIBITED, Verdict.REFUSED, Verdict.DNS_FAILED}
"""The verdicts of a path that a policy closes, silently or with a notice to the sender."""
LOST = CLOSED | {
    Verdict.RESET,
    Verdict.ABORTED,
    Verdict.CLOSED,
    Verdict.NO_ANSWER,
    Verdict.UNREACHABLE,
}
"""The verdicts of a lost path."""


@dataclass(frozen=True)
class Times:
    """The times of a path's first attempt, and of its first different result
    (``time.monotonic``)."""

    since: float | None = None
    """The time of the first attempt; None: the path is tried now."""
    otherwise: float | None = None
    """The time of the first result that differed from the earlier results; None: all results were
    the same."""


NOW = Times()


class ForeignPolicyView(Protocol):
    """The policies that the suite did not make."""

    exempt: str
    """Advice about a foreign policy that closes the path."""

    def excuse(
        self,
        source: Workload,
        target: Target,
        observed: Literal["closed", "open"],
        *,
        protocol: str = "",
        times: Times = NOW,
        at: Side = "both",
        lasting: bool = False,
    ) -> str:
        """Return the policies that could explain the observed state, including policies that are
        gone by now.

        ``at``: the end at which the suite's own policies close the path; only there another policy
        can open it. ``lasting``: only policies that existed before the observations and have not
        changed.
        """

    def one_look(self) -> AbstractContextManager[None]:
        """Return a context manager for calls about many paths: within its block, policies are read
        at most once."""

    def blame(
        self,
        policies: Sequence[ForeignPolicy],
        source: Workload,
        target: Target,
        observed: Literal["closed", "open"],
        *,
        protocol: str,
        at: Side = "both",
    ) -> str:
        """Return those of the given policies that could cause the observed result, or an empty
        string if there are none."""

    def forecloses(self, ways: Sequence[tuple[Workload, Target, str]]) -> list[str]:
        """Return for each path the policy that certainly closes it, or an empty string if there is
        no such policy."""

    def observe(
        self, claims: Sequence[str], open_paths: Sequence[tuple[Workload, Target, str]]
    ) -> None:
        """Record the claims of a test, and the paths that were open while no policy of the test was
        in force.

        These records rule out two excuses. A defect of a release excuses no path of a claim about
        this defect. A policy excuses nothing at a pod where another path was open that the policy
        would have closed.
        """

    def explains(
        self, source: Workload, target: Target, protocol: str, *, times: Times = NOW
    ) -> bool:
        """Return whether a policy that existed before and still exists explains a closed path."""

    def defect(self, source: Workload, target: Target, protocol: str) -> str:
        """Return the policy that closes a path by a defect that the test is about, or an empty
        string if there is no such policy."""


class Runs(Protocol):
    """The changes that other runs have made and not undone yet."""

    exempt: str
    """Advice about a change by another run."""

    def look(self) -> None:
        """Remember the changes that are open now."""

    def one_look(self) -> AbstractContextManager[None]:
        """Return a context manager for calls about many paths: within its block, changes are read
        at most once."""

    def excuse(self, nodes: Sequence[str], since: float | None = None) -> str:
        """Return the change that may have closed a path between these nodes, or an empty string if
        there is no such change.

        ``since``: the time of the path's first attempt (``time.monotonic``); None: now.
        """


class NoForeignChanges:
    """A stand-in for :class:`ForeignPolicyView` and :class:`Runs` if there are no policies and no
    changes of other owners."""

    exempt = ""

    def excuse(self, *way: Any, **how: Any) -> str:
        return ""

    def blame(self, policies: Sequence[ForeignPolicy], *way: object, **how: object) -> str:
        return ""

    def look(self) -> None:
        """Do nothing: there are no policies to read."""

    def one_look(self) -> AbstractContextManager[None]:
        return nullcontext()

    def forecloses(self, ways: Sequence[tuple[Workload, Target, str]]) -> list[str]:
        return [""] * len(ways)

    def observe(self, *test: object) -> None:
        """Do nothing: there are no policies that a record could concern."""

    def explains(self, *way: object, **how: object) -> bool:
        return False

    def defect(self, *way: object) -> str:
        return ""


def way(attempt: Attempt) -> tuple[Workload, Target, str]:
    """Return source, target and protocol of an attempt in the form that policies match."""
    over_udp = attempt.kind is Kind.UDP or (attempt.kind is Kind.DNS and not attempt.dns_over_tcp)
    return attempt.source, attempt.target or RESOLVER, "UDP" if over_udp else "TCP"


def demand_open(
    others: ForeignPolicyView, attempts: Sequence[Attempt], *, all_needed: bool
) -> None:
    """Raise MissingCapability if foreign policies certainly close paths that should be open.

    ``all_needed``: raise if one path is closed; otherwise raise only if all paths are closed.
    """
    closing = others.forecloses([way(attempt) for attempt in attempts])
    if closing and (any if all_needed else all)(closing):
        place = next(place for place, reason in enumerate(closing) if reason)
        lack = MissingCapability(
            f"{NOT_OURS}: {closing[place]}; affected: {attempts[place].label}", others.exempt
        )
        lack.cause = shared_cause(closing[place])
        raise lack


def excused(
    others: ForeignPolicyView,
    attempt: Attempt,
    observations: Sequence[Observation],
    *,
    want: bool,
    otherwise: float | None = None,
    at: Side = "both",
    lasting: bool = False,
) -> str:
    """Return the policies of other owners that could explain observations of an open or closed
    path."""
    if not observations or (
        want and not any(observation.verdict in CLOSED for observation in observations)
    ):
        return ""
    source, target, protocol = way(attempt)
    seen_so: Literal["closed", "open"] = "closed" if want else "open"
    side = "both" if want else at
    times = Times(observations[0].at - unix(0.0), otherwise)
    ways = [(target, protocol)]
    if attempt.target and any(
        observation.verdict is Verdict.DNS_FAILED for observation in observations
    ):
        ways.append((RESOLVER, "UDP"))
    reasons = (
        others.excuse(source, each, seen_so, protocol=by, times=times, at=side, lasting=lasting)
        for each, by in ways
    )
    return next(filter(None, reasons), "")


def nodes_of(source: Workload, target: Target | None) -> list[str]:
    """Return the nodes at a path's ends. If the target is on no node, the list has an empty name in
    place of its node."""
    ends = [*target.backends, *([target.at] if target.at else [])] if target else []
    return [source.node, *([end.node for end in ends] or [""])]


def lost_by(runs: Runs, attempt: Attempt, observations: Sequence[Observation]) -> str:
    """Return another run's change that may explain a lost open path. Return an empty string if
    there is no such change, or if another pod answers."""
    if (
        not observations
        or observations[-1].verdict not in LOST
        or any(map(unexpected_backend, observations))
    ):
        return ""
    return runs.excuse(nodes_of(attempt.source, attempt.target), observations[0].at - unix(0.0))


def decided(
    others: ForeignPolicyView | Runs, text: str | Explanation, by: str, *, lasting: bool = True
) -> EnvironmentBroken:
    """Return the error that blames another owner, in place of a message about the observations.

    If the blamed policy is not ``lasting``, the error is of a kind for which the test is run once
    more.
    """
    if isinstance(text, str):  # the text's own advice suspects Calico, so the advice is left out
        text = "\n".join(line for line in text.split("\n") if not line.startswith("  do "))
    kind = EnvironmentBroken if lasting else Wavered
    blame = (
        f"{NOT_OURS}: "
        f"{by}{'' if lasting else ' (it appeared, changed or disappeared at that time)'}"
    )
    if isinstance(text, Explanation):
        explained = message.explained(text, by=blame)
        error = kind(replace(explained, lines={**explained.lines, "do": others.exempt}))
    else:
        error = kind(f"{message.explained(text, by=blame)}\n  do        {others.exempt}")
    error.cause = shared_cause(by)
    return error


def shared_cause(by: str) -> str:
    """Return the part of a message that blames a policy, without the pod's name:
    ``GlobalNetworkPolicy wide denies ingress of the run's pods, and is not part of this run``.
    """
    pods = re.sub(r" of (?!node )[^\s/]+/[^\s;(]+", " of the run's pods", by)
    return f"{pods}, and is not part of this run"
