"""One run of PowerShell: statements, control flow, scopes, and which errors end what.

Output streams: what a statement puts out goes to its ``emit`` at once, so that what came before an error, a jump or
the end of a wait is never lost.  An error that ends a statement is reported by the innermost list of statements, which
goes on with the next one, unless a ``try`` is around it anywhere up the calls (about_Try_Catch_Finally).
"""

import asyncio
import contextlib

from hybridlab.powershell import syntax as s
from hybridlab.powershell.display import Display
from hybridlab.powershell.evaluation import Evaluation, whole
from hybridlab.powershell.faults import ErrorRecord, Fault
from hybridlab.powershell.flow import Break, Continue, Exit, Flow, Return
from hybridlab.powershell.objects import ArrayList, HashTable, NetObject, enumerate_value, to_text, truth
from hybridlab.powershell.pipelines import run_pipeline
from hybridlab.powershell.registry import execution_context
from hybridlab.powershell.reporting import INFORMATION, SILENT, Reporting
from hybridlab.powershell.scope import PREFERENCES, Scope
from hybridlab.powershell.shell import Library
from hybridlab.powershell.streams import Emit, Streams
from hybridlab.powershell.syntax import Node, NotEmulated
from hybridlab.runtime.applet import Process


class Interpreter(Evaluation, Reporting):
    """One run of powershell."""

    def __init__(self, process: Process, library: Library, script: str, *, name: str = "") -> None:
        self.process = process
        self.library = library
        self.script = script
        self.name = name
        """The script file's path; empty for a command."""
        self.environment = dict(process.env)
        self.scope = Scope()
        self.streams = Streams()
        self._succeeded = True
        self._doubt = ""
        """Why it is not known whether ``$?`` is true now; empty: it is known."""
        self.errors = ArrayList()
        """``$Error``, the newest first."""
        self.closing = contextlib.AsyncExitStack()
        """What must be closed when the run ends."""
        self._guarded = False
        """A ``try`` is around what runs now."""
        self._handled: list[Fault] = []
        """Errors whose catch blocks run now, the innermost last."""
        self._display = Display(self._print, script=script, name=name)
        self.scope.variables |= self._automatic()

    def _automatic(self) -> dict[str, object]:
        folder, _, file = self.name.replace("/", "\\").rpartition("\\")
        windows = to_text(self.process.settings.get("windows_version", "10.0.20348.1"))
        versions = HashTable()
        text = f"5.1.{'.'.join(windows.split('.')[2:])}"
        parts = dict(
            zip(("Major", "Minor", "Build", "Revision"), [int(part) for part in text.split(".")], strict=False)
        )
        versions.set("PSVersion", NetObject("System.Version", parts, text=text))
        versions.set("PSEdition", "Desktop")
        found: dict[str, object] = {
            **({"executioncontext": execution_context()} if self.process.host is not None else {}),
            "true": True,
            "false": False,
            "null": None,
            "error": self.errors,
            "lastexitcode": None,
            "psversiontable": versions,
            "psscriptroot": folder,
            "pscommandpath": self.name,
            "myinvocation": NetObject("System.Management.Automation.InvocationInfo"),
            "args": [],
            **PREFERENCES,
        }
        if self.name:
            found["myinvocation"] = NetObject(
                "System.Management.Automation.InvocationInfo",
                MyCommand=NetObject("System.Management.Automation.ExternalScriptInfo", text=file, Name=file),
            )
        return found | dict.fromkeys(("iswindows", "islinux", "ismacos", "iscoreclr"))

    # -- the run ---------------------------------------------------------------------------------------------

    async def run(self, script: s.ScriptBlock, arguments: tuple[str, ...] = ()) -> None:
        """The script itself.  Raises Exit, Fault (an error that ends the script) and NotEmulated."""
        try:
            self.scope.variables["args"] = _bare(arguments, self.name or "the script")
            await self.run_block(script.body, self.show)
        except Exit:
            raise
        except Flow:
            pass
        finally:
            await self._display.finish()

    async def show(self, value: object) -> None:
        """One object on the host: what came from another stream goes where that stream goes."""
        if isinstance(value, ErrorRecord) and value.merged:
            await self._print_error(value.fault)
        elif isinstance(value, NetObject) and value.type_name == INFORMATION:
            await self.host(f"{value.words()}\r\n")
        else:
            await self._display.show(value)

    async def run_block(self, block: s.Block, emit: Emit) -> None:
        """Statement after statement; an error that ends one is reported and the next one runs."""
        for statement in block.statements:
            try:
                await self.statement(statement, emit)
            except Fault as fault:
                await self._ended(fault, statement)

    @property
    def succeeded(self) -> bool:
        """``$?``.  Raises NotEmulated where nobody knows."""
        if self._doubt:
            raise NotEmulated(self._doubt)
        return self._succeeded

    @succeeded.setter
    def succeeded(self, value: bool) -> None:
        self._succeeded, self._doubt = value, ""

    async def _ended(self, fault: Fault, statement: Node) -> None:
        """An error ended a statement.  Raises it again when it ends more than that."""
        fault.at = fault.at or statement
        self._record(fault)
        self.succeeded = False
        if self._guarded or fault.stops:
            raise fault
        preference = self.preference("erroractionpreference")
        if preference in SILENT:
            return
        if preference == "stop":
            fault.stops = True
            raise fault
        if fault.thrown:
            raise fault
        await self._report(fault)

    async def collect(self, node: Node) -> list[object]:
        """All that a statement or a block puts out."""
        values: list[object] = []

        async def keep(value: object) -> None:
            values.append(value)

        if isinstance(node, s.Block):
            await self.run_block(node, keep)
        else:
            await self.statement(node, keep)
        return values

    async def call_block(self, block: s.ScriptBlock, emit: Emit, item: object) -> None:
        """Run a script block for an object, as ``%`` and ``?`` do: in the scope around it, with ``$_`` set."""
        scope = self.scope
        had, before = "_" in scope.variables, scope.variables.get("_")
        scope.variables["_"] = item
        try:
            await self.run_block(block.body, emit)
        except Return:
            pass
        finally:
            if had:
                scope.variables["_"] = before
            else:
                scope.variables.pop("_", None)

    async def block_values(self, block: s.ScriptBlock, item: object) -> list[object]:
        """All that :meth:`call_block` puts out."""
        values: list[object] = []

        async def keep(value: object) -> None:
            values.append(value)

        await self.call_block(block, keep, item)
        return values

    # -- statements ------------------------------------------------------------------------------------------

    async def statement(self, node: Node, emit: Emit) -> None:
        match node:
            case s.Pipeline():
                await run_pipeline(self, node, emit)
            case s.Assignment():
                await self.assign(node)
                if not isinstance(node.value, (s.Pipeline, s.Assignment, s.SubExpression)):
                    self.succeeded = True
            case s.If():
                await self._if(node, emit)
            case s.While():
                await self._while(node, emit)
            case s.ForEach():
                await self._for_each(node, emit)
            case s.Try():
                await self._try(node, emit)
            case s.Jump():
                await self._jump(node, emit)
            case _:
                value = await self.value(node)
                self.succeeded = True
                for item in self.output_of(node, value):
                    await emit(item)

    async def _if(self, node: s.If, emit: Emit) -> None:
        for condition, body in node.branches:
            if truth(await self.value(condition)):
                await self.run_block(body, emit)
                return
        if node.otherwise is not None:
            await self.run_block(node.otherwise, emit)

    async def _while(self, node: s.While, emit: Emit) -> None:
        while truth(await self.value(node.condition)) and await self._body(node.body, emit):
            pass

    async def _for_each(self, node: s.ForEach, emit: Emit) -> None:
        for item in enumerate_value(await self.value(node.items)):
            await self.store(node.variable, item)
            if not await self._body(node.body, emit):
                return

    async def _body(self, body: s.Block, emit: Emit) -> bool:
        """One turn of a loop; whether there is to be another.  Other containers run between two turns."""
        await asyncio.sleep(0)
        try:
            await self.run_block(body, emit)
        except Break:
            return False
        except Continue:
            pass
        return True

    async def _try(self, node: s.Try, emit: Emit) -> None:
        """The finally block runs however the rest was left; errors in a catch block end it, as in the try block."""
        outside, self._guarded = self._guarded, True
        try:
            try:
                await self.run_block(node.body, emit)
            except Fault as fault:
                if node.catch is None:
                    raise
                await self._catch(fault, node.catch, emit)
        except (Fault, Flow):
            self._guarded = outside
            if node.final is not None:
                await self.run_block(node.final, emit)
            raise
        except BaseException:
            self._guarded = outside
            raise
        self._guarded = outside
        if node.final is not None:
            await self.run_block(node.final, emit)

    async def _catch(self, fault: Fault, body: s.Block, emit: Emit) -> None:
        variables = self.scope.variables
        had, before = "_" in variables, variables.get("_")
        variables["_"] = ErrorRecord(fault)
        self._handled.append(fault)
        try:
            await self.run_block(body, emit)
            if not body.statements and not fault.source:
                self._doubt = "$? after an empty catch block for an error that no cmdlet made"
        finally:
            self._handled.pop()
            if had:
                variables["_"] = before
            else:
                variables.pop("_", None)

    async def _jump(self, node: s.Jump, emit: Emit) -> None:
        match node.kind:
            case "break":
                raise Break
            case "continue":
                raise Continue
            case "return":
                if node.value is not None:
                    await self.statement(node.value, emit)
                raise Return
            case "exit":
                raise Exit(await self._status(node))
        if node.value is None:
            if self._handled:
                raise self._handled[-1]
            raise self._thrown(node, None, "ScriptHalted")
        value = await self.value(node.value)
        if isinstance(value, ErrorRecord):
            value.fault.thrown = True
            raise value.fault
        if isinstance(value, (list, HashTable)) or (isinstance(value, NetObject) and value.text is None):
            raise NotEmulated("throw of this value")
        raise self._thrown(node, value, to_text(value) if value is not None else "ScriptHalted")

    @staticmethod
    def _thrown(node: Node, value: object, message: str) -> Fault:
        return Fault(
            message,
            f"OperationStopped: ({message}:String) [], RuntimeException",
            message,
            at=node,
            thrown=True,
            target=value,
            kind="System.Management.Automation.RuntimeException",
        )

    async def _status(self, node: s.Jump) -> int:
        value = await self.value(node.value) if node.value is not None else None
        if isinstance(value, (bool, list, HashTable)):
            raise NotEmulated("exit with this value")
        try:
            status = whole(value)
        except ValueError:
            return 0
        if not 0 <= status <= 255:
            raise NotEmulated(f"exit status {status}")
        return status


def _bare(arguments: tuple[str, ...], name: str) -> list[object]:
    """``$args``; ``param(...)`` is not emulated."""
    if any(word.startswith("-") and len(word) > 1 and not word[1].isdigit() for word in arguments):
        raise NotEmulated(f"named arguments of {name}, which declares no parameters")
    return list(arguments)
