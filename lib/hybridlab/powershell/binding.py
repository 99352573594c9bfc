# SPDX-License-Identifier: Apache-2.0
"""Parameters of cmdlets, and the binding of a call's arguments to them.

A call names a parameter in full or by its alias; every other name is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from hybridlab.powershell.objects import to_text, truth
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.syntax import Command, NotEmulated

_DECLARATION = re.compile(r"(\w+)(?:=(\w+))?(@\d)?(\?|\*|:int)?")


@dataclass(frozen=True)
class Declared:
    """A parameter that a cmdlet declares."""

    name: str
    alias: str
    position: str
    """``@0``: the first of the arguments without a name; empty: the parameter must be named."""
    kind: str
    """``?``: a switch, ``*``: all remaining arguments, without a name, ``:int``: a number; empty:
    any value."""

    @property
    def key(self) -> str:
        """Return the parameter's name among the bound arguments."""
        return self.name.lower()

    @property
    def is_switch(self) -> bool:
        return self.kind == "?"


@cache
def declared(text: str) -> tuple[Declared, ...]:
    """Parse a row of parameters, such as ``Uri@0 UseBasicParsing? TimeoutSec:int``.

    ``@0`` marks a position, ``?`` a switch, ``=ea`` an alias, and ``*`` takes all remaining
    arguments.
    """
    found = []
    for word in text.split():
        match = _DECLARATION.fullmatch(word)
        if match is None:
            raise ValueError(word)
        found.append(Declared(match[1], match[2] or "", match[3] or "", match[4] or ""))
    return tuple(found)


def common() -> tuple[Declared, ...]:
    """Return the parameters that every cmdlet has."""
    return declared("ErrorAction=ea")


@dataclass
class Given:
    """An argument of a call, with its value."""

    parameter: str
    """The parameter's name; empty for an argument without a name."""
    value: object
    word: str = ""
    """The argument as written."""


@dataclass
class Call:
    """A command with its bound arguments."""

    node: Command
    name: str
    """The cmdlet's own name, ``Invoke-WebRequest``."""
    typed: str
    """The name as the script writes it, ``iwr``; error messages begin with this name."""
    arguments: list[Given] = field(default_factory=list)
    bound: dict[str, object] = field(default_factory=dict)
    """The values by the parameter's name in lower case."""
    remaining: list[object] = field(default_factory=list)

    def has(self, name: str) -> bool:
        return name in self.bound

    def get(self, name: str, default: object = None) -> object:
        return self.bound.get(name, default)

    def flag(self, name: str) -> bool:
        return truth(self.bound.get(name, False))

    def text(self, name: str, default: str = "") -> str:
        return to_text(self.bound[name]) if name in self.bound else default


def bind(call: Call, parameters: Sequence[Declared]) -> None:
    """Bind ``call.arguments``.

    Raise NotEmulated for every argument that cannot be bound, even if PowerShell itself would fail.
    """
    bare = _bind_named(call, [item for item in (*parameters, *common()) if item.kind != "*"])
    placed = (item for item in parameters if item.position)
    for item in sorted(placed, key=lambda item: item.position):
        if bare and item.key not in call.bound:
            call.bound[item.key] = _converted(item, bare.pop(0))
    if bare and not any(item.kind == "*" for item in parameters):
        raise _refused(call)
    call.remaining = bare


def _bind_named(call: Call, parameters: Sequence[Declared]) -> list[object]:
    """Bind the named arguments and return the values of all others."""
    bare: list[object] = []
    waiting = list(call.arguments)
    while waiting:
        given = waiting.pop(0)
        if not given.parameter:
            bare.append(given.value)
            continue
        name = given.parameter.lower()
        found = next((item for item in parameters if name in (item.key, item.alias)), None)
        if found is None:
            raise NotEmulated(f"parameter -{given.parameter} of {call.name}")
        has_value = bool(waiting) and not waiting[0].parameter
        if found.key in call.bound or not (found.is_switch or has_value):
            raise _refused(call)
        call.bound[found.key] = True if found.is_switch else _converted(found, waiting.pop(0).value)
    return bare


def _refused(call: Call) -> NotEmulated:
    return NotEmulated(f"these arguments of {call.name}")


def _converted(one: Declared, value: object) -> object:
    if one.kind != ":int":
        return value
    if value is None or isinstance(value, bool):
        raise NotEmulated(f"this value of parameter -{one.name}")
    return to_int(value)
