"""The attempts of one asking from one source: sent to its agent, and sent again while transport errors may pass.

Nothing waits here when the agent is alive.  Starting one, and looking at the pod after an error, takes its time in a
thread of the agents' pool; what is begun meanwhile joins what waits.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken, SuiteError
from conformance.kube.channels import ExecBroken
from conformance.model.attempt import Attempt
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation
from conformance.probe import protocol
from conformance.probe.agent import Agent, AgentRefused, Batch
from conformance.probe.agents import Agents
from conformance.timing import SYSTEM_CLOCK

Told = tuple[int, Observation | None, Exception | None]
"""A ticket, and its observation or its error."""
Hear = Callable[[Sequence[Told]], None]
"""Takes what became of some tickets; called from any thread."""


@dataclass(eq=False)
class Try:
    """One attempt until it has been carried out."""

    ticket: int
    attempt: Attempt
    spec: dict[str, Any]
    begun: float = field(default_factory=time.monotonic)
    tries: int = 0
    history: list[str] = field(default_factory=list)
    """What broke, oldest first."""
    hopeless: bool = False
    """Whether what broke last would break again."""


def _broken(attempt: Try) -> ProbeBroken:
    """Describe an attempt that is not tried again."""
    elapsed = time.monotonic() - attempt.begun
    times = f"{counted(attempt.tries, 'try', 'tries')} in {elapsed:.0f} s"
    transport = "\n".join(dict.fromkeys(attempt.history))
    return ProbeBroken(f"{attempt.history[-1]} ({times})", transport=transport)


class Lane:
    """Attempts from one source.  Thread-safe."""

    def __init__(self, source: Workload, agents: Agents, hear: Hear) -> None:
        self._source = source
        self._agents = agents
        self._hear = hear
        self._program = protocol.AGENTS[source.os]
        patience = agents.settings.timings.of(source.os)
        self._overhead = patience.exec_overhead
        self._budget = patience.exec_overhead + 2 * patience.agent_hello
        """s.  For trying again, from an attempt's begin, without the time in which others were started: two starts."""
        self._lock = threading.Lock()
        self._waiting: list[Try] = []
        self._repairing = False
        self._cancelled = False
        self._under_way: dict[int, tuple[Agent, Batch]] = {}
        """By the batch's id()."""

    def begin(self, tries: Sequence[Try]) -> None:
        """Send them, at once where the agent is alive."""
        with self._lock:
            self._waiting += tries
            if self._repairing:
                return
        if not self._send():
            with self._lock:
                if self._repairing or self._cancelled:
                    return
                self._repairing = True
            self._agents.pool.submit(self._repair)

    @property
    def waits(self) -> bool:
        with self._lock:
            under_way = list(self._under_way.values())
            if self._waiting or self._repairing:
                return True
        return any(agent.holds_back(batch) for agent, batch in under_way)

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            self._waiting.clear()
            under_way = list(self._under_way.values())
            self._under_way = {}
        for agent, batch in under_way:
            agent.cancel(batch)

    def _send(self) -> bool:
        """Hand all that waits to the live agent; False when there is none."""
        return self._agents.with_live(self._source, self._program, self._hand_over)

    def _hand_over(self, agent: Agent) -> bool:
        with self._lock:
            tries = self._waiting
            self._waiting = []
            if not tries:
                return True
            batch = self._batch(agent, tries)
            self._under_way[id(batch)] = (agent, batch)
        if agent.begin(batch):
            self._agents.counts.batches[self._source.node, self._source.os] += 1
            self._agents.counts.attempts[self._source.node, self._source.os] += len(tries)
            return True
        with self._lock:
            self._under_way.pop(id(batch), None)
            self._waiting = [] if self._cancelled else [*tries, *self._waiting]
        return False

    def _batch(self, agent: Agent, tries: Sequence[Try]) -> Batch:
        left = dict(enumerate(tries))
        for attempt in tries:
            attempt.tries += 1

        def heard(results: Sequence[tuple[int, dict[str, Any]]], when: protocol.When) -> None:
            ended = [(left.pop(place), result) for place, result in results]
            if not left:
                self._done(batch)
            told = list[
                Told
            ]()  # at once: each waking of who waits for it costs more than all of this
            for attempt, result in ended:
                try:
                    told.append(
                        (
                            attempt.ticket,
                            protocol.observation(attempt.attempt, result, when, attempt.tries),
                            None,
                        )
                    )
                except ProbeBroken as broken:
                    self._broke([attempt], broken)
            if told:
                self._hear(told)

        def broken(error: ProbeBroken) -> None:
            self._done(batch)
            self._agents.note_error(self._source, self._program, error)
            self._broke(list(left.values()), error)

        within = (
            protocol.PATIENCE * max(attempt.attempt.give_up_after for attempt in tries)
            + self._overhead
        )
        batch = Batch(
            specs=[attempt.spec for attempt in tries], within=within, heard=heard, broken=broken
        )
        return batch

    def _done(self, batch: Batch) -> None:
        with self._lock:
            self._under_way.pop(id(batch), None)

    def _broke(self, tries: Sequence[Try], error: ProbeBroken) -> None:
        hopeless = isinstance(error, AgentRefused) or (
            isinstance(error, ExecBroken) and not error.retryable
        )
        for attempt in tries:
            attempt.history.append(str(error))
            attempt.hopeless = hopeless
        with self._lock:
            if self._cancelled:
                return
            self._waiting += tries
            if self._repairing:
                return
            self._repairing = True
        self._agents.pool.submit(self._repair)

    def _repair(self) -> None:
        """Until nothing waits any more: look at the pod after an error, give up or pause, start an agent, send."""
        try:
            while self._has_work():
                if self._look_after_error() and self._has_agent() and not self._send():
                    self._fail_waiting(
                        ProbeBroken(f"the agent in {self._source.label} ended before it was asked")
                    )
        except Exception as error:  # those who wait for the attempts must hear of any error
            with self._lock:
                self._repairing = False
                tries = self._waiting
                self._waiting = []
            self._hear([(attempt.ticket, None, error) for attempt in tries])

    def _has_work(self) -> bool:
        with self._lock:
            self._repairing = bool(self._waiting)
            return self._repairing

    def _look_after_error(self) -> bool:
        """Give up what is not to be tried again, and pause before the rest is; whether anything is left."""
        with self._lock:
            broken = [attempt for attempt in self._waiting if attempt.history]
        if not broken:
            return True
        happened, unknown = self._happened()
        pause = min(2.0, 0.25 * 2 ** (max(attempt.tries for attempt in broken) - 1))
        for attempt in broken:
            attempt.history[-1] += unknown
            if isinstance(happened, MissingCapability):
                self._give_up(attempt, happened)
            elif happened:
                text = f"{happened}, while it was probing ({attempt.history[-1]})"
                self._give_up(attempt, EnvironmentBroken(text))
            elif attempt.hopeless or attempt.begun + self._budget - time.monotonic() <= pause:
                self._give_up(attempt, _broken(attempt))
        with self._lock:
            again = [attempt for attempt in self._waiting if attempt.history]
        if again:
            self._agents.counts.repeated[self._source.node, self._source.os] += len(again)
            SYSTEM_CLOCK.sleep(pause)
        return bool(again)

    def _happened(self) -> tuple[str | MissingCapability, str]:
        """Return what became of the pod, with an error where its node is gone, and what is not known of it."""
        lack = None
        try:
            happened = self._agents.what_happened(self._source)
            # A node's pods are listed for a while after the node is gone.
            lack = self._agents.gone([self._source])
            happened = str(self._agents.lost([self._source]) or happened).partition("\n")[0]
        except SuiteError as error:  # then at least the probe's own error is known
            return lack or "", f"; whether the pod changed is not known: {error}"
        return lack or happened, ""

    def _has_agent(self) -> bool:
        """Start an agent where none is alive; whether there is one."""
        try:
            self._agents.agent(self._source, self._program, self._postpone)
        except ProbeBroken as broken:
            self._agents.note_error(self._source, self._program, broken)
            self._fail_waiting(broken)
            return False
        return True

    def _postpone(self, seconds: float) -> None:
        """Take what waits for begun so much later."""
        with self._lock:
            for attempt in self._waiting:
                attempt.begun += seconds

    def _fail_waiting(self, error: ProbeBroken) -> None:
        with self._lock:
            tries = self._waiting
            self._waiting = []
        for attempt in tries:
            attempt.tries += 1
        self._broke(tries, error)

    def _give_up(self, attempt: Try, error: Exception) -> None:
        with self._lock:
            if attempt not in self._waiting:
                return  # cancelled meanwhile
            self._waiting.remove(attempt)
        self._hear([(attempt.ticket, None, error)])
