"""Prober.observe(batch): many attempts in, as many observations out, or an exception that says what broke.

Attempts are grouped by source pod; every pod has one long-lived agent, and all pods are asked at once.  Transport
trouble is retried until a deadline.  It never turns trouble into a verdict, and never decides whether one is right.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from conformance.errors import EnvironmentBroken, ProbeBroken, SuiteTrouble
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Kube
from conformance.kube.transcript import Transcript, forget
from conformance.model.attempt import Attempt
from conformance.model.endpoint import OS, Workload
from conformance.model.observation import Observation
from conformance.model.probing import NodeCost, Probing
from conformance.pods.deploy import changed, changed_among
from conformance.probe import protocol
from conformance.probe.agent import Agent, AgentRefused
from conformance.probe.slots import Slot, Slots
from conformance.settings import Settings
from conformance.timing import SYSTEM_CLOCK, Deadline

_Key = tuple[str, str]
"""A pod's uid and a program's name."""


GIVE_WAY = 0.5
"""s.  How often a process looks whether another waits for an agent's slot, while it keeps more than its share."""
AT_REST = 0.1
"""s.  An agent was not asked for so long: then nobody is just about to."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of probing, over all processes of a run."""

    powershell_starts: int = 2
    """Concurrent PowerShell starts per Windows node: each takes 2 to 4 s and a core (dotnet-framework-docker#25, #211);
    mass exec has hung Windows nodes (kubernetes#98102, hcsshim#1574)."""
    agents: int = 60
    """Live agents: each holds an exec stream through API server and kubelet."""
    share: int = 60
    """Of these, what one process keeps while it does not need them and another does: idle agents may starve nobody."""
    restarts: int = 20
    """Times that the agent of one pod is started again after it had broken, in one process.  What breaks more often
    does not break by chance, and each start costs a Windows node 2 to 4 s and a core."""
    sources: int = 64
    """Sources that one process serves at the same time."""


@dataclass
class Counts:
    """What probing cost, per ``(node, os)`` and in all."""

    starts: Counter[tuple[str, OS]] = field(default_factory=Counter)
    """Agents started, that is execs."""
    restarts: Counter[tuple[str, OS]] = field(default_factory=Counter)
    """Of these, in place of one that had broken."""
    batches: Counter[tuple[str, OS]] = field(default_factory=Counter)
    attempts: Counter[tuple[str, OS]] = field(default_factory=Counter)
    repeated: Counter[tuple[str, OS]] = field(default_factory=Counter)
    """Attempts sent again after transport trouble."""
    commands: Counter[tuple[str, OS]] = field(default_factory=Counter)
    """Execs that are no agents: literal commands, questions to hosts."""


