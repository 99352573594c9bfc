# SPDX-License-Identifier: Apache-2.0
"""Expectations about traffic: reachable, matrix, change, sources, resolves.

Every wait polls until answers agree, and keeps all observations. A denial counts only if all these
conditions are met:

- The verdict is that of a silent drop.
- A control before the denial: the test found the same path open earlier. For a source that was
  created later, another source that was created with it connects.
- A control at the same time: in the same rounds, another attempt of the same source connects. If a
  policy closes that source, an attempt of another source at the same target connects.
- The denial agrees in N rounds in a row, and then lasts.

A failed control raises ControlBroken, and a failed probe raises ProbeBroken. Neither counts as a
denial.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from conformance.errors import (
    EnvironmentBroken,
    Nonconformance,
    ProbeBroken,
    UsageProblem,
    first_line,
)
from conformance.expect import excuses, limitation, resolution
from conformance.expect.addresses import among
from conformance.expect.case import Row
from conformance.expect.engine.answered import telling
from conformance.expect.engine.pairs import each, key, pairs_of
from conformance.expect.explain import message
from conformance.expect.observed_paths import key_of
from conformance.expect.path_decisions import Ask, PathDecisions, Policies
from conformance.model.attempt import Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.observation import Observation
from conformance.verdicts.meaning import of_failure


class Removable(Protocol):
    """Policies in force, which a test can remove."""

    def remove(self) -> None:
        """Delete the policies and wait until they are gone. Raise EnvironmentBroken if a policy
        stays."""


@dataclass(frozen=True, eq=False)
class Expect(PathDecisions):
    """The expectations of a test."""

    def reachable(
        self,
        sources: Workload | Iterable[Workload | Pair],
        targets: Target | Sequence[Target] | None = None,
        *,
        because: str,
        kind: Kind | None = None,
    ) -> list[Observation]:
        """Expect every source to connect to every target; return the last round's observations.

        Without ``targets``, ``sources`` are pairs.
        """
        return self._decide(pairs_of(sources, targets), [], Ask(because=because, kind=kind))[-1]

    def control(
        self,
        sources: Workload | Iterable[Workload | Pair],
        targets: Target | Sequence[Target] | None = None,
        *,
        because: str,
    ) -> list[Observation]:
        """Expect the preconditions of the test, as :meth:`reachable` does; raise ControlBroken if
        they do not hold."""
        ask = Ask(because=because, open_is_control=True)
        return self._decide(pairs_of(sources, targets), [], ask)[-1]

    def controls(self, *rows: Row) -> list[Observation]:
        """Expect what :meth:`matrix` expects, as a precondition of the test.

        Raise ControlBroken if a path is not as expected.
        """
        ask = Ask(open_is_control=True, closed_is_control=True)
        return self._decide(*self._paths_of(self._sampled(rows)), ask)[-1]

    def matrix(
        self,
        *rows: Row,
        new: Iterable[Workload] = (),
        gone: Iterable[Workload] = (),
        lasts: bool = True,
    ) -> list[Observation]:
        """Expect all open paths to connect and all closed paths to time out in the same rounds,
        until N rounds agree.

        ``new``: pods that were created after the policies, so that their paths were never open
        before. As a control, another new pod on the same node reaches the same target in the same
        rounds, or another source reaches the new pod. Later :meth:`removed` shows that the path is
        open without the policies. ``gone``: pods that the test has removed; :meth:`removed` does
        not check their paths. ``lasts``: False for paths that are tried again after the next step;
        their attempts must agree, but the denials need not last.

        Raise Nonconformance with expected and observed next to each other, ControlBroken if a
        control is missing.
        """
        self._so_far.forget(gone)
        opened, shut = self._paths_of(self._sampled(rows))
        ask = Ask(new=frozenset(pod.uid for pod in new), lasts=lasts)
        return self._decide(opened, shut, ask)[-1]

    def change(self, *policies_and_rows: Policies | Row, lasts: bool = True) -> list[Observation]:
        """Expect that applying the policies leaves the cases' open paths open, and closes their
        other paths.

        As the control before the change, all paths are open, except those that an earlier change of
        this test has closed. Raise the errors of :meth:`control` before the change, of
        :meth:`matrix` after it, and of applying the policies. A case that is a ``witness`` shows
        that the policies are in force; another claim decides whether its paths stay open, so here a
        closed witness is a broken control. ``lasts``: as for :meth:`matrix`.
        """
        sampled = self._sampled(policies_and_rows)
        opened, shut = self._paths_of(sampled)
        self._make(sampled, [*opened, *shut])
        witnesses = frozenset(key(*pair) for pair in shut if self._rows[key(*pair)].witness)
        return self._decide(opened, shut, Ask(witnesses=witnesses, lasts=lasts))[-1]

    def base(self, *policies_and_rows: Policies | Row) -> list[Observation]:
        """Expect what :meth:`change` expects, before a further step. The closed paths are a control
        for that step, so denials must agree but need not last. A packet that passes is still a
        failure."""
        return self.under(*policies_and_rows, lasts=False)

    def limitation(self, *policies_and_rows: Policies | Row) -> None:
        """Decide a limitation under the policies: CONFIRMED if the paths are as the cases say,
        LIFTED if each path is reversed, else VIOLATED.

        Each part that cases name is a limitation of its own, and a fault in one part does not
        affect the others. Cases that are a ``witness`` show in the same rounds that the policies
        are in force, and that the pods have a network; witnesses without a part belong to every
        part. Cases that hold ``always`` are VIOLATED if reversed. All paths must be open before the
        change. Raise the errors of :func:`conformance.expect.limitation.decide`.
        """
        sampled = self._sampled(policies_and_rows)
        limited = limitation.of_parts(sampled)
        self._make(sampled, [pair for paths in self._paths_of(sampled) for pair in paths])
        limitation.decide(
            lambda context, opened, closed: replace(self, context=context)._decide(
                opened, closed, Ask()
            ),
            self.context,
            limited,
        )

    def under(self, *policies_and_rows: Policies | Row, lasts: bool = True) -> list[Observation]:
        """Expect what :meth:`change` expects, as a precondition of the test. Raise ControlBroken if
        the precondition does not hold.

        A packet that passes although the policies should close the path raises Nonconformance, not
        ControlBroken.
        """
        sampled = self._sampled(policies_and_rows)
        opened, shut = self._paths_of(sampled)
        self._make(sampled, [*opened, *shut])
        ask = Ask(open_is_control=lasts, closed_is_control=True, lasts=lasts)
        return self._decide(opened, shut, ask)[-1]

    def removed(self, policies: Removable, *, because: str) -> list[Observation]:
        """Remove ``policies``, and expect every path that this test found closed to be open again.
        A path that then connects only sometimes decides nothing (ControlBroken), since policies do
        not cause loss. A path of a new source that stays closed decides nothing either, since the
        path was never found open."""
        if not self._so_far.closed:
            raise UsageProblem(
                "expect.removed(...): this test found no closed path that could be open again"
            )
        policies.remove()
        return self._decide(
            list(self._so_far.closed.values()), [], Ask(because=because, about_denial=True)
        )[-1]

    def sources(
        self,
        *rows: Row,
        are: Callable[[Workload], Sequence[str]],
        control: bool = False,
    ) -> None:
        """Expect each server to receive, at each attempt, one of its client's allowed addresses
        (``are``). ``control``: the open paths are a precondition of the test. Raise the errors of
        :meth:`reported_sources`."""
        wrong: list[tuple[list[Observation], Sequence[str]]] = []
        gone: list[EnvironmentBroken] = []
        pairs, _ = self._paths_of(rows)
        for (source, target), observations in self.reported_sources(
            pairs, because="", control=control
        ).items():
            allowed = are(source)
            if not all(among(observation.seen_client, allowed) for observation in observations):
                sources = message.tally([observation.seen_client for observation in observations])
                reason = f"{observations[-1].attempt.label}  source {sources}"
                if changed := excuses.changed(self, observations[-1].attempt):
                    gone.append(changed)
                    self.context.decided(
                        source, target, of_failure(changed), f"{reason}: {first_line(changed)}"
                    )
                    continue
                self.context.decided(source, target, ClaimVerdict.VIOLATED, reason)
                wrong.append((observations, allowed))
            elif control:
                self._right(source, target)
        if wrong:
            observations, allowed = wrong[0]
            others = [failures[-1].attempt.label for failures, _ in wrong[1:]]
            raise Nonconformance(
                message.explanation(
                    self.context.claims,
                    observations[-1].attempt,
                    expected=f"source {' or '.join(allowed)}",
                    because=self._rows[key_of(observations[-1].attempt)].because,
                    observations=observations,
                    seconds=sum(observation.seconds for observation in observations),
                    further=({"also wrong": "; ".join(others)} if others else {})
                    | {
                        "do": f"look for NAT on node {observations[-1].attempt.source.node}: "
                        "natOutgoing of the IPPools, OutBoundNAT in the CNI plugin's "
                        "configuration file"
                    },
                    observed=f"source {message.tally([observation.seen_client for observation in observations])}",
                ),
                observations=observations,
            )
        if gone:
            raise gone[0]

    def _right(self, source: Workload, target: Target) -> None:
        because = self._rows[key(source, target)].because
        self.context.decided(source, target, ClaimVerdict.CONFIRMED, because)

    def reported_sources(
        self, pairs: Iterable[Pair], *, because: str, control: bool = False
    ) -> dict[Pair, list[Observation]]:
        """Return each path's observations, as :meth:`answers` does. Raise ProbeBroken if a server
        does not report its client's address."""
        found = self.answers(pairs, because=because, control=control)
        for observations in found.values():
            if not all(observation.seen_client for observation in observations):
                raise ProbeBroken(
                    f"{observations[-1].attempt.label}: the server did not report the client's "
                    "address",
                    observations=observations,
                )
        return found

    def answers(
        self, pairs: Iterable[Pair], *, because: str, control: bool = False
    ) -> dict[Pair, list[Observation]]:
        """Expect what :meth:`reachable` or :meth:`control` expects; return each path's observations
        in the agreeing rounds.

        An observation has the source address that the server received, if the server reports it.
        """
        single = each([pairs])
        # For pods, the default kind of attempt makes the server report the source anyway.
        kind = None if single[0][1].backends else telling(single[0][1])
        rounds = self._decide(single, [], Ask(because=because, kind=kind, open_is_control=control))
        return {pair: [round_[index] for round_ in rounds] for index, pair in enumerate(single)}

    def started(self, pods: Iterable[Workload | Target], *, because: str) -> None:
        """Record that these pods, which the test has just started, became ready. A target stands
        for its pods."""
        for pod in pods:
            self.context.decided(None, pod, ClaimVerdict.CONFIRMED, because, "behaviour")

    def resolves(
        self,
        sources: Workload | Iterable[Workload],
        name: str,
        to: Sequence[str],
        *,
        because: str,
        record: str = "A",
        over_tcp: bool = False,
        at: Sequence[Target] = (),
    ) -> None:
        """Expect the name to resolve for each source to exactly these answers, in time.

        Each source uses the pod's own resolver settings. If ``to`` is empty, expect the answer that
        there is no such record. ``at``: the DNS servers to ask instead of those in the resolver
        settings.
        """
        resolution.resolves(
            self,
            [sources] if isinstance(sources, Workload) else list(sources),
            name,
            to,
            because=because,
            record=record,
            over_tcp=over_tcp,
            at=at,
        )

    def _make(self, policies_and_rows: Iterable[Policies | Row], pairs: Iterable[Pair]) -> None:
        """Expect all these paths to be open, except those that an earlier change of this test
        closed; then apply the policies."""
        before = [pair for pair in dict.fromkeys(pairs) if key(*pair) not in self._so_far.closed]
        if before:
            self.control(before, because="before the change nothing closes this path")
        for item in policies_and_rows:
            if not isinstance(item, Row):
                item.apply()
