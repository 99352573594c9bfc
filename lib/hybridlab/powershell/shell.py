# SPDX-License-Identifier: Apache-2.0
"""What commands and the interpreter know of each other: a command is a stage of a pipeline, the shell runs it.

Everything a cmdlet may ask of the interpreter is in :class:`Shell`, so that neither imports the other.
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
"""Takes one object of an output."""


class Shell(Protocol):
    """The interpreter, as commands see it."""

    process: Process
    library: Library
    script: str
    variables: dict[str, object]
    succeeded: bool
    """Whether the last command did what it was asked."""
    closing: contextlib.AsyncExitStack
    """What must be closed when the run ends."""

    async def value(self, node: Node) -> object:
        """What an expression is."""

    def output_of(self, node: Node, value: object) -> list[object]:
        """What an expression puts out."""

    async def call_block(self, block: ScriptBlock, emit: Emit, item: object) -> None:
        """Run a script block for an object."""

    def property(self, owner: object, name: str) -> object:
        """A property of a value."""

    def comparison(
        self, operator: str, left: object, right: object, *, sensitive: bool = False
    ) -> bool:
        """A comparison."""

    async def write_error(self, fault: Fault, call: Call) -> None:
        """An error that does not end its statement."""

    async def host(self, text: str) -> None:
        """Text on the host."""


async def drop(value: object) -> None:
    """The sink of what nobody takes."""


class Stage:
    """One command of a pipeline: it takes one object at a time and hands on what it makes of it at once."""

    def __init__(self, shell: Shell, call: Call) -> None:
        self.shell = shell
        self.call = call
        self.emit: Emit = drop
        """Where its output goes."""
        self.failed = False
        """A program that ended with another status than 0."""

    async def process(self, item: object) -> None:
        raise NotEmulated(f"pipeline input of {self.call.name}")

    async def alone(self) -> None:
        """Instead of ``process`` when it is the first stage."""
        raise NotEmulated(f"{self.call.name} without pipeline input")

    async def end(self) -> None:
        """After the last object."""

    async def put(self, values: list[object]) -> None:
        for value in values:
            await self.emit(value)


Make = Callable[[Shell, Call], Stage]
Type = Callable[[Shell, str, "list[object] | None"], Awaitable[object]]
"""A static member: its name in lower case, and the arguments of a call (None: a property)."""
Constructor = Callable[[Shell], object]
"""What New-Object calls."""


@dataclass(frozen=True)
class Cmdlet:
    """A cmdlet by its own name, with its parameters."""

    name: str
    parameters: tuple[Declared, ...]
    make: Make


@dataclass
class Library:
    """All that is known, by lower-case name."""

    cmdlets: dict[str, Cmdlet] = field(default_factory=dict)
    tools: dict[str, Make] = field(default_factory=dict)
    """Programs: their arguments are words."""
    aliases: dict[str, str] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)
    constructors: dict[str, Constructor] = field(default_factory=dict)

    def add(self, name: str, parameters: str, make: Make, *aliases: str) -> None:
        """Register a cmdlet; ``parameters`` as :func:`binding.declared` reads them."""
        self.cmdlets[name.lower()] = Cmdlet(name, declared(parameters), make)
        self.aliases |= dict.fromkeys(aliases, name.lower())
