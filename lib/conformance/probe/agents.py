"""The live agents of one process: started when needed, watched, and ended when another needs their slot."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken
from conformance.kube.client import Kube
from conformance.kube.transcript import Transcript
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.pods.deploy import changed, changed_among
from conformance.pods.nodes_gone import gone
from conformance.pods.nodes_lost import NodeWatch
from conformance.probe import protocol
from conformance.probe.agent import Agent, AgentRefused
from conformance.probe.limits import Counts, Limits
from conformance.probe.slots import Slot, Slots
from conformance.settings import Settings

_Key = tuple[str, str]
"""A pod's uid and a program's name."""

LOOK = 0.1
"""s.  How often agents are looked at whether they have become silent or late."""
GIVE_WAY = 0.5
"""s.  How often a process looks whether another waits for an agent's slot, while it keeps more than its share."""
AT_REST = 0.1
"""s.  An agent was not asked for so long: then nobody is just about to."""


class Agents:
    """Agents in the pods of one cluster, at most one of each program in a pod.  Thread-safe."""

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
        """For what takes its time: starting agents, looking at pods, pauses."""
        self._transcript = transcript
        self._lock = threading.Lock()
        self._agents: dict[_Key, tuple[Agent, Sequence[Slot]]] = {}
        self._starting: dict[_Key, threading.Lock] = {}
        self._broken_before: set[_Key] = set()
        self._restarted: Counter[_Key] = Counter()
        self._error: dict[_Key, str] = {}
        """Agent to what last broke it."""
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="agents", daemon=True).start()

    def __len__(self) -> int:
        return len(self._agents)

    def agent(
        self,
        source: Workload,
        program: protocol.Program,
        waited: Callable[[float], object] = lambda seconds: None,
    ) -> Agent:
        """The live agent of a program in a pod, started if there is none.  Raises ProbeBroken.

        ``waited`` hears the seconds for which other starts were waited for, which are nobody's fault.
        """
        key = (source.uid, program.name)
        within = self.settings.timings.of(source.os).agent_slot
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
            begun = time.monotonic()
            try:
                slots = self._live_slots(source, within)
            except ProbeBroken as full:
                raise ProbeBroken(
                    f"no agent could be started in {source.label}: {full}; fewer workers (-n) need fewer",
                    transport=full.transport,
                ) from full
            waited(time.monotonic() - begun)
            try:
                agent = self._start(source, program, within, waited)
            except BaseException:
                _release(slots)
                raise
            with self._lock:
                self._agents[key] = (agent, slots)
            return agent

    def with_live(
        self, source: Workload, program: protocol.Program, ask: Callable[[Agent], bool]
    ) -> bool:
        """What ``ask`` says, which is called with the live agent of a program in a pod; False when there is none.

        Meanwhile the agent is not ended to make room.  ``ask`` must be quick, and use nothing of this object.
        """
        with self._lock:
            known = self._agents.get((source.uid, program.name))
            return known is not None and known[0].alive and ask(known[0])

    def note_error(self, source: Workload, program: protocol.Program, error: ProbeBroken) -> None:
        """Remember what broke an agent, for the message that it is not started any more."""
        if not isinstance(error, AgentRefused):
            self._error[source.uid, program.name] = str(error)

    def revalidate(self) -> None:
        """End the agents of pods that are no longer what they were."""
        with self._lock:
            known = {key: agent.workload for key, (agent, _) in self._agents.items()}
        gone = set(changed_among(self.kube, known.values()))
        for key in known:
            if key[0] in gone:
                self._drop(key)

    def what_happened(self, source: Workload) -> str:
        """How the pod is no longer the one it was; empty when it is."""
        text = changed(source, self.kube.find("v1", "Pod", source.pod, source.namespace))
        return text and f"{text}{self.watch.closed(source.node)}"

    def what_happened_to(self, several: Iterable[Workload]) -> list[str]:
        """The same for several pods, all asked at once; only those with a change."""
        return [text for text in self.pool.map(self.what_happened, several) if text]

    def gone(self, several: Iterable[Workload]) -> MissingCapability | None:
        """What to raise when the node of one of these pods has gone away."""
        return gone(self.kube, [workload.node for workload in several])

    def lost(self, several: Iterable[Workload]) -> EnvironmentBroken | None:
        """What to raise when the node of one of these pods has died."""
        return self.watch.lost([workload.node for workload in several])

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            agents = list(self._agents.values())
            self._agents = {}
        list(self.pool.map(_end, agents))
        self.pool.shutdown()

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
                f"{last}; it is not restarted any more after {counted(self.limits.restarts, 'restart')}",
                transport="too many restarts",
            )
        self.counts.starts[key] += 1
        self.counts.restarts[key] += again
        self._broken_before.add(own)  # until it has said hello
        patience = self.settings.timings.of(source.os)
        asked = time.monotonic()
        count = self.limits.powershell_starts if source.os == "windows" else self.limits.agents
        starts = f"{'powershell' if source.os == 'windows' else 'python'}-{source.node}"
        purpose = f"exec that starts an agent in {source.namespace}/{source.pod}"
        with self.slots.hold(starts, count, within, purpose):
            waited(time.monotonic() - asked)
            agent = Agent(self.kube, source, self._transcript, program, patience.agent_silence)
            self._restarted[own] += again
            agent.greet(patience.agent_hello)
        self._broken_before.discard(own)
        return agent

    def _live_slots(self, source: Workload, within: float) -> list[Slot]:
        """The slots of a live agent: its Windows node's, and one of all.  Raises ProbeBroken."""
        limits = self.limits
        taken = list[Slot]()
        bounds = [_Bound("agent", limits.agents, limits.share)]
        if source.os == "windows":  # before the other, which is of use to pods on any node
            bounds.insert(
                0,
                _Bound(
                    _live(source.node), limits.per_windows_node, limits.share_of_node, source.node
                ),
            )
        try:
            for bound in bounds:
                taken.append(self._live_slot(bound, within))
        except BaseException:
            _release(taken)
            raise
        return taken

    def _live_slot(self, bound: _Bound, within: float) -> Slot:
        """A slot for a live agent; idle agents of ours make room when all are taken, or our share is."""
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

    def _held(self, bound: _Bound) -> int:
        with self._lock:
            return sum(
                bound.node in ("", agent.workload.node) for agent, _ in self._agents.values()
            )

    def _have_our_share(self, bound: _Bound) -> bool:
        """Whether others do not hold what is ours: if they do, they give way, and ours need not end."""
        return self._held(bound) >= min(bound.share, bound.count)

    def _make_room(self, at_rest: float = 0.0, node: str = "") -> bool:
        """End the agent that was not asked for longest, if one is idle, for so many seconds; whether one was.

        ``node``: only of those there.
        """
        now = time.monotonic()
        with self._lock:
            idle = [
                (agent.used, key)
                for key, (agent, _) in self._agents.items()
                if not agent.busy
                and now - agent.used >= at_rest
                and node in ("", agent.workload.node)
            ]
            known = self._agents.pop(min(idle)[1]) if idle else None
        if known:
            _end(known)
        return known is not None

    def _watch(self) -> None:
        """Until :meth:`close`: silent and late agents are given up, idle ones end for who waits for their slots."""
        looked = time.monotonic()
        while not self._closed.wait(LOOK):
            with self._lock:
                agents = [agent for agent, _ in self._agents.values()]
            for agent in agents:
                agent.look()
            if time.monotonic() - looked < GIVE_WAY:
                continue
            looked = time.monotonic()
            self._give_way(_Bound("agent", self.limits.agents, self.limits.share))
            for node in {agent.workload.node for agent in agents if agent.workload.os == "windows"}:
                bound = _Bound(
                    _live(node), self.limits.per_windows_node, self.limits.share_of_node, node
                )
                self._give_way(bound)

    def _give_way(self, bound: _Bound) -> None:
        """End idle agents beyond our share while another process waits for a slot."""
        while self._held(bound) > bound.share and self.slots.wanted(bound.name):
            if not self._make_room(AT_REST, bound.node):
                return

    def _drop(self, key: _Key) -> None:
        with self._lock:
            known = self._agents.pop(key, None)
        if known:
            if not known[0].alive and not known[0].left_idle:
                self._broken_before.add(key)
            _end(known)


@dataclass(frozen=True)
class _Bound:
    """How many agents may live: of all, or of those on one node."""

    name: str
    """The name of its slots."""
    count: int
    share: int
    """What one process keeps while another needs it."""
    node: str = ""
    """Empty: all."""


def _live(node: str) -> str:
    """What the slots of live agents on a Windows node are called."""
    return f"live-{node}"


def _end(agent_and_slots: tuple[Agent, Sequence[Slot]]) -> None:
    agent, slots = agent_and_slots
    agent.close()
    _release(slots)


def _release(slots: Iterable[Slot]) -> None:
    for slot in slots:
        slot.release()
