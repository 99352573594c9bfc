# SPDX-License-Identifier: Apache-2.0
"""The interpreter: statements, control flow, and the scope of errors.

A statement passes each object of its output to ``emit`` at once, so that nothing is lost if an
error or a limit ends the statement. The innermost list of statements reports an error and
continues, unless a ``try`` encloses the list (about_Try_Catch_Finally).
"""

import asyncio
import contextlib
from collections.abc import Iterator

from hybridlab.powershell import syntax as s
from hybridlab.powershell.binding import Call
from hybridlab.powershell.display import Display
from hybridlab.powershell.evaluation import Evaluation, error_action
from hybridlab.powershell.faults import Fault, error_record, render
from hybridlab.powershell.flow import Exit
from hybridlab.powershell.objects import enumerate_value, truth
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.pipelines import run_pipeline
from hybridlab.powershell.registry import execution_context
from hybridlab.powershell.shell import Emit, Library
from hybridlab.powershell.syntax import Node, NotEmulated
from hybridlab.runtime.applet import Process


class Interpreter(Evaluation):
    """A run of PowerShell."""

    def __init__(self, process: Process, library: Library, script: str) -> None:
        self.process = process
        self.library = library
        self.script = script
        self.succeeded = True
        self.closing = contextlib.AsyncExitStack()
        """Resources to close when the run ends."""
        self._guarded = False
        """True while the interpreter runs inside a ``try``."""
        self._display = Display(self.host)
        self.variables: dict[str, object] = {
            "true": True,
            "false": False,
            "null": None,
            "lastexitcode": None,
            "erroractionpreference": "Continue",
        }
        if process.host is not None:
            self.variables["executioncontext"] = execution_context()

    async def run(self, script: s.Block) -> None:
        """Run the script. Raise Exit, NotEmulated, or Fault for an error that ends the script."""
        try:
            await self.run_block(script, self._display.show)
        finally:
            await self._display.finish()

    async def host(self, text: str) -> None:
        """Print a text on PowerShell's host, which is standard output here."""
        await self.process.stdout.write(text.encode("utf-8", "replace"))

    async def report(self, fault: Fault) -> None:
        lines = render(fault, self.script)
        await self.process.stderr.write("".join(f"{line}\r\n" for line in lines).encode())

    async def run_block(self, block: s.Block, emit: Emit) -> None:
        """Run statements in order.

        If an error ends a statement, report it and continue with the next statement.
        """
        for statement in block.statements:
            try:
                await self.statement(statement, emit)
            except Fault as fault:
                await self._ended(fault, statement)

    async def _ended(self, fault: Fault, statement: Node) -> None:
        """Report an error that ended a statement.

        Raise the error again if it ends more than this statement.
        """
        fault.at = fault.at or statement
        self.succeeded = False
        action = error_action(self.variables["erroractionpreference"])
        fault.stops = fault.stops or action == "stop"
        if self._guarded or fault.stops:
            raise fault
        if action == "continue":
            await self.report(fault)

    async def write_error(self, fault: Fault, call: Call) -> None:
        """Report an error that does not end its statement.

        Raise the error if ErrorAction is Stop.
        """
        action = error_action(call.get("erroraction", self.variables["erroractionpreference"]))
        if action == "stop":
            fault.terminating = fault.stops = True
            raise fault
        if action == "continue":
            await self.report(fault)

    async def collect(self, node: Node) -> list[object]:
        values: list[object] = []

        async def keep(value: object) -> None:
            values.append(value)

        await self.statement(node, keep)
        return values

    async def call_block(self, block: s.ScriptBlock, emit: Emit, item: object) -> None:
        """Run a script block for an object, as ``%`` and ``?`` do.

        The block runs in the enclosing scope, with ``$_`` set.
        """
        with self._current(item):
            await self.run_block(block.body, emit)

    @contextlib.contextmanager
    def _current(self, item: object) -> Iterator[None]:
        """Set ``$_`` inside the block."""
        outside = dict(item for item in self.variables.items() if item[0] == "_")
        self.variables["_"] = item
        try:
            yield
        finally:
            del self.variables["_"]
            self.variables |= outside

    async def statement(self, node: Node, emit: Emit) -> None:
        match node:
            case s.Pipeline():
                await run_pipeline(self, node, emit)
            case s.Assignment():
                await self.assign(node)
                if not isinstance(node.value, (s.Pipeline, s.Assignment)):
                    self.succeeded = True
            case s.If():
                if truth(await self.value(node.condition)):
                    await self.run_block(node.body, emit)
                elif node.otherwise is not None:
                    await self.run_block(node.otherwise, emit)
            case s.While():
                while truth(await self.value(node.condition)):
                    await asyncio.sleep(0)  # other containers run between the loop's turns
                    await self.run_block(node.body, emit)
            case s.ForEach():
                for item in enumerate_value(await self.value(node.items)):
                    self.store_variable(node.variable, item)
                    await self.run_block(node.body, emit)
            case s.Try():
                await self._try(node, emit)
            case s.End():
                raise Exit(await self._status(node))
            case _:
                value = await self.value(node)
                self.succeeded = True
                for item in self.output_of(node, value):
                    await emit(item)

    async def _try(self, node: s.Try, emit: Emit) -> None:
        """Run ``try`` and ``catch``. Errors in the catch block belong to the statement."""
        outside = self._guarded
        self._guarded = True
        try:
            await self.run_block(node.body, emit)
        except Fault as fault:
            with self._current(error_record(fault)):
                await self.run_block(node.catch, emit)
        finally:
            self._guarded = outside

    async def _status(self, node: s.End) -> int:
        status = to_int(await self.value(node.status)) if node.status is not None else 0
        if not 0 <= status <= 255:
            raise NotEmulated(f"exit status {status}")
        return status
