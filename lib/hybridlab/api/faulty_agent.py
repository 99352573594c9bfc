# SPDX-License-Identifier: Apache-2.0
"""A node's agent whose execs fail by the active faults (``exec_faults``); no other module knows the
faults."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from hybridlab.api.contract import (
    ChannelWriter,
    ExecOutcome,
    Input,
    NodeAgent,
    Obj,
    StreamCut,
    Streams,
)
from hybridlab.api.errors import internal
from hybridlab.api.exec_faults import ExecFault, ExecFaults, Scope, Session

KILLED: Final = 137
"""The exit code of a killed command, 128 + SIGKILL, as runtimes report it."""
KILLED_AFTER: Final = 0.02
"""Seconds from the start of a command without input to its death by the fault ``killed``."""


class FaultyAgent:
    """A ``contract.NodeAgent`` around another agent; its execs fail by the active faults."""

    def __init__(self, agent: NodeAgent, faults: ExecFaults) -> None:
        self._agent = agent
        self._faults = faults

    async def exec(
        self, pod: Obj, container: str, argv: tuple[str, ...], streams: Streams
    ) -> ExecOutcome:
        meta = pod["metadata"]
        where = Scope(
            node=pod["spec"].get("nodeName", ""), namespace=meta["namespace"], pod=meta["name"]
        )
        session = self._faults.session(where)
        fault = session.fault()
        await _hang(fault)
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        if fault and fault.kind == "wrong-binary":
            argv = fault.argv
        outcome: ExecOutcome | Exception
        if fault and fault.kind == "dial-fails":
            raise internal(fault.start_error(pod, container, argv), caused=True)
        if fault and fault.kind in {"missing-binary", "start-times-out"}:
            outcome = ExecOutcome(
                exit_code=None, start_error=fault.start_error(pod, container, argv)
            )
        else:
            command = _Command(session)
            faulty = replace(
                streams,
                stdin=streams.stdin and _FaultyInput(streams.stdin, command),
                stdout=_FaultyOutput(streams.stdout, command),
                stderr=_FaultyOutput(streams.stderr, command),
            )
            run = self._agent.exec(pod, container, argv, faulty)
            if fault and fault.kind == "killed" and streams.stdin is None:
                asyncio.get_running_loop().call_later(KILLED_AFTER, command.kill)
            try:
                outcome = await command.ended(run)
            except StreamCut:
                raise
            except Exception as error:
                outcome = error
        return await _faulty_end(session, outcome)

    def logs(self, pod: Obj, container: str, **options: Any) -> AsyncIterator[bytes]:
        """Return the logs of the wrapped agent: no fault affects them."""
        return self._agent.logs(pod, container, **options)


class _Command:
    """A command that runs, and may be ended by a fault."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.killed = self.cut_off = False
        self._task: asyncio.Task[ExecOutcome] | None = None

    async def ended(self, run: Any) -> ExecOutcome:
        """Run the command to its end. Raise StreamCut if its connection was cut."""
        self._task = asyncio.create_task(run)
        try:
            return await self._task
        except asyncio.CancelledError:
            if self.cut_off:
                raise StreamCut("cut by a fault") from None
            if self.killed:
                return ExecOutcome(exit_code=KILLED)
            raise

    def kill(self) -> None:
        """End the session. Cancelling the command kills its process; the session then reports the
        kubelet's message."""
        if self._task is not None and not self._task.done():
            self.killed = True
            self._task.cancel()

    def cut(self) -> None:
        """Cut the command's connection. The command is cancelled too, since by itself it would not
        notice the cut."""
        self.cut_off = True
        if self._task is not None:
            self._task.cancel()


class _FaultyOutput:
    """The output of an agent's command, changed by the fault that affects its session."""

    def __init__(self, writer: ChannelWriter, command: _Command) -> None:
        self._writer = writer
        self._command = command

    async def send(self, data: bytes) -> None:
        fault = self._command.session.fault() if data else None
        await _hang(fault)
        match fault and fault.kind:
            case "empty-output":
                return
            case "half-output":
                data = data[: len(data) // 2]
            case "other-words" if fault:
                words, instead = (word.encode() for word in fault.argv)
                data = data.replace(words, instead)
            case "cut":
                self._command.cut()
                raise StreamCut("cut by a fault")
        await self._writer.send(data)


class _FaultyInput:
    """Standard input to which the session's fault applies."""

    def __init__(self, source: Input, command: _Command) -> None:
        self._source = source
        self._command = command

    async def read(self, size: int = -1) -> bytes:
        data = await self._source.read(size)
        fault = self._command.session.fault() if data else None
        if fault and fault.kind == "killed":
            self._command.kill()
            await asyncio.Event().wait()  # the command never receives its input
        return data


async def _hang(fault: ExecFault | None) -> None:
    if fault and fault.kind == "hang":
        await fault.healed.wait()


async def _faulty_end(session: Session, outcome: ExecOutcome | Exception) -> ExecOutcome:
    """Return the reported end of a command, changed by the session's fault."""
    fault = session.fault()
    await _hang(fault)
    match fault and fault.kind:
        case "cut":
            raise StreamCut("cut by a fault")
        case "lost-status":
            return ExecOutcome(exit_code=None)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
