# SPDX-License-Identifier: Apache-2.0
"""The live agents of a process: started when needed, asked, repaired, and ended when a slot is
needed.

Attempts are sent at once if their agent is alive. Starting an agent, and reading its pod after an
error, takes time. A thread of the pool does this, one for each source; attempts that begin
meanwhile wait for it. Transport errors are retried as long as they may pass.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from conformance.errors import (
    EnvironmentBroken,
    MissingCapability,
    ProbeBroken,
    SuiteError,
    first_line,
)
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Kube
from conformance.kube.transcript import Transcript
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.pods.nodes_gone import gone
from conformance.pods.nodes_lost import NodeWatch
from conformance.pods.pod_changes import changed, changed_among
from conformance.probe import protocol
from conformance.probe.agent import Agent, AgentRefused, Results
from conformance.probe.asking import Answered, Inbox, Pending
from conformance.probe.limits import Counts, Limits
from conformance.probe.live_agents import Bound, bound_of
from conformance.probe.slots import Slot, Slots
from conformance.settings import Settings
from conformance.timing import SYSTEM_CLOCK

_Key = tuple[str, str]
"""A pod's uid and a program's name."""

LOOK = 0.1
"""The interval, in seconds, between two checks for silent or late agents."""
GIVE_WAY = 0.5
"""The interval, in seconds, at which a process with more than its share of agents checks whether
another process waits for a slot."""
AT_REST = 0.1
"""An agent that was idle for this many seconds is hardly needed at this moment."""
UNUSED = 5.0
"""An agent that was idle for this many seconds leaves its slot to another process that waits, even
if its own process holds no more than its share. This time is shorter than ``agent_slot`` (30 s),
the longest wait for a slot. It is longer than the start of an agent on Windows (2 to 4 s), since
the ended agent may have to be started again."""


class Agents:
    """The agents in the pods of a cluster, at most one of each program in a pod.  Thread-safe."""

    def __init__(  # noqa: PLR0917
        self,
        kube: Kube,
        run_directory: Path,
        settings: Settings,
        transcript: Transcript,
        limits: Limits,
        watch: NodeWatch | None = None,
    ) -> None:
        self.kube = kube
        self.settings = settings
        self.limits = limits
        self.slots = Slots(run_directory)
        self.counts = Counts()
        self.watch = watch or NodeWatch(kube)
        self.pool = ThreadPoolExecutor(limits.sources, thread_name_prefix="probe")
        """Threads for slow work: starting agents, checking pods, pauses."""
        self._transcript = transcript
        self._lock = threading.Lock()
        self._agents: dict[_Key, Agent] = {}
        self._waiting: dict[_Key, list[Pending]] = {}
        """The attempts that wait for the repair of each agent. A key stays as long as the repair is
        under way."""
        self._starting: dict[_Key, threading.Lock] = {}
        self._broken_before: set[_Key] = set()
        self._restarted: Counter[_Key] = Counter()
        self._error: dict[_Key, str] = {}
        """The last error of each agent."""
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="agents", daemon=True).start()

    def agent(
        self,
        source: Workload,
        program: protocol.Program,
        waited: Callable[[float], object] = lambda seconds: None,
    ) -> Agent:
        """Return the live agent of a program in a pod; start it if there is none. Raise
        ProbeBroken.

        ``waited`` receives the seconds of waiting for other agents' starts, which do not count as
        the agent's own time.
        """
        key = (source.uid, program.name)
        within = self.settings.timings.of(source.os).agent_slot
        with self._lock:
            starting = self._starting.setdefault(key, threading.Lock())
        with starting:
            with self._lock:
                known = self._agents.get(key)
                if known and known.alive:
                    known.used = time.monotonic()
                    return known
            if known:
                self._drop(key)
            with ExitStack() as slots:
                waited(self._take_slots(source, within, slots))
                agent = self._start(source, program, within, waited)
                agent.slots = slots.pop_all()
            with self._lock:
                self._agents[key] = agent
            return agent

    def begin(self, attempts: Iterable[Pending]) -> None:
        """Send attempts at once to agents that are alive; other attempts wait for the start of
        their agent."""
        by_source: dict[str, list[Pending]] = {}
        for pending in attempts:
            by_source.setdefault(pending.attempt.source.uid, []).append(pending)
        for batch in by_source.values():
            if unsent := self._send(batch):
                self._wait(unsent)

    def waits(self, source: str, inbox: Inbox) -> bool:
        """Return whether attempts of a pod for an inbox have not been sent yet, because its agent
        is in repair or busy."""
        with self._lock:
            if any(uid == source for uid, _ in self._waiting):
                return True
            agents = [agent for (uid, _), agent in self._agents.items() if uid == source]
        return any(agent.holds_back(inbox) for agent in agents)

    def cancel(self, inbox: Inbox) -> None:
        """End all attempts of an inbox."""
        with self._lock:
            inbox.closed = True
            agents = list(self._agents.values())
        for agent in agents:
            agent.cancel(inbox)

    def starting(
        self, source: Workload, within: float, purpose: str = ""
    ) -> AbstractContextManager[Slot]:
        """Hold a slot for the start of a program in a pod. Raise ProbeBroken if no slot is free in
        time."""
        if source.os == "windows":
            return self.slots.hold(
                f"powershell-{source.node}", self.limits.powershell_starts, within, purpose
            )
        return self.slots.hold(f"python-{source.node}", self.limits.agents, within, purpose)

    def revalidate(self) -> None:
        """End the agents of changed pods."""
        with self._lock:
            known = {key: agent.workload for key, agent in self._agents.items()}
        gone = set(changed_among(self.kube, known.values()))
        for key in known:
            if key[0] in gone:
                self._drop(key)

    def trouble(
        self, workloads: Collection[Workload]
    ) -> MissingCapability | EnvironmentBroken | None:
        """Return the error if these pods have changed: EnvironmentBroken for a changed pod or dead
        node, MissingCapability for a removed node. None: they have not changed."""
        each = map if len(workloads) == 1 else self.pool.map
        changes = [text for text in each(self._change, workloads) if text]
        nodes = list(dict.fromkeys(workload.node for workload in workloads))
        # A node's pods are listed for a while after the node is gone.
        by_list = self.watch.lists(nodes)
        if found := gone(self.kube, nodes, by_list=by_list) or self.watch.lost(nodes):
            return found
        return EnvironmentBroken("; ".join(changes)) if changes else None

    def _change(self, source: Workload) -> str:
        text = changed(source, self.kube.find("v1", "Pod", source.pod, source.namespace))
        return text and f"{text}{self.watch.closed(source.node)}"

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            agents = list(self._agents.values())
            self._agents = {}
        list(self.pool.map(Agent.close, agents))
        self.pool.shutdown()

    def _send(self, attempts: Sequence[Pending], *, repaired: bool = False) -> list[Pending]:
        """Pass attempts of a source to its live agent, and return those that could not be sent.

        While a repair is under way, only the repair (``repaired``) sends attempts. No agent is
        ended meanwhile to make room.
        """
        key = _key(attempts[0].attempt.source)
        unsent: list[Pending] = []
        with self._lock:
            agent = None if key in self._waiting and not repaired else self._agents.get(key)
            for batch in _by_inbox(attempts):
                if agent is None or not agent.alive or not self._hand_over(agent, batch):
                    unsent += batch
        return unsent

    def _hand_over(self, agent: Agent, attempts: Sequence[Pending]) -> bool:
        """Send attempts of an inbox; return False if the agent is dead."""
        for pending in attempts:
            pending.tries += 1
        longest = max(pending.attempt.give_up_after for pending in attempts)
        overhead = self.settings.timings.of(agent.workload.os).exec_overhead
        if not agent.begin(attempts, protocol.PATIENCE * longest + overhead):
            return False
        where = (agent.workload.node, agent.workload.os)
        self.counts.batches[where] += 1
        self.counts.attempts[where] += len(attempts)
        return True

    def _deliver(self, results: Results, when: protocol.When) -> None:
        """Deliver all results of a line to their inbox at once: waking the inbox's reader for each
        result would cost more than the delivery."""
        answered = []
        for pending, result in results:
            try:
                observation = protocol.observation(pending.attempt, result, when, pending.tries)
                answered.append(Answered(pending.ticket, observation))
            except ProbeBroken as broken:
                self._broke([pending], broken)
        if answered:
            results[0][0].inbox.arrived.put(answered)

    def _broke(self, attempts: Sequence[Pending], error: ProbeBroken) -> None:
        """Record the error of a source's attempts, which then wait for a repair."""
        hopeless = isinstance(error, AgentRefused) or (
            isinstance(error, ExecBroken) and not error.retryable
        )
        if not isinstance(error, AgentRefused):
            self._error[_key(attempts[0].attempt.source)] = str(error)
        for pending in attempts:
            pending.errors.append(str(error))
            pending.hopeless = hopeless
        self._wait(attempts)

    def _wait(self, attempts: Sequence[Pending]) -> None:
        """Add attempts of a source to those that wait for the repair of its agent. Begin the repair
        unless it is under way."""
        source = attempts[0].attempt.source
        with self._lock:
            is_under_way = _key(source) in self._waiting
            self._waiting.setdefault(_key(source), []).extend(attempts)
        if not is_under_way:
            self.pool.submit(self._repair, source)

    def _repair(self, source: Workload) -> None:
        """Send a source's waiting attempts until none is left. After an error, either fail the
        attempts, or pause, start the agent again, and send the attempts again."""
        attempts: list[Pending] = []
        try:
            while attempts := self._take_waiting(source):
                attempts = self._after_errors(source, attempts)
                if attempts:
                    self._start_and_send(source, attempts)
        except Exception as error:  # the waiting attempts must get every error
            with self._lock:
                attempts += self._waiting.pop(_key(source), [])
            for pending in attempts:
                pending.fail(error)

    def _take_waiting(self, source: Workload) -> list[Pending]:
        """Return the attempts that wait for a source's agent. If there are none, end the repair."""
        with self._lock:
            attempts = [
                pending
                for pending in self._waiting.pop(_key(source), ())
                if not pending.inbox.closed
            ]
            if attempts:
                self._waiting[_key(source)] = []
        return attempts

    def _after_errors(self, source: Workload, attempts: list[Pending]) -> list[Pending]:
        """Fail the attempts that cannot be repeated after an error, and pause before the others are
        repeated. Return the remaining attempts."""
        broken = [pending for pending in attempts if pending.errors]
        if not broken:
            return attempts
        trouble, unknown = self._trouble_of(source)
        pause = min(2.0, 0.25 * 2 ** (max(pending.tries for pending in broken) - 1))
        patience = self.settings.timings.of(source.os)
        budget = patience.exec_overhead + 2 * patience.agent_hello  # enough for two starts
        again = []
        for pending in broken:
            pending.errors[-1] += unknown
            if isinstance(trouble, MissingCapability):
                pending.fail(trouble)
            elif trouble:
                text = f"{first_line(trouble)}, while it was probing ({pending.errors[-1]})"
                pending.fail(EnvironmentBroken(text))
            elif pending.hopeless or pending.begun + budget - time.monotonic() <= pause:
                pending.fail(pending.broken())
            else:
                again.append(pending)
        if again:
            self.counts.repeated[source.node, source.os] += len(again)
            SYSTEM_CLOCK.sleep(pause)
        return [*again, *(pending for pending in attempts if not pending.errors)]

    def _trouble_of(self, source: Workload) -> tuple[SuiteError | None, str]:
        """Return the change of a pod, and a message if it is not known whether the pod changed."""
        try:
            return self.trouble([source]), ""
        except SuiteError as error:  # the probe's own error is still reported
            return None, f"; whether the pod changed is not known: {error}"

    def _start_and_send(self, source: Workload, attempts: Sequence[Pending]) -> None:
        """Start a source's agent if none is alive, and send attempts to it."""

        def postpone(seconds: float) -> None:
            for pending in attempts:
                pending.begun += seconds

        error = ProbeBroken(f"the agent in {source.label} ended before it received a request")
        unsent = attempts
        try:
            self.agent(source, protocol.AGENTS[source.os], postpone)
            unsent = self._send(attempts, repaired=True)
        except ProbeBroken as broken:
            error = broken
        if unsent:
            for pending in unsent:
                pending.tries += 1
            self._broke(unsent, error)

    def _start(
        self,
        source: Workload,
        program: protocol.Program,
        within: float,
        waited: Callable[[float], object],
    ) -> Agent:
        key = (source.node, source.os)
        own = (source.uid, program.name)
        again = own in self._broken_before
        if again and self._restarted[own] >= self.limits.restarts:
            last = self._error.get(own, f"the agent in {source.label} broke")
            raise AgentRefused(
                f"{last}; it is not restarted again after {counted(self.limits.restarts, 'restart')}",
                transport="too many restarts",
            )
        self.counts.starts[key] += 1
        self.counts.restarts[key] += again
        self._broken_before.add(own)  # until the agent sends its hello line
        patience = self.settings.timings.of(source.os)
        asked = time.monotonic()
        purpose = f"exec that starts an agent in {source.namespace}/{source.pod}"
        with self.starting(source, within, purpose):
            waited(time.monotonic() - asked)
            agent = Agent(
                self.kube,
                source,
                self._transcript,
                program,
                patience.agent_silence,
                on_results=self._deliver,
                on_broken=self._broke,
            )
            self._restarted[own] += again
            agent.greet(patience.agent_hello)
        self._broken_before.discard(own)
        return agent

    def _take_slots(self, source: Workload, within: float, slots: ExitStack) -> float:
        """Take the slots of a live agent: one of the run, and for Windows one of its node. Return
        the seconds that this took.

        Raise ProbeBroken.
        """
        begun = time.monotonic()
        # The node's slot first: an agent that waits for it must not hold the other slot, which any
        # pod can use.
        nodes = [source.node, ""] if source.os == "windows" else [""]
        try:
            for node in nodes:
                slots.callback(self._live_slot(bound_of(self.limits, node), within).release)
        except ProbeBroken as full:
            raise ProbeBroken(
                f"no agent could be started in {source.label}: {full}; start fewer workers (-n)",
                transport=full.transport,
            ) from full
        return time.monotonic() - begun

    def _live_slot(self, bound: Bound, within: float) -> Slot:
        """Return a slot for a live agent. If the process holds its share of slots, or all slots are
        taken, end an idle agent of this process to make room."""
        if self._held(bound) >= bound.share:
            self._make_room(node=bound.node)
        slot = self.slots.take(bound.name, bound.count)
        if slot is None:
            if self._have_our_share(bound):
                self._make_room(node=bound.node)
            begun = time.monotonic()

            def make_room() -> None:
                if self._closed.is_set():
                    raise ProbeBroken("the run is over", transport="closed by the suite")
                if self._have_our_share(bound) or time.monotonic() - begun > 4 * GIVE_WAY:
                    self._make_room(AT_REST, bound.node)

            slot = self.slots.wait(
                bound.name, bound.count, within, every=AT_REST, meanwhile=make_room
            )
        return slot

    def _held(self, bound: Bound) -> int:
        with self._lock:
            return sum(bound.node in ("", agent.workload.node) for agent in self._agents.values())

    def _have_our_share(self, bound: Bound) -> bool:
        """Return whether this process holds its full share of the slots, or whether all slots are
        taken."""
        return self._held(bound) >= min(bound.share, bound.count)

    def _make_room(self, at_rest: float = 0.0, node: str = "") -> bool:
        """End the agent that has been idle for longest, if it was idle for at least ``at_rest``
        seconds. Return whether an agent was ended.

        ``node``: only agents on this node.
        """
        now = time.monotonic()
        with self._lock:
            idle = [
                (agent.used, key)
                for key, agent in self._agents.items()
                if not agent.busy
                and now - agent.used >= at_rest
                and node in ("", agent.workload.node)
            ]
            ended = [self._agents.pop(key) for _, key in sorted(idle)[:1]]
        for agent in ended:
            agent.close()
        return bool(ended)

    def _watch(self) -> None:
        """Give up silent and late agents, and end idle agents whose slots other processes want,
        until :meth:`close`."""
        looked = time.monotonic()
        while not self._closed.wait(LOOK):
            with self._lock:
                agents = list(self._agents.values())
            for agent in agents:
                agent.look()
            if time.monotonic() - looked < GIVE_WAY:
                continue
            looked = time.monotonic()
            windows = [agent.workload for agent in agents if agent.workload.os == "windows"]
            for node in ("", *{workload.node for workload in windows}):
                self._give_way(bound_of(self.limits, node))

    def _give_way(self, bound: Bound) -> None:
        """If another process waits for a slot, end idle agents in excess of this process' share,
        and then at most one agent that has been idle for ``UNUSED`` seconds."""
        while self._held(bound) > bound.share and self.slots.wanted(bound.name):
            if not self._make_room(AT_REST, bound.node):
                return
        if self.slots.wanted(bound.name):
            self._make_room(UNUSED, bound.node)

    def _drop(self, key: _Key) -> None:
        with self._lock:
            agent = self._agents.pop(key, None)
        if agent:
            if not agent.alive and not agent.left_idle:
                self._broken_before.add(key)
            agent.close()


def _key(source: Workload) -> _Key:
    """Return the key of the agent that carries out a pod's attempts."""
    return source.uid, protocol.AGENTS[source.os].name


def _by_inbox(attempts: Iterable[Pending]) -> Iterable[list[Pending]]:
    """Group attempts by their inboxes; leave out attempts of closed inboxes."""
    found: dict[Inbox, list[Pending]] = {}
    for pending in attempts:
        if not pending.inbox.closed:
            found.setdefault(pending.inbox, []).append(pending)
    return found.values()
