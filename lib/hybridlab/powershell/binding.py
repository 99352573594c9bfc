"""Parameters of cmdlets: which a cmdlet has, how a shortened name is resolved, and a call with its arguments bound.

A cmdlet declares all parameters that the real one has, also those that are not emulated: a shortened name is resolved
among all of them.  One that is not emulated, not known or ambiguous is refused by name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from hybridlab.powershell.conversion import to_int, to_number
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import NumberText, to_text, truth
from hybridlab.powershell.syntax import Command, NotEmulated

_DECLARATION = re.compile(r"(-)?(\w+)((?:=\w+)*)(@\d)?(\?|\*|:int|:number|:text)?")
_COMMON = (
    "ErrorAction=ea:text -ErrorVariable=ev WarningAction=wa:text -Verbose=vb? -Debug=db? "
    "-InformationAction=infa -WarningVariable=wv -InformationVariable=iv -OutVariable=ov -OutBuffer=ob "
    "-PipelineVariable=pv"
)


@dataclass(frozen=True)
class Declared:
    """One parameter."""

    name: str
    kind: str
    """``?`` a switch, ``*`` all remaining arguments, ``int``, ``number``, ``text``; empty: as given."""
    emulated: bool
    position: int | None
    aliases: tuple[str, ...]


@cache
def declared(text: str) -> tuple[Declared, ...]:
    """``Uri@0 UseBasicParsing? -Proxy TimeoutSec:int``: parameters in a row.

    ``@0`` is a position, ``?`` a switch, ``=sv`` an alias, ``-`` not emulated, ``*`` takes all arguments that are left.
    """
    found = []
    for word in text.split():
        match = _DECLARATION.fullmatch(word)
        if match is None:
            raise ValueError(word)
        aliases = tuple(part for part in match[3].split("=") if part)
        position = int(match[4][1:]) if match[4] else None
        kind = (match[5] or "").removeprefix(":")
        found.append(Declared(match[2], kind, match[1] is None, position, aliases))
    return tuple(found)


def common() -> tuple[Declared, ...]:
    """What every cmdlet has."""
    return declared(_COMMON)


def resolve(name: str, own: Sequence[Declared]) -> Declared | None:
    """The parameter that a whole or shortened name means; None when there is none.  Raises NotEmulated for several."""
    key = name.lower()
    groups = (own, common())
    for group in groups:
        for item in group:
            if key in (item.name.lower(), *(alias.lower() for alias in item.aliases)):
                return item
    for group in groups:
        matching = [item for item in group if any(n.lower().startswith(key) for n in (item.name, *item.aliases))]
        if len(matching) > 1:
            names = ", ".join(f"-{item.name}" for item in matching)
            raise NotEmulated(f"the ambiguous parameter name -{name} ({names})")
        if matching:
            return matching[0]
    return None


@dataclass
class Given:
    """An argument as it stands in the script, evaluated."""

    parameter: str
    """Empty for a bare argument."""
    value: object
    has_value: bool = True
    """False for ``-Name`` without a colon and a value."""
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

    def fault(self, message: str, identity: str) -> Fault:
        """An error of binding: it ends the statement."""
        return Fault(
            message,
            f"InvalidArgument: (:) [{self.name}], ParameterBindingException",
            f"{identity},Microsoft.PowerShell.Commands.{self.name.replace('-', '')}Command",
            source=self.typed,
            at=self.node,
            kind="System.Management.Automation.ParameterBindingException",
        )


def bind(call: Call, parameters: Sequence[Declared]) -> None:
    """Bind ``call.arguments``.  Raises Fault as PowerShell does, and NotEmulated."""
    rest = next((parameter for parameter in parameters if parameter.kind == "*"), None)
    bare: list[object] = []
    waiting = list(call.arguments)
    while waiting:
        given = waiting.pop(0)
        if not given.parameter:
            bare.append(given.value)
            continue
        one = resolve(given.parameter, parameters)
        if one is None:
            if rest is None:
                raise NotEmulated(f"parameter -{given.parameter} of {call.name}")
            if given.has_value:
                raise NotEmulated(f"the argument -{given.parameter}: of {call.name}")
            bare.append(given.word)
            continue
        if not one.emulated:
            raise NotEmulated(f"parameter -{one.name} of {call.name}")
        if one.name.lower() in call.bound:
            raise call.fault(
                f"Cannot bind parameter because parameter '{one.name}' is specified more than once.",
                "ParameterAlreadyBound",
            )
        if one.kind == "?":
            call.bound[one.name.lower()] = given.value if given.has_value else True
            continue
        value = given.value
        if not given.has_value:
            if not waiting or waiting[0].parameter:
                raise call.fault(
                    f"Missing an argument for parameter '{one.name}'. Specify a parameter and try again.",
                    "MissingArgument",
                )
            value = waiting.pop(0).value
        call.bound[one.name.lower()] = _converted(call, one, value)
    _positions(call, parameters, bare, rest)


def _positions(call: Call, parameters: Sequence[Declared], bare: list[object], rest: Declared | None) -> None:
    places = sorted(
        (parameter for parameter in parameters if parameter.position is not None), key=lambda one: one.position or 0
    )
    for place in places:
        if bare and place.name.lower() not in call.bound:
            if not place.emulated:
                raise NotEmulated(f"parameter -{place.name} of {call.name}")
            call.bound[place.name.lower()] = _converted(call, place, bare.pop(0))
    if bare and rest is None:
        words = f"A positional parameter cannot be found that accepts argument '{to_text(bare[0])}'."
        raise call.fault(words, "PositionalParameterNotFound")
    call.remaining = bare


def _converted(call: Call, one: Declared, value: object) -> object:
    try:
        match one.kind:
            case "int":
                if value is None or isinstance(value, bool):
                    raise NotEmulated(f"this value of parameter -{one.name}")
                return to_int(value)
            case "number":
                if value is None or isinstance(value, bool):
                    raise NotEmulated(f"this value of parameter -{one.name}")
                return float(to_number(value))
            case "text":
                if isinstance(value, list):
                    raise NotEmulated(f"an array as parameter -{one.name}")
                return to_text(value)
    except ValueError as error:
        words = f"Cannot bind parameter '{one.name}'. {error}"
        raise call.fault(words, "CannotConvertArgumentNoMessage") from None
    return value


def plain_value(value: object) -> object:
    """A number that was written in an odd form, as a number."""
    return value.value if isinstance(value, NumberText) else value
