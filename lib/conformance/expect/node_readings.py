"""Expectations about what nodes have, read on each of them: every node is a decision of its own.

What is not there yet may come: calico-node lays routes when a block is claimed, and again when it starts.  A deviation
is believed when it lasts as long as Services may take to come into effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from conformance.errors import MissingCapability, Nonconformance, SuiteError, Unmet, first_line
from conformance.expect import readings
from conformance.expect.tally import Tally
from conformance.expect.traffic import Expect
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact
from conformance.timing import Deadline, until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

T = TypeVar("T")


@dataclass
class NodeReadings:
    """The expectations of one test about facts of nodes."""

    expect: Expect

    def equal(
        self,
        on: Iterable[Workload],
        read: Callable[[str], Mapping[str, Fact[T]]],
        wanted: T,
        *,
        because: str,
        do: str,
    ) -> None:
        """All facts that ``read`` finds of the node of each of these pods have the wanted value.

        ``do``: the command or step that mends it.  A node that nobody may look into is NOT_RUN; raises
        MissingCapability when that is so of all of them, Unmet when a fact is otherwise.
        """
        tally, decided = Tally(self.expect.context, "read"), False
        lacking: MissingCapability | None = None
        deadline: Deadline | None = None
        for pod in {workload.node: workload for workload in on}.values():
            patience = self.expect.timings.of(pod.os)
            deadline = deadline or Deadline(patience.service_effect, self.expect.clock)
            try:
                self._one(pod, read, wanted, within=deadline.remaining, because=because, do=do)
            except MissingCapability as error:
                lacking = lacking or error
                self.expect.context.decided(None, pod, ClaimVerdict.NOT_RUN, first_line(error), "read")
            except (Nonconformance, SuiteError) as error:
                decided = True
                tally.wrong(None, pod, error)
            else:
                decided = True
                tally.right(None, pod, because)
        tally.end()
        if not decided:
            raise lacking or MissingCapability(
                f"no node is there to have {readings.shown(wanted)}", "cover a node: --nodes"
            )

    def _one(
        self,
        pod: Workload,
        read: Callable[[str], Mapping[str, Fact[T]]],
        wanted: T,
        *,
        within: float,
        because: str,
        do: str,
    ) -> None:
        settled = until(
            lambda: _known(read(pod.node)),
            lambda found: all(fact.value == wanted for fact in found.values()),
            within=within,
            every=self.expect.timings.of(pod.os).poll_every,
            description=because,
            clock=self.expect.clock,
        )
        found = settled.last
        expected = readings.shown(wanted)
        rows = [(name, expected, readings.shown(fact.value), fact.value == wanted) for name, fact in found.items()]
        self.expect.context.attach(f"read on node {pod.node}", readings.table(rows, found))
        wrong = [name for name, fact in found.items() if fact.value != wanted]
        if wrong:
            tries = f"read {counted(len(settled.answers), 'time')}, {settled.seconds:.1f} s"
            text = readings.deviation(
                self.expect.context.claims, wrong, found, expected=expected, because=because, do=do, tries=tries
            )
            raise Unmet(text)


def _known(found: Mapping[str, Fact[T]]) -> Mapping[str, Fact[T]]:
    """The facts.  Raises MissingCapability when one could not be read, or there is none."""
    for name, fact in found.items():
        if fact.value is None:
            raise MissingCapability(f"{name} could not be read: {fact.source}", "let the run's pods look into the node")
    if not found:
        raise MissingCapability("nothing is there to be read", "give the cluster a second node with a pod")
    return found
