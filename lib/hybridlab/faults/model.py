"""What a fault is: something deliberately wrong that can be put in place, read back, and taken away again."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts

Layer = Literal["underlay", "policy", "dns", "services", "ipam", "hns", "exec", "api", "pods"]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a fault."""

    name: str
    meaning: str
    default: str | None = None
    """None: it must be given.  Empty: it may be left out."""
    choices: tuple[str, ...] = ()


class Fault(ABC):
    """One fault with its parameters, at one lab."""

    @abstractmethod
    async def inject(self) -> None:
        """Put it in place."""

    @abstractmethod
    async def heal(self) -> None:
        """Take it away; nothing when it is not there."""

    @abstractmethod
    async def evidence(self) -> list[str]:
        """What is wrong now because of it, read from the true state (kernel, Felix, IPAM); empty: nothing."""

    async def verified(self) -> bool:
        """It is in effect."""
        return bool(await self.evidence())


@dataclass(frozen=True, kw_only=True)
class FaultType:
    """A kind of fault that can be injected."""

    name: str
    layer: Layer
    scope: str
    """Where it can be put, in words: ``all, node or pair`` ..."""
    description: str
    make: Callable[[LabParts, str, Mapping[str, str]], Fault]
    """(lab, unique id, complete parameters) to the fault.  Raises BadFault."""
    parameters: tuple[Parameter, ...] = ()

    def complete(self, given: Mapping[str, str]) -> dict[str, str]:
        """The parameters with defaults filled in.  Raises BadFault for what is unknown, missing or no choice."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise BadFault(f"fault {self.name} has no parameter {name!r}; it takes {_listed(known) or 'none'}")
        complete: dict[str, str] = {}
        for parameter in self.parameters:
            value = given.get(parameter.name, parameter.default)
            if value is None:
                raise BadFault(f"fault {self.name} needs {parameter.name}: {parameter.meaning}")
            if parameter.choices and value not in parameter.choices:
                raise BadFault(
                    f"fault {self.name}: {parameter.name} is {value!r}, expected one of {_listed(parameter.choices)}"
                )
            complete[parameter.name] = str(value)
        return complete


def seconds(name: str, value: str, *, for_good: bool = False) -> float:
    """A duration that a parameter gives; with ``for_good`` it may be 0, for one without end.  Raises BadFault."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < 86400 or (number == 0 and not for_good):
        also = ", or 0" if for_good else ""
        raise BadFault(f"{name} is {value!r}, expected a number of seconds above 0 and below 86400{also}")
    return number


def count(name: str, value: str) -> int:
    """A number of times that a parameter gives, 0 for no limit.  Raises BadFault."""
    if not value.isdecimal():
        raise BadFault(f"{name} is {value!r}, expected a whole number, 0 or more")
    return int(value)


def _listed(names: Mapping[str, object] | tuple[str, ...]) -> str:
    return ", ".join(names)
