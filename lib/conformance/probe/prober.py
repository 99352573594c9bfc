# SPDX-License-Identifier: Apache-2.0
"""Probing from pods: many attempts in, as many observations out, or an exception that names the
broken part.

Every pod has one long-lived agent; all pods probe at once, and results are returned as they end.
Transport errors are retried until a deadline. The prober never turns an error into a verdict, and
never judges an observation.
"""

import itertools
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

from conformance.errors import EnvironmentBroken, ProbeBroken
from conformance.kube import execute
from conformance.kube.client import Kube
from conformance.kube.execute import ExecResult
from conformance.kube.transcript import Transcript, forget
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation
from conformance.model.probing import NodeCost, Probing
from conformance.pods.nodes_lost import NodeWatch
from conformance.pods.roles import ROLES
from conformance.probe import protocol
from conformance.probe.agent import Agent
from conformance.probe.agents import Agents
from conformance.probe.asking import Answered, Inbox, Pending
from conformance.probe.clocks import unix
from conformance.probe.limits import Counts, Limits
from conformance.probe.machine import Machine
from conformance.settings import Settings

__all__ = ["Counts", "Limits", "LiveAsking", "Prober"]

ANSWER = 60.0
"""The interval, in seconds, between two checks for an answer. It only limits a single wait, and
ends no attempt."""


