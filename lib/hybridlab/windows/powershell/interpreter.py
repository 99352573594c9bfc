"""Runs the tree: variables, operators, control flow and pipelines.  What cmdlets and .NET types do is elsewhere.

One long file because statements, pipelines and expressions contain each other: whatever runs one kind calls the others.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hybridlab.runtime.applet import Process
from hybridlab.windows.powershell import formatting, operators
from hybridlab.windows.powershell import syntax as s
from hybridlab.windows.powershell.faults import Fault, error_record, render
from hybridlab.windows.powershell.members import hash_member, plain_member
from hybridlab.windows.powershell.objects import (
    HashTable,
    NetObject,
    enumerate_value,
    to_number,
    to_text,
    truth,
    unwrap,
)
from hybridlab.windows.powershell.operators import equal, format_text
from hybridlab.windows.powershell.syntax import Node, NotEmulated


@dataclass
class Call:
    """A cmdlet's arguments, bound by name and position."""

    node: s.Command
    name: str
    named: dict[str, object]
    positional: list[object]
    piped: list[object] | None
    """None when nothing is piped in."""


Cmdlet = Callable[["Interpreter", Call], Awaitable[list[object]]]
Type = Callable[["Interpreter", str, list[object] | None], Awaitable[object]]
"""A static member: its name, and the arguments of a call (None: a property)."""


@dataclass
class Library:
    """Cmdlets by lower-case name, aliases, static types, and constructors for New-Object."""

    cmdlets: dict[str, Cmdlet] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)
    constructors: dict[str, Callable[[Interpreter, list[object]], object]] = field(default_factory=dict)


