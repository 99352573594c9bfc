"""Expectations about issues that can happen: they did, or they did not although something shows that they could."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.errors import MissingCapability, Nonconformance, SuiteError
from conformance.expect.engine.answered import as_wanted, telling, unexpected_backend, with_who
from conformance.expect.explain import message
from conformance.expect.poll import poll
from conformance.expect.tally import Tally
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import Fact, NodeFacts
from conformance.verdicts.meaning import of_chance

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


@dataclass
class KnownIssue:
    """A known issue of one test; paths on which it does not happen are NOT_OBSERVED."""

    expect: Expect

    def may_be_cut_off(
        self, source: Workload, targets: Sequence[Target], *, beside: Target, because: str
    ) -> None:
        """As :meth:`may_fail`, with one witness for all."""
        self.may_fail(source, [(target, beside) for target in targets], because=because)

    def may_fail(
        self, source: Workload, goals: Sequence[tuple[Target, Target]], *, because: str
    ) -> None:
        """Connecting to the first of each two targets may fail, while the second connects; whether it did is recorded.

        It failed if it has not connected, several times in a row, by the time in which a change of a Service has to
        take effect: rules that came late are no failure.  Raises Nonconformance when another pod answers.
        """
        expect = self.expect
        beside = [witness for _, witness in goals]
        expect.control(source, beside, because=f"the witness: {because}")
        give_up = expect.timings.of(source.os).http_give_up
        attempts = [
            Attempt(source=source, target=target, kind=telling(target), give_up_after=give_up)
            for target, _ in goals
        ]
        polled = poll(
            expect,
            attempts,
            lambda seen: all(as_wanted(observation, True) for observation in seen),
            because=because,
        )
        expect.control(source, beside, because=f"the witness, again: {because}")
        with Tally(expect.context, "behaviour") as tally:
            lines = list[str]()
            for index, (attempt, seen) in enumerate(polled):
                lines.append(f"{attempt.label}: {message.summary(seen)}")
                if unexpected_backend(seen[-1]):
                    text = polled.message(index, "CONNECTED, or no answer at all", {})
                    tally.wrong(source, attempt.target, Nonconformance(text, seen=seen))
                elif as_wanted(seen[-1], True):
                    connected = (
                        f"{attempt.label} connected {counted(len(seen), 'time')}, where it may fail"
                    )
                    reason = with_who(connected, seen[-1:])
                    tally.right(source, attempt.target, reason, ClaimVerdict.NOT_OBSERVED)
                else:
                    tally.right(source, attempt.target, because)
            expect.context.sink.attach("known issue", "\n".join(lines))

    def may_be_read(
        self, read: Callable[[str], Fact[bool]], *, on: Sequence[NodeFacts], because: str, do: str
    ) -> None:
        """What a look into each node tells: it has happened there, it has not, or (not known) nothing shows either.

        ``do``: what makes it known.  Raises MissingCapability where it is known of no node.
        """
        with Tally(self.expect.context, "behaviour") as tally:
            unknown = list[str]()
            for node in on:
                try:
                    found = read(node.name)
                except SuiteError as error:
                    tally.wrong(None, node, error)
                    continue
                if found.value is None:
                    unknown.append(found.source)
                reason = f"{because} ({found.source})" if found.value else found.source
                tally.right(None, node, reason, of_chance(found.value))
        if len(unknown) == len(on):
            raise MissingCapability(unknown[0] if unknown else "no Windows node is covered", do)