class LiveAsking:
    """An :class:`Asking` whose attempts are made by agents in pods."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._numbers = itertools.count(1)
        self._inbox = Inbox()
        self._ready = deque[Answered]()
        self.pending = 0
        """Attempts that have begun and whose result :meth:`next` has not returned yet."""

    def begin(self, attempts: Sequence[Attempt]) -> list[int]:
        """Begin attempts as :class:`Asking` does. Raise ValueError, and send nothing, for an
        incomplete attempt."""
        begun = [
            Pending(next(self._numbers), attempt, protocol.spec(attempt), self._inbox)
            for attempt in attempts
        ]
        self.pending += len(begun)
        self._agents.begin(begun)
        return [pending.ticket for pending in begun]

    def next(self, within: float) -> Answered | None:
        arrived = self._inbox.arrived
        if not self._ready:
            try:
                self._ready.extend(
                    arrived.get(timeout=within) if within > 0 else arrived.get_nowait()
                )
            except queue.Empty:
                return None
        self.pending -= 1
        return self._ready.popleft()

    def waits(self, source: str) -> bool:
        return self._agents.waits(source, self._inbox)

    def cancel(self) -> None:
        """Cancel as :meth:`Asking.cancel` does. Attempts can begin again afterwards."""
        self._agents.cancel(self._inbox)
        self._inbox = Inbox()
        self.pending = 0
        self._ready.clear()


class Prober:
    """Probes from the pods of a cluster.  Thread-safe; agents live until :meth:`close`."""

    def __init__(
        self,
        kube: Kube,
        run_directory: Path,
        settings: Settings,
        *,
        transcript: Transcript = forget,
        limits: Limits | None = None,
        watch: NodeWatch | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.kube = kube
        self.machine = machine or Machine()
        self.agents = Agents(kube, run_directory, settings, transcript, limits or Limits(), watch)
        self.slots = self.agents.slots
        """Slots that agents share across all processes."""
        self.counts = self.agents.counts
        """The costs of probing so far."""

    @property
    def settings(self) -> Settings:
        return self.agents.settings

    def asking(self) -> LiveAsking:
        """Return a new object for attempts under way, to be used in one thread. Several such
        objects may share an agent at the same time."""
        return LiveAsking(self.agents)

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        """Make all attempts at once; return observations in the batch's order.

        Raise ProbeBroken if an attempt could not be carried out before the retry deadline; the
        error has the observations of the other attempts. Raise EnvironmentBroken if a source pod
        was replaced.
        """
        asking = self.asking()
        found: dict[int, Observation] = {}
        errors: dict[str, Exception] = {}
        try:
            places = {ticket: place for place, ticket in enumerate(asking.begin(batch))}
            while asking.pending:
                if (answered := asking.next(ANSWER)) is None:
                    continue
                place = places[answered.ticket]
                if (observation := answered.observation) is not None:
                    found[place] = observation
                    if observation.began_at is not None and observation.began_at_error is not None:
                        now = time.monotonic()
                        self.machine.record_lateness(
                            unix(now)
                            - observation.began_at
                            - observation.seconds
                            - observation.began_at_error,
                            now,
                        )
                elif answered.error is not None:
                    errors.setdefault(batch[place].source.uid, answered.error)
        finally:
            asking.cancel()
        all_seen = [found[place] for place in sorted(found)]
        if errors:
            raise _worst(list(errors.values()), all_seen)
        return all_seen

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        """Raise EnvironmentBroken if one of these pods is deleted, restarted, replaced or not
        running, or if its node died.

        Raise MissingCapability if its node was removed from the cluster.
        """
        by_uid = {workload.uid: workload for workload in workloads}
        if trouble := self.agents.trouble(by_uid.values()):
            raise trouble

    def revalidate(self) -> None:
        """End the agents of changed pods, since an exclusive test may have changed pods."""
        self.agents.revalidate()

    def agent(
        self,
        source: Workload,
        program: protocol.Program,
        waited: Callable[[float], object] = lambda seconds: None,
    ) -> Agent:
        """Return the live agent of a program in a pod; start it if there is none. Raise
        ProbeBroken.

        ``waited`` receives the seconds of waiting for other agents' starts.
        """
        return self.agents.agent(source, program, waited)

    def run(
        self,
        workload: Workload,
        argv: Sequence[str],
        within: float,
        *,
        transcript: Transcript = forget,
    ) -> ExecResult:
        """Run a command word for word in a pod's main container, to its end, within a number of
        seconds.

        In a foreign pod (Calico's own) the command runs in the Workload's container. On Windows it
        first waits for a free PowerShell start of the node; ``within`` does not include this wait.
        Its output is evidence in addition to an attempt on the same path, never a verdict. Raise
        ProbeBroken.
        """
        where = (workload.namespace, workload.pod)
        container = ROLES[workload.role].main if workload.role in ROLES else workload.container
        purpose = f"exec of a command in {workload.namespace}/{workload.pod}"
        with (
            self.agents.starting(workload, 10 * within, purpose)
            if workload.os == "windows"
            else nullcontext()
        ):
            self.counts.commands[workload.node, workload.os] += 1
            return execute.run(
                self.kube, *where, container, argv, within=within, transcript=transcript
            )

    def used(self) -> Probing:
        """Return the resources that this process has used; complete only after :meth:`close`."""
        counts = self.counts
        limits = self.agents.limits
        keys = {key for counter in vars(counts).values() for key in counter}
        costs = [
            NodeCost(
                node=node,
                os=os,
                agents=counts.starts[node, os],
                restarts=counts.restarts[node, os],
                commands=counts.commands[node, os],
                batches=counts.batches[node, os],
                attempts=counts.attempts[node, os],
                resent=counts.repeated[node, os],
            )
            for node, os in sorted(keys)
        ]
        bounds = (
            ("powershell", limits.powershell_starts),
            ("agent", limits.agents),
            ("live", limits.per_windows_node),
        )
        return Probing(costs=tuple(costs), intervals=tuple(self.slots.intervals), limits=bounds)

    def close(self) -> None:
        self.agents.close()


def _worst(errors: Sequence[Exception], observations: Sequence[Observation]) -> Exception:
    """Return the exception that represents all of these errors.

    A changed pod explains more than a broken probe. Any other error explains more than both of
    them.
    """
    ours = (ProbeBroken, EnvironmentBroken)
    first = next((error for error in errors if not isinstance(error, ours)), None)
    if first is not None:
        return first
    first = next((error for error in errors if isinstance(error, EnvironmentBroken)), errors[0])
    more = f" (and {len(errors) - 1} more sources with errors)" if len(errors) > 1 else ""
    if isinstance(first, EnvironmentBroken):
        return EnvironmentBroken(f"{first}{more}") if more else first
    transport = "\n".join(error.transport for error in errors if isinstance(error, ProbeBroken))
    return ProbeBroken(f"{first}{more}", observations, transport=transport)