class Exit(Exception):
    """``exit N``."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status
        self.pending: list[object] = []


class _Jump(Exception):
    def __init__(self, kind: str, value: list[object] | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.pending: list[object] = []
        self.value = value or []


@contextlib.contextmanager
def _keeping(values: list[object]) -> Iterator[None]:
    """What a block has put out is not lost when it is left by an error or a jump."""
    try:
        yield
    except (Fault, Exit, _Jump) as leaving:
        leaving.pending = values + leaving.pending
        raise


class Interpreter:
    """One run of powershell."""

    def __init__(self, process: Process, library: Library, script: str, *, seven: bool, name: str = "") -> None:
        self.process = process
        self.library = library
        self.script = script
        self.seven = seven
        """PowerShell 7 instead of Windows PowerShell 5.1."""
        self.name = name
        """The script file's path; empty for a command."""
        self.variables: dict[str, object] = {
            "true": True,
            "false": False,
            "null": None,
            "?": True,
            "lastexitcode": None,
            "erroractionpreference": "Continue",
            "progresspreference": "Continue",
        }
        self.error_lines: list[str] = []
        """Errors that were not shown yet because standard error is CLIXML."""
        self.clixml = False
        self.closing = contextlib.AsyncExitStack()
        """What must be closed when the run ends."""

    # -- output ----------------------------------------------------------------------------------------------

    async def show(self, values: list[object]) -> None:
        """Print a statement's output."""
        lines = formatting.render(values)
        if lines:
            await self.write("".join(f"{line}\r\n" for line in lines))

    async def write(self, text: str) -> None:
        """Text on standard output, as it is."""
        await self.process.stdout.write(text.encode("utf-8", "replace"))

    async def report(self, fault: Fault) -> None:
        """Print an error."""
        lines = render(fault, self.script, seven=self.seven, name=self.name)
        if self.clixml:
            self.error_lines += lines
        else:
            await self.process.stderr.write("".join(f"{line}\r\n" for line in lines).encode())

    # -- statements ------------------------------------------------------------------------------------------

    async def run(self, block: s.Block) -> None:
        """The script itself: output is shown statement by statement, an error ends its statement only.

        Raises Exit, Fault (thrown, or terminating under ``Stop``) and NotEmulated.
        """
        try:
            for statement in block.statements:
                await self.top(statement)
        except _Jump as jump:
            await self.show(jump.pending + jump.value)
        except Exit as done:
            await self.show(done.pending)
            raise

    async def top(self, statement: Node) -> None:
        """One statement of the script: what it puts out is shown as it comes."""
        self.variables["?"] = True
        try:
            if isinstance(statement, s.Loop):
                await self.loop(statement, self.top_block)
            elif isinstance(statement, s.If):
                body = await self.branch(statement)
                if body is not None:
                    await self.top_block(body)
            elif isinstance(statement, s.ForEach):
                for item in enumerate_value(await self.value(statement.items)):
                    self.variables[statement.variable] = item
                    if not await self._body(statement.body, self.top_block):
                        break
            else:
                await self.show(await self.statement(statement))
        except Fault as fault:
            await self.caught_by_host(fault, statement)

    async def caught_by_host(self, fault: Fault, statement: Node) -> None:
        """An error that no ``try`` took."""
        self.variables["?"] = False
        fault.at = fault.at or statement
        await self.show(fault.pending)
        fault.pending = []
        if fault.thrown or self._stops():
            raise fault
        await self.report(fault)

    def _stops(self) -> bool:
        return to_text(self.variables["erroractionpreference"]).lower() == "stop"

    async def top_block(self, block: s.Block) -> list[object]:
        """A block whose output is shown at once."""
        for statement in block.statements:
            await self.top(statement)
        return []

    async def block(self, block: s.Block) -> list[object]:
        """A block whose output is collected."""
        values: list[object] = []
        for statement in block.statements:
            with _keeping(values):
                values += await self.statement(statement)
        return values

    async def statement(self, node: Node) -> list[object]:
        """Run one statement and return its output."""
        match node:
            case s.Assignment():
                await self.assign(node)
                return []
            case s.Step():
                await self.store(node.target, to_number(await self.value(node.target)) + node.delta)
                return []
            case s.If():
                body = await self.branch(node)
                return await self.block(body) if body is not None else []
            case s.Loop():
                return await self.loop(node, self.block)
            case s.ForEach():
                return await self.for_each(node)
            case s.Try():
                return await self.try_(node)
            case s.Jump():
                return await self.jump(node)
            case s.Block():
                return await self.block(node)
        return await self.pipeline(node)

    async def branch(self, node: s.If) -> s.Block | None:
        for condition, body in node.branches:
            if truth(await self.value(condition)):
                return body
        return node.otherwise

    async def loop(self, node: s.Loop, run: Callable[[s.Block], Awaitable[list[object]]]) -> list[object]:
        values: list[object] = []
        if node.first is not None:
            await self.statement(node.first)
        first = node.body_first
        while True:
            if not first and node.condition is not None and truth(await self.value(node.condition)) == node.until:
                return values
            first = False
            try:
                with _keeping(values):
                    values += await run(node.body)
            except _Jump as jump:
                if jump.kind not in ("break", "continue"):
                    raise
                values = jump.pending
                if jump.kind == "break":
                    return values
            if node.each is not None:
                await self.statement(node.each)

    async def _body(self, body: s.Block, run: Callable[[s.Block], Awaitable[list[object]]]) -> bool:
        try:
            await run(body)
        except _Jump as jump:
            if jump.kind == "break":
                return False
            if jump.kind != "continue":
                raise
        return True

    async def for_each(self, node: s.ForEach) -> list[object]:
        values: list[object] = []

        async def collect(body: s.Block) -> list[object]:
            try:
                values.extend(await self.block(body))
            except _Jump as jump:
                values.extend(jump.pending)
                jump.pending = []
                raise
            return []

        for item in enumerate_value(await self.value(node.items)):
            self.variables[node.variable] = item
            if not await self._body(node.body, collect):
                break
        return values

    async def try_(self, node: s.Try) -> list[object]:
        """The finally block runs however the rest was left, and its output comes last."""
        try:
            values = await self.guarded(node)
        except (Fault, Exit, _Jump) as leaving:
            if node.final is not None:
                leaving.pending += await self.block(node.final)
            raise
        return values + (await self.block(node.final) if node.final is not None else [])

    async def guarded(self, node: s.Try) -> list[object]:
        """``try`` and ``catch`` without ``finally``."""
        try:
            return await self.block(node.body)
        except Fault as fault:
            if node.catch is None:
                raise
            self.variables["_"] = error_record(fault)
            with _keeping(fault.pending):
                return fault.pending + await self.block(node.catch)

    async def jump(self, node: s.Jump) -> list[object]:
        value = await self.value(node.value) if node.value is not None else None
        if node.kind == "exit":
            raise Exit(int(to_number(value)) if value is not None else 0)
        if node.kind == "throw":
            message = to_text(value) if value is not None else "ScriptHalted"
            raise Fault(
                message, f"OperationStopped: ({message}:String) [], RuntimeException", message, at=node, thrown=True
            )
        raise _Jump(node.kind, enumerate_value(value))

    # -- pipelines -------------------------------------------------------------------------------------------

    async def pipeline(self, node: Node) -> list[object]:
        """Output of a pipeline, a command or an expression used as a statement."""
        if not isinstance(node, s.Pipeline):
            if isinstance(node, s.Command):
                return await self.command(node, None)
            if isinstance(node, s.SubExpression) and node.kind == "(":
                return enumerate_value(await self.value(node))
            return enumerate_value(await self.value(node))
        values: list[object] | None = None
        quiet_errors = bool({"err", "merge"} & node.silent)
        try:
            for element in node.elements:
                if isinstance(element, s.Command):
                    values = await self.command(element, values)
                elif values is None:
                    values = enumerate_value(await self.value(element))
                else:
                    raise NotEmulated("an expression after the first element of a pipeline")
        except Fault as fault:
            if not quiet_errors or fault.thrown or self._stops():
                raise
            self.variables["?"] = False
            if "merge" in node.silent:
                return list(render(fault, self.script, seven=self.seven, name=self.name))
            return []
        return [] if "out" in node.silent else values or []

    async def command(self, node: s.Command, piped: list[object] | None) -> list[object]:
        """Run a cmdlet."""
        name = await self.value(node.name)
        if isinstance(name, s.ScriptBlock):
            return await self.call_block(name, {})
        text = to_text(name)
        key = text.lower().replace("\\", "/").rsplit("/", 1)[-1]
        if key != "curl.exe":  # without .exe it is an alias of 5.1
            key = key.removesuffix(".exe")
            key = self.library.aliases.get(key, key)
        cmdlet = self.library.cmdlets.get(key)
        if cmdlet is None:
            raise self.unknown_command(text, node)
        call = Call(node, text, {}, [], piped)
        pending = ""
        for argument in node.arguments:
            if isinstance(argument, s.Parameter):
                if pending:
                    call.named[pending] = True
                pending = argument.name.lower()
                if argument.value is not None:
                    call.named[pending] = await self.value(argument.value)
                    pending = ""
            elif pending and pending not in _SWITCHES:
                call.named[pending] = await self.value(argument)
                pending = ""
            else:
                if pending:
                    call.named[pending] = True
                    pending = ""
                call.positional.append(await self.value(argument))
        if pending:
            call.named[pending] = True
        action = to_text(call.named.pop("erroraction", call.named.pop("ea", ""))).lower()
        try:
            return await cmdlet(self, call)
        except Fault as fault:
            fault.at = fault.at or node
            if action == "stop" or (not action and self._stops()):
                raise replace(fault, terminating=True, thrown=True) from fault
            if action in ("silentlycontinue", "ignore") and not fault.terminating:
                self.variables["?"] = False
                return []
            if fault.terminating:
                raise
            self.variables["?"] = False
            await self.report(fault)
            return []

    def unknown_command(self, name: str, node: s.Command) -> Exception:
        """A cmdlet that the lab does not have, or a name that no Windows has."""
        if re.fullmatch(r"[A-Za-z]+-[A-Za-z]+", name):
            return NotEmulated(f"cmdlet {name}")
        return NotEmulated(f"command {name}")

    async def call_block(self, block: s.ScriptBlock, variables: dict[str, object]) -> list[object]:
        """Run a script block with some variables set, as ``%`` and ``?`` do."""
        saved = {name: self.variables.get(name) for name in variables}
        self.variables |= variables
        try:
            return await self.block(block.body)
        except _Jump as jump:
            if jump.kind == "return":
                return jump.pending + jump.value
            raise
        finally:
            self.variables |= saved

    # -- expressions -----------------------------------------------------------------------------------------

    async def value(self, node: Node) -> Any:  # noqa: PLR0911 - one per kind of expression
        """What an expression or a pipeline in parentheses is."""
        match node:
            case s.Literal():
                return node.value
            case s.Expandable():
                parts = [p if isinstance(p, str) else to_text(await self.value(p)) for p in node.parts]
                return "".join(parts)
            case s.Variable():
                return self.variable(node.name)
            case s.Array():
                return [await self.value(item) for item in node.items]
            case s.Hash():
                table = HashTable()
                for key, item in node.entries:
                    table.set(await self.value(key), unwrap(await self.statement(item)))
                return table
            case s.SubExpression():
                values = await self.block(node.body)
                return values if node.kind == "@" else unwrap(values)
            case s.ScriptBlock() | s.TypeName():
                return node
            case s.Unary():
                return await self.unary(node)
            case s.Binary():
                return await self.binary(node)
            case s.Cast():
                return operators.cast(node.type_name, await self.value(node.operand), node)
            case s.Index():
                return operators.index(await self.value(node.target), await self.value(node.index))
            case s.Member():
                return await self.member(node)
            case s.Step():
                before = await self.value(node.target)
                await self.store(node.target, to_number(before) + node.delta)
                return before
            case s.Assignment():
                await self.assign(node)
                return None
        return unwrap(await self.statement(node))

    def variable(self, name: str) -> object:
        """A variable's value; an unset one is null."""
        if name.startswith("env:"):
            wanted = name[4:].lower()
            return next((v for k, v in self.process.env.items() if k.lower() == wanted), None)
        if name == "psversiontable":
            windows = to_text(self.process.settings.get("windows_version", "10.0.20348.1"))
            table = HashTable()
            table.set(
                "PSVersion",
                NetObject("Version", text="7.4.6" if self.seven else f"5.1.{'.'.join(windows.split('.')[2:])}"),
            )
            table.set("PSEdition", "Core" if self.seven else "Desktop")
            return table
        if name == "input":
            raise NotEmulated("$input")
        return self.variables.get(name)

    async def assign(self, node: s.Assignment) -> None:
        """``=`` and its relatives."""
        value = (
            unwrap(await self.statement(node.value))
            if not isinstance(node.value, (s.Array, s.SubExpression))
            else await self.value(node.value)
        )
        if node.operator != "=":
            value = operators.arithmetic(node.operator[0], await self.value(node.target), value, node)
        await self.store(node.target, value)

    async def store(self, target: Node, value: object) -> None:
        match target:
            case s.Variable(name=name):
                if name.startswith("env:"):
                    raise NotEmulated("assignment to an environment variable")
                self.variables[name] = value
            case s.Cast():
                await self.store(target.operand, operators.cast(target.type_name, value, target))
            case s.Member(static=False, arguments=None):
                owner, name = await self.value(target.target), to_text(await self.value(target.name))
                if isinstance(owner, HashTable):
                    owner.set(name, value)
                elif isinstance(owner, NetObject) and owner.has(name):
                    owner.put(name, value)
                else:
                    raise NotEmulated(f"assignment to property {name}")
            case s.Index():
                owner, key = await self.value(target.target), await self.value(target.index)
                if isinstance(owner, HashTable):
                    owner.set(key, value)
                elif isinstance(owner, list):
                    owner[int(to_number(key))] = value
                else:
                    raise NotEmulated("assignment to an element")
            case s.Member():
                await self.static_store(target)
            case _:
                raise NotEmulated("this assignment")

    async def static_store(self, target: s.Member) -> None:
        raise NotEmulated(f"assignment to static property {to_text(await self.value(target.name))}")

    async def unary(self, node: s.Unary) -> object:
        value = await self.value(node.operand)
        match node.operator:
            case "not":
                return not truth(value)
            case "-":
                return -to_number(value)
            case "+":
                return to_number(value)
            case ",":
                return [value]
            case "join":
                return "".join(to_text(item) for item in enumerate_value(value))
            case "split":
                return to_text(value).split()
        raise NotEmulated(f"operator -{node.operator}")

    async def binary(self, node: s.Binary) -> object:  # noqa: PLR0911 - one per operator
        left = await self.value(node.left)
        if node.operator in ("and", "or"):
            if truth(left) != (node.operator == "and"):
                return truth(left)
            return truth(await self.value(node.right))
        right = await self.value(node.right)
        match node.operator:
            case "+" | "-" | "*" | "/" | "%":
                return operators.arithmetic(node.operator, left, right, node)
            case "..":
                start, end = int(to_number(left)), int(to_number(right))
                return list(range(start, end + 1)) if start <= end else list(range(start, end - 1, -1))
            case "f":
                return format_text(to_text(left), enumerate_value(right) if isinstance(right, list) else [right])
            case "join":
                return to_text(right).join(to_text(item) for item in enumerate_value(left))
            case "split":
                return re.split(to_text(right), to_text(left), flags=re.IGNORECASE)
            case "replace":
                pattern, with_ = [*enumerate_value(right), ""][:2]
                return re.sub(
                    to_text(pattern), re.sub(r"\$(\d)", r"\\\1", to_text(with_)), to_text(left), flags=re.IGNORECASE
                )
            case "contains" | "notcontains":
                return any(equal(item, right) for item in enumerate_value(left)) == (node.operator == "contains")
            case "in" | "notin":
                return any(equal(item, left) for item in enumerate_value(right)) == (node.operator == "in")
            case "is" | "isnot" | "as" | "xor":
                raise NotEmulated(f"operator -{node.operator}")
        if isinstance(left, list):
            return [item for item in left if self.compare(node.operator, item, right)]
        return self.compare(node.operator, left, right)

    def compare(self, operator: str, left: object, right: object) -> bool:
        """A comparison; ``-match`` sets ``$Matches``."""

        def remember(groups: HashTable) -> None:
            self.variables["matches"] = groups

        return operators.compare(operator, left, right, remember)

    async def member(self, node: s.Member) -> object:
        owner, name = await self.value(node.target), to_text(await self.value(node.name))
        arguments = None if node.arguments is None else [await self.value(item) for item in node.arguments]
        try:
            if isinstance(owner, s.TypeName):
                static = self.library.types.get(owner.name)
                if static is None:
                    raise NotEmulated(f"the type [{owner.name}]")
                return await static(self, name.lower(), arguments)
            return await self.instance(owner, name, arguments)
        except Fault as fault:
            fault.at = fault.at or node
            raise

    async def instance(self, owner: object, name: str, arguments: list[object] | None) -> object:
        """A member of a value."""
        key = name.lower()
        if owner is None:
            if arguments is None:
                return None
            raise Fault(
                "You cannot call a method on a null-valued expression.",
                "InvalidOperation: (:) [], RuntimeException",
                "InvokeMethodOnNull",
            )
        if isinstance(owner, NetObject):
            return owner.get(name) if arguments is None else await owner.call(name, arguments)
        if isinstance(owner, HashTable):
            return hash_member(owner, key, name, arguments)
        if isinstance(owner, list) and key not in ("count", "length", "contains", "add", "tostring"):
            return unwrap([await self.instance(item, name, arguments) for item in owner])
        return plain_member(owner, key, name, arguments)


_SWITCHES = {
    "usebasicparsing", "disablekeepalive", "nonewline", "dnsonly", "nohostsfile", "quicktimeout", "compress", "force",
    "verbose", "debug", "informationlevel_", "descending", "unique", "raw", "asarray", "quiet", "skipcertificatecheck",
    "usedefaultcredentials", "llmnrnetbiosonly", "notcpfallback", "tcponly", "passthru", "autosize", "wrap", "whatif",
}  # fmt: skip
