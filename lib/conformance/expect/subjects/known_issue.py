# SPDX-License-Identifier: Apache-2.0
"""Expectations about issues that can happen: an issue happened, or it did not happen although a
witness shows that its conditions were met."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.errors import MissingCapability
from conformance.expect.check import Judged, Ruling
from conformance.expect.engine.answered import as_wanted, telling, unexpected_backend, with_who
from conformance.expect.explain import message
from conformance.expect.poll import poll
from conformance.expect.subject import Subject
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.facts import Fact, NodeFacts
from conformance.verdicts.meaning import of_chance


@dataclass
class KnownIssue(Subject):
    """The expectations of a test about a known issue. Paths on which the issue does not happen are
    NOT_OBSERVED."""

    def may_be_cut_off(
        self, source: Workload, targets: Sequence[Target], *, beside: Target, because: str
    ) -> None:
        """Record for each of these targets whether the source reaches it, as :meth:`may_fail` does.
        All targets have the same witness."""
        self.may_fail(source, [(target, beside) for target in targets], because=because)

    def may_fail(
        self, source: Workload, goals: Sequence[tuple[Target, Target]], *, because: str
    ) -> None:
        """Record whether connections to the first target of each pair fail while connections to the
        second succeed.

        Connections failed if consecutive attempts did not connect within the time that a change of
        a Service may take: rules that come late are no failure. Raise Nonconformance if another pod
        answers.
        """
        self.paths_may_fail(
            [(source, target) for target, _ in goals],
            beside=[(source, witness) for _, witness in goals],
            because=because,
        )

    def paths_may_fail(
        self, paths: Sequence[Pair], *, beside: Sequence[Pair], because: str
    ) -> None:
        """Record whether each of these paths fails while all the witnesses connect, as
        :meth:`may_fail` does."""
        expect = self.expect
        expect.control(beside, because=f"the witness: {because}")
        attempts = [
            Attempt(
                source=source,
                target=target,
                kind=telling(target),
                give_up_after=expect.timings.of(source.os).http_give_up,
            )
            for source, target in paths
        ]
        polled = poll(
            expect,
            attempts,
            lambda observations: all(as_wanted(observation, True) for observation in observations),
            because=because,
        )
        expect.control(beside, because=f"the witness, again: {because}")
        expect.context.sink.attach(
            "known issue",
            "\n".join(
                [
                    f"{attempt.label}: {message.summary(observations)}"
                    for attempt, observations in polled
                ]
            ),
        )

        def judge(index: int) -> Judged:
            observations = polled.observations(index)
            if unexpected_backend(observations[-1]):
                return polled.nonconformance(index, "CONNECTED, or no answer at all", {})
            if as_wanted(observations[-1], True):
                times = counted(len(observations), "time")
                return Ruling(
                    with_who(
                        f"{attempts[index].label} connected {times}, although it may fail",
                        observations[-1:],
                    ),
                    ClaimVerdict.NOT_OBSERVED,
                )
            return because

        self.check("behaviour", polled.cases(), judge)

    def may_be_read(
        self, read: Callable[[str], Fact[bool]], *, on: Sequence[NodeFacts], because: str, do: str
    ) -> None:
        """Record for each node whether the issue has occurred there, as ``read`` reports. The value
        that ``read`` returns may be unknown.

        ``do``: the step that makes an unknown value known. Raise MissingCapability if the value is
        unknown on every node.
        """
        unknown = list[str]()

        def judge(node: NodeFacts) -> Judged:
            found = read(node.name)
            if found.value is None:
                unknown.append(found.source)
            return Ruling(
                f"{because} ({found.source})" if found.value else found.source,
                of_chance(found.value),
            )

        self.check("behaviour", [(None, node, node) for node in on], judge)
        if len(unknown) == len(on):
            raise MissingCapability(unknown[0] if unknown else "no Windows node is covered", do)
