"""What an interpreter knows: cmdlets, aliases, static types and constructors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hybridlab.windows.powershell.binding import Declared, declared
from hybridlab.windows.powershell.stages import Make

if TYPE_CHECKING:
    from hybridlab.windows.powershell.interpreter import Interpreter

Type = Callable[["Interpreter", str, "list[object] | None"], Awaitable[object]]
"""A static member: its name in lower case, and the arguments of a call (None: a property)."""


@dataclass(frozen=True)
class Cmdlet:
    """A cmdlet by its own name, with its parameters."""

    name: str
    parameters: tuple[Declared, ...]
    make: Make


@dataclass
class Library:
    """All of them by lower-case name."""

    cmdlets: dict[str, Cmdlet] = field(default_factory=dict)
    tools: dict[str, Make] = field(default_factory=dict)
    """Programs: their arguments are words."""
    aliases: dict[str, str] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)
    constructors: dict[str, Callable[[Interpreter, list[object]], object]] = field(default_factory=dict)

    def add(self, name: str, parameters: str, make: Make, *aliases: str) -> None:
        """Register a cmdlet; ``parameters`` as :func:`binding.declared` reads them."""
        self.cmdlets[name.lower()] = Cmdlet(name, declared(parameters), make)
        self.aliases |= dict.fromkeys(aliases, name.lower())
