# SPDX-License-Identifier: Apache-2.0
"""Parameters of cmdlets: which a cmdlet has here, and a call with its arguments bound.

A parameter is named whole or by its alias; any other name is refused.
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
    """One parameter."""

    name: str
    alias: str
    position: str
    """``@0`` the first of the arguments without a name; empty: never there."""
    kind: str
    """``?`` a switch, ``*`` all remaining arguments, by no name, ``:int`` a number; empty: as given."""

    @property
    def key(self) -> str:
        """Its name among the bound arguments."""
        return self.name.lower()

    @property
    def is_switch(self) -> bool:
        return self.kind == "?"


@cache
def declared(text: str) -> tuple[Declared, ...]:
    """``Uri@0 UseBasicParsing? TimeoutSec:int``: parameters in a row.

    ``@0`` is a position, ``?`` a switch, ``=ea`` an alias, ``*`` takes all arguments that are left.
    """
    found = []
    for word in text.split():
        match = _DECLARATION.fullmatch(word)
        if match is None:
            raise ValueError(word)
        found.append(Declared(match[1], match[2] or "", match[3] or "", match[4] or ""))
    return tuple(found)


def common() -> tuple[Declared, ...]:
    """What every cmdlet has."""
    return declared("ErrorAction=ea")


@dataclass
class Given:
    """An argument as it stands in the script, evaluated."""

    parameter: str
    """Empty for a bare argument."""
    value: object
    word: str = ""
    """As written."""


@dataclass
class Call:
    """A command's arguments, bound."""

    node: Command
    name: str
    """The cmdlet's own name, ``Invoke-WebRequest``."""
    typed: str
    """The name as the script has it, ``iwr``: errors begin with it."""
    arguments: list[Given] = field(default_factory=list)
    bound: dict[str, object] = field(default_factory=dict)
    """By the parameter's name in lower case."""
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
    """Bind ``call.arguments``.  Raises NotEmulated, also for what PowerShell itself refuses."""
    bare = _bind_named(call, [item for item in (*parameters, *common()) if item.kind != "*"])
    placed = (item for item in parameters if item.position)
    for item in sorted(placed, key=lambda item: item.position):
        if bare and item.key not in call.bound:
            call.bound[item.key] = _converted(item, bare.pop(0))
    if bare and not any(item.kind == "*" for item in parameters):
        raise _refused(call)
    call.remaining = bare


def _bind_named(call: Call, parameters: Sequence[Declared]) -> list[object]:
    """Bind the arguments with a name; return the values of the others."""
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
