# SPDX-License-Identifier: Apache-2.0
"""The interface between commands and the interpreter.

A command is a stage of a pipeline, and the shell runs it. Cmdlets use the interpreter only through
:class:`Shell`, so that neither imports the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from hybridlab.powershell.binding import Call, Declared, declared
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.syntax import Node, NotEmulated, ScriptBlock
from hybridlab.runtime.applet import Process

Emit = Callable[[object], Awaitable[None]]
"""Receives one object of an output."""


class Shell(Protocol):
    """The interpreter as cmdlets use it."""

    process: Process
    library: Library
    script: str
    variables: dict[str, object]
    succeeded: bool
    """True if the last command succeeded."""
    closing: contextlib.AsyncExitStack
    """Resources to close when the run ends."""

    async def value(self, node: Node) -> object:
        """Return the value of an expression."""

    def output_of(self, node: Node, value: object) -> list[object]:
        """Return the output of an expression."""

    async def call_block(self, block: ScriptBlock, emit: Emit, item: object) -> None:
        """Run a script block for an object."""

    def property(self, owner: object, name: str) -> object:
        """Return a property of a value."""

    def comparison(
        self, operator: str, left: object, right: object, *, sensitive: bool = False
    ) -> bool:
        """Return the result of a comparison."""

    async def write_error(self, fault: Fault, call: Call) -> None:
        """Report an error that does not end its statement."""

    async def host(self, text: str) -> None:
        """Print a text on the host."""


async def drop(value: object) -> None:
    """Discard an object."""


class Stage:
    """A command of a pipeline. It receives one object at a time, and passes its results on at
    once."""

    def __init__(self, shell: Shell, call: Call) -> None:
        self.shell = shell
        self.call = call
        self.emit: Emit = drop
        """The receiver of the stage's output."""
        self.failed = False
        """True if a program ended with an exit status other than 0."""

    async def process(self, item: object) -> None:
        raise NotEmulated(f"pipeline input of {self.call.name}")

    async def alone(self) -> None:
        """Run the stage as the first stage of its pipeline; ``process`` is then not called."""
        raise NotEmulated(f"{self.call.name} without pipeline input")

    async def end(self) -> None:
        """Finish after the last object."""

    async def put(self, values: list[object]) -> None:
        for value in values:
            await self.emit(value)


Make = Callable[[Shell, Call], Stage]
Type = Callable[[Shell, str, "list[object] | None"], Awaitable[object]]
"""The function of a type's static members: it receives a member's name in lower case, and the
arguments of a call (None: the member is read as a property)."""
Constructor = Callable[[Shell], object]
"""The constructor that New-Object calls."""


@dataclass(frozen=True)
class Cmdlet:
    """A cmdlet: its name and parameters."""

    name: str
    parameters: tuple[Declared, ...]
    make: Make


@dataclass
class Library:
    """All known cmdlets and types, by lower-case name."""

    cmdlets: dict[str, Cmdlet] = field(default_factory=dict)
    tools: dict[str, Make] = field(default_factory=dict)
    """Programs, whose arguments are words."""
    aliases: dict[str, str] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)
    constructors: dict[str, Constructor] = field(default_factory=dict)

    def add(self, name: str, parameters: str, make: Make, *aliases: str) -> None:
        """Register a cmdlet, with ``parameters`` in the notation of :func:`binding.declared`."""
        self.cmdlets[name.lower()] = Cmdlet(name, declared(parameters), make)
        self.aliases |= dict.fromkeys(aliases, name.lower())
