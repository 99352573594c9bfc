# SPDX-License-Identifier: Apache-2.0
"""Streams between pods, watched at both ends through a stream agent in each pod.

The agents belong to the prober: its limits apply to their starts, and they stay until the run ends.
If an agent breaks, its streams are lost, which raises ProbeBroken and is never a verdict. A
replaced pod is EnvironmentBroken.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from conformance.errors import ProbeBroken
from conformance.kube.channels import ExecBroken
from conformance.model.counted import counted
from conformance.model.endpoint import Target, Workload
from conformance.model.stream import Side, StreamEnd, StreamEvent, StreamState, StreamVerdict
from conformance.pods.roles import STREAM_PORT
from conformance.probe import protocol
from conformance.probe.agent import Agent
from conformance.probe.clocks import unix
from conformance.probe.prober import Prober
from conformance.timing import SYSTEM_CLOCK, Deadline

T = TypeVar("T")
SIDES: dict[str, Side] = {"opened": "client", "accepted": "server"}


class NotOpened(ProbeBroken):
    """The network did not let a stream open, so there is nothing to watch. The message has the
    result of the attempt."""


@dataclass(frozen=True)
class Stream:
    """A stream that was opened."""

    name: str
    client: Workload
    server: Workload
    target: Target
    agents: tuple[Agent, Agent]
    """The agents of the client and of the server."""


class Streams:
    """Streams of a process.  Thread-safe."""

    def __init__(self, prober: Prober) -> None:
        self._prober = prober
        self._timings = prober.settings.timings
        self._numbers = itertools.count(1)
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="streams")

    def open(self, pairs: Sequence[tuple[Workload, Workload]]) -> list[Stream]:
        """Open a stream from the first pod of each pair to its second pod, all at once.

        Raise NotOpened, ProbeBroken if an agent cannot be started or does not answer,
        EnvironmentBroken.
        """
        return self._each(lambda pair: self._open(*pair), pairs)

    def look(self, streams: Sequence[Stream]) -> list[StreamState]:
        """Return the present state of each stream at both ends. Raise ProbeBroken,
        EnvironmentBroken."""
        return self._each(lambda stream: self._ends(stream, "stream-report"), streams)

    def close(self, streams: Sequence[Stream]) -> None:
        """Close the streams properly, not by a RST.  Raise ProbeBroken, EnvironmentBroken."""
        self._each(self._close, streams)

    def look_at(self, stream: Stream, side: Side) -> StreamEnd:
        """Return the state of one end of a stream.  Raise the errors of :meth:`look`."""
        return self._one(stream, side, {"type": "stream-report"})[0]

    def abort(self, stream: Stream, side: Side) -> StreamEnd:
        """Make one end abort the connection with a RST. Its agent forgets this end; the other agent
        keeps the other end."""
        return self._one(stream, side, {"type": "stream-close", "how": "rst"})[0]

    def shut(self) -> None:
        """Stop opening streams. The agents end together with their prober."""
        self._pool.shutdown()

    def _open(self, client: Workload, server: Workload) -> Stream:
        patience = [self._timings.of(workload.os) for workload in (client, server)]
        overhead = max(timings.exec_overhead for timings in patience)
        effect = max(timings.policy_effect for timings in patience)
        deadline = Deadline(overhead + 2 * max(timings.agent_hello for timings in patience))
        history = list[str]()
        waited = list[float]()
        while True:
            try:
                return self._try_open(client, server, waited.append)
            except ProbeBroken as broken:
                history.append(str(broken))
                self._prober.unchanged([client, server])
                if isinstance(broken, NotOpened) and deadline.elapsed >= effect:
                    raise NotOpened(
                        f"{broken} ({counted(len(history), 'try', 'tries')}, {deadline.elapsed:.1f} s)"
                    ) from broken
                if (
                    isinstance(broken, ExecBroken) and not broken.retryable
                ) or deadline.remaining + sum(waited) <= 1:
                    raise ProbeBroken(
                        f"{broken} (stream {client.label} -> {server.label}, {counted(len(history), 'try', 'tries')})",
                        transport="\n".join(dict.fromkeys(history)),
                    ) from broken
            SYSTEM_CLOCK.sleep(0.5)

    def _try_open(
        self, client: Workload, server: Workload, waited: Callable[[float], object]
    ) -> Stream:
        agents = tuple(
            self._prober.agent(workload, protocol.STREAM_AGENTS[workload.os], waited)
            for workload in (client, server)
        )
        port = self._ask(
            agents[1],
            {
                "type": "stream-listen",
                "port": 0 if server.host_network else STREAM_PORT,
                **self._times(server),
            },
        )
        target = server.tcp(int(port["port"]))
        name = f"s{next(self._numbers)}"
        job = {
            "type": "stream-open",
            "stream": name,
            "host": target.host,
            "port": target.port,
            "give_up_ms": round(self._timings.of(client.os).tcp_give_up * 1000),
            **self._times(client),
        }
        (first,) = self._ask(agents[0], job)["ends"]
        stream = Stream(name, client, server, target, (agents[0], agents[1]))
        if first["verdict"] != StreamVerdict.SURVIVED:
            self._ask(agents[0], {"type": "stream-close", "stream": name})
            raise NotOpened(
                f"stream {client.label} -> {target.label}: {first['verdict']} {first['detail']}".rstrip()
            )
        for agent in stream.agents:
            agent.held.add(stream.name)
        return stream

    def _times(self, workload: Workload) -> dict[str, int]:
        patience = self._timings.of(workload.os)
        return {
            "every_ms": round(patience.stream_heartbeat * 1000),
            "stall_ms": round(patience.stream_stall * 1000),
        }

    def _close(self, stream: Stream) -> None:
        try:
            self._ends(stream, "stream-close")
        finally:
            for agent in stream.agents:
                agent.held.discard(stream.name)

    def _ends(self, stream: Stream, kind: str) -> StreamState:
        client, recovery = self._one(stream, "client", {"type": kind})
        server, _ = self._one(stream, "server", {"type": kind})
        after = recovery.get("recovered_ms")
        return StreamState(
            client=client,
            server=server,
            target=stream.target,
            recovered_after=None if after is None else float(after) / 1000,
            recovery_tries=int(recovery.get("recovery_tries") or 0),
        )

    def _one(
        self, stream: Stream, side: Side, job: dict[str, Any]
    ) -> tuple[StreamEnd, dict[str, Any]]:
        number = 0 if side == "client" else 1
        agent = stream.agents[number]
        workload = (stream.client, stream.server)[number]
        try:
            ends = self._ask(agent, {**job, "stream": stream.name})["ends"]
        except ProbeBroken:
            self._prober.unchanged([stream.client, stream.server])
            raise
        mine = [end for end in ends if SIDES[end["side"]] == side]
        if len(mine) != 1:
            raise ProbeBroken(
                f"the {side} of stream {stream.name} in {workload.label} is not known to its agent"
            )
        return self._end(mine[0], agent, workload, side), mine[0]

    def _end(self, end: dict[str, Any], agent: Agent, workload: Workload, side: Side) -> StreamEnd:
        """Return one end as the model's type. Raise ProbeBroken for BROKEN, which is no verdict."""
        word = str(end["verdict"])
        if word not in StreamVerdict.__members__:
            raise ProbeBroken(
                f"the {side} of a stream in {workload.label}: {word} {end['detail']}",
                transport=word,
            )
        return StreamEnd(
            workload=workload,
            side=side,
            verdict=StreamVerdict[word],
            detail=str(end["detail"]),
            local=str(end["local"]),
            remote=str(end["remote"]),
            sent=int(end["sent"]),
            heard=int(end["heard"]),
            quiet=None if end["quiet_ms"] is None else float(end["quiet_ms"]) / 1000,
            events=tuple(
                StreamEvent(
                    at=unix(agent.clock.place(event["at_ms"] / 1000)[0]),
                    what=event["event"],
                    detail=event["detail"],
                )
                for event in end["events"]
            ),
        )

    def _ask(self, agent: Agent, job: dict[str, Any]) -> dict[str, Any]:
        """Send a line to an agent and return the answer; update the estimate of its clock.  Raise
        ProbeBroken."""
        patience = self._timings.of(agent.workload.os)
        answer = agent.request(
            lambda batch: json.dumps({**job, "batch": batch}, separators=(",", ":")).encode(
                "ascii"
            ),
            patience.exec_overhead + 2 * patience.tcp_give_up,
        )
        if not isinstance(answer.get("up_ms"), int | float):
            raise ProbeBroken(
                f"garbled answer from {agent.program.name} in {agent.workload.label}: {answer}"
            )
        return answer

    def _each(self, work: Callable[[Any], T], them: Sequence[Any]) -> list[T]:
        """Run all calls at once. Once all have ended, raise the first error."""
        futures = [self._pool.submit(work, item) for item in them]
        errors = [error for future in futures if (error := future.exception())]
        if errors:
            raise errors[0]
        return [future.result() for future in futures]