class Prober:
    """Probes from the pods of one cluster.  Thread-safe; agents live until :meth:`close`."""

    def __init__(
        self,
        kube: Kube,
        run_directory: Path,
        settings: Settings,
        *,
        transcript: Transcript = forget,
        limits: Limits | None = None,
    ) -> None:
        self.kube, self.settings, self.limits = kube, settings, limits or Limits()
        self.slots = Slots(run_directory)
        self.counts = Counts()
        self._transcript = transcript
        self._lock = threading.Lock()
        self._agents: dict[_Key, tuple[Agent, Slot]] = {}
        self._starting: dict[_Key, threading.Lock] = {}
        self._broken_before: set[_Key] = set()
        self._restarted: Counter[_Key] = Counter()
        self._trouble: dict[_Key, str] = {}
        """Agent to what last broke it."""
        self._pool = ThreadPoolExecutor(self.limits.sources, thread_name_prefix="probe")
        self._closed = threading.Event()
        threading.Thread(target=self._give_way, name="give-way", daemon=True).start()

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        """Make all attempts at once; observations in the batch's order.

        Raises ProbeBroken when an attempt could not be carried out before the retry deadline, with the observations
        of those that could; EnvironmentBroken when a source pod is no longer the one it was.
        """
        groups: dict[str, list[int]] = {}
        for index, attempt in enumerate(batch):
            groups.setdefault(attempt.source.uid, []).append(index)
        work: dict[str, Future[list[Observation]]] = {
            uid: self._pool.submit(self._carry_out, [batch[index] for index in indexes])
            for uid, indexes in groups.items()
        }
        found: dict[int, Observation] = {}
        troubles: list[Exception] = []
        for uid, indexes in groups.items():
            try:
                found.update(zip(indexes, work[uid].result(), strict=True))
            except (ProbeBroken, EnvironmentBroken) as trouble:
                troubles.append(trouble)
        if troubles:
            seen = [found[index] for index in sorted(found)]
            raise _worst(troubles, seen)
        return [found[index] for index in range(len(batch))]

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Raises EnvironmentBroken when one of these pods is gone, restarted, replaced or not running."""
        several = {one.uid: one for one in workloads}.values()
        troubles = [text for text in self._pool.map(self._what_happened, several) if text]
        if troubles:
            raise EnvironmentBroken("; ".join(troubles))

    def revalidate(self) -> None:
        """Drop the agents of pods that are no longer what they were, since an exclusive test may have changed them."""
        with self._lock:
            known = {key: agent.workload for key, (agent, _) in self._agents.items()}
        gone = set(changed_among(self.kube, known.values()))
        for key in known:
            if key[0] in gone:
                self._drop(key)

    def agent(self, source: Workload, program: protocol.Program, within: float) -> Agent:
        """The live agent of a program in a pod, started if there is none.  Raises ProbeBroken."""
        key = (source.uid, program.name)
        with self._lock:
            starting = self._starting.setdefault(key, threading.Lock())
        with starting:
            with self._lock:
                known = self._agents.get(key)
                if known and known[0].alive:
                    known[0].used = time.monotonic()
                    return known[0]
            if known:
                self._drop(key)
            try:
                slot = self._live_slot(within)
            except ProbeBroken as full:
                raise ProbeBroken(
                    f"no agent could be started in {source.label}: {full}; fewer workers (-n) need fewer",
                    transport=full.transport,
                ) from full
            try:
                agent = self._start(source, program, within)
            except BaseException:
                slot.release()
                raise
            with self._lock:
                self._agents[key] = (agent, slot)
            return agent

    def used(self) -> Probing:
        """What this process has used; complete only after :meth:`close`."""
        counts = self.counts
        keys = {key for counter in vars(counts).values() for key in counter}
        costs = [
            NodeCost(
                node=node, os=os, agents=counts.starts[node, os], restarts=counts.restarts[node, os],
                commands=counts.commands[node, os], batches=counts.batches[node, os],
                attempts=counts.attempts[node, os], resent=counts.repeated[node, os],
            )
            for node, os in sorted(keys)
        ]  # fmt: skip
        limits = (("powershell", self.limits.powershell_starts), ("agent", self.limits.agents))
        return Probing(costs=tuple(costs), intervals=tuple(self.slots.intervals), limits=limits)

    def close(self) -> None:
        """End all agents."""
        self._closed.set()
        with self._lock:
            agents, self._agents = list(self._agents.values()), {}
        list(self._pool.map(_end, agents))
        self._pool.shutdown()

    # --- one source -----------------------------------------------------------------------------------------------

    def _carry_out(self, attempts: Sequence[Attempt]) -> list[Observation]:
        """All attempts of one source, retried until the deadline."""
        source = attempts[0].source
        overhead = self.settings.timings.of(source.os).exec_overhead
        deadline = Deadline(3 * overhead)
        key = (source.node, source.os)
        found: dict[int, Observation] = {}
        left = list(range(len(attempts)))
        tries, pause, history = 0, 0.25, list[str]()
        while True:
            tries += 1
            try:
                agent = self.agent(source, protocol.AGENTS[source.os], max(overhead, deadline.remaining))
                at = time.time()
                self.counts.batches[key] += 1
                self.counts.attempts[key] += len(left)
                asked = [attempts[index] for index in left]
                within = protocol.PATIENCE * max(one.give_up_after for one in asked) + overhead
                for index, result in zip(list(left), agent.ask(asked, within), strict=True):
                    try:
                        found[index] = protocol.observation(attempts[index], result, at, tries)
                        left.remove(index)
                    except ProbeBroken as broken:
                        history.append(str(broken))
                final = False
            except ProbeBroken as broken:
                history.append(str(broken))
                if not isinstance(broken, AgentRefused):
                    self._trouble[source.uid, protocol.AGENTS[source.os].name] = str(broken)
                final = isinstance(broken, AgentRefused) or (isinstance(broken, ExecBroken) and not broken.retryable)
            if not left:
                return [found[index] for index in range(len(attempts))]
            try:
                happened = self._what_happened(source)
            except SuiteTrouble as trouble:  # then at least the probe's own trouble is known
                happened = ""
                history.append(f"{history[-1]}; whether the pod changed is not known: {trouble}")
            if happened:
                raise EnvironmentBroken(f"{happened}, while it was probing ({history[-1]})")
            if final or deadline.remaining <= pause:
                seen = [found[index] for index in sorted(found)]
                times = f"{tries} {'try' if tries == 1 else 'tries'} in {deadline.elapsed:.0f} s"
                raise ProbeBroken(f"{history[-1]} ({times})", seen, transport="\n".join(dict.fromkeys(history)))
            self.counts.repeated[key] += len(left)
            SYSTEM_CLOCK.sleep(pause)
            pause = min(2.0, 2 * pause)

    def _start(self, source: Workload, program: protocol.Program, within: float) -> Agent:
        key, own = (source.node, source.os), (source.uid, program.name)
        again = own in self._broken_before
        if again and self._restarted[own] >= self.limits.restarts:
            last = self._trouble.get(own, f"the agent in {source.label} broke")
            raise AgentRefused(
                f"{last}; it has been started again {self.limits.restarts} times and is not any more",
                transport="too many restarts",
            )
        self.counts.starts[key] += 1
        self.counts.restarts[key] += again
        self._broken_before.add(own)  # until it has said hello
        overhead = self.settings.timings.of(source.os).exec_overhead
        count = self.limits.powershell_starts if source.os == "windows" else self.limits.agents
        with self.slots.hold(f"{'powershell' if source.os == 'windows' else 'python'}-{source.node}", count, within):
            agent = Agent(self.kube, source, self._transcript, program)
            self._restarted[own] += again
            agent.greet(overhead)
        self._broken_before.discard(own)
        return agent

    def _live_slot(self, within: float) -> Slot:
        """A slot for a live agent; idle agents of ours make room when all are taken, or our share is."""
        if len(self._agents) >= self.limits.share:
            self._make_room()
        slot = self.slots.take("agent", self.limits.agents)
        if slot is None:
            self._make_room()
            slot = self.slots.wait(
                "agent", self.limits.agents, within, every=AT_REST, meanwhile=lambda: self._make_room(AT_REST)
            )
        return slot

    def _make_room(self, at_rest: float = 0.0) -> bool:
        """End the agent that was not asked for longest, if one is idle, for so many seconds; whether one was."""
        now = time.monotonic()
        with self._lock:
            idle = [
                (agent.used, key)
                for key, (agent, _) in self._agents.items()
                if not agent.busy and now - agent.used >= at_rest
            ]
        if idle:
            self._drop(min(idle)[1])
        return bool(idle)

    def _give_way(self) -> None:
        """Until :meth:`close`: what is idle beyond our share goes when somebody waits, whatever our tests do."""
        while not self._closed.wait(GIVE_WAY):
            while len(self._agents) > self.limits.share and self.slots.wanted("agent"):
                if not self._make_room(AT_REST):
                    break

    def _drop(self, key: _Key) -> None:
        with self._lock:
            known = self._agents.pop(key, None)
        if known:
            if not known[0].alive and not known[0].left_idle:
                self._broken_before.add(key)
            _end(known)

    def _what_happened(self, source: Workload) -> str:
        return changed(source, self.kube.find("v1", "Pod", source.pod, source.namespace))


def _end(agent_and_slot: tuple[Agent, Slot]) -> None:
    agent, slot = agent_and_slot
    agent.close()
    slot.release()


def _worst(troubles: Sequence[Exception], seen: Sequence[Observation]) -> Exception:
    """One exception for all: a changed pod explains more than a broken probe."""
    first = next((one for one in troubles if isinstance(one, EnvironmentBroken)), troubles[0])
    more = f" (and {len(troubles) - 1} more sources in trouble)" if len(troubles) > 1 else ""
    if isinstance(first, EnvironmentBroken):
        return EnvironmentBroken(f"{first}{more}") if more else first
    own = [one for trouble in troubles if isinstance(trouble, ProbeBroken) for one in trouble.seen]
    transport = "\n".join(one.transport for one in troubles if isinstance(one, ProbeBroken))
    return ProbeBroken(f"{first}{more}", [*seen, *own], transport=transport)
