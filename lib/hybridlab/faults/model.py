# SPDX-License-Identifier: Apache-2.0
"""The model of a fault: a deliberate defect that can be injected, read back, and removed again."""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts

Layer = Literal["underlay", "policy", "dns", "services", "ipam", "hns", "exec", "api", "pods"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a fault."""

    name: str
    meaning: str
    default: str | None = None
    """The default, which may be empty; None: the parameter must be given."""
    choices: tuple[str, ...] = ()
    scope: str = ""
    """The possible values of a parameter that names a place, in words: ``all, node``."""


NODE = Parameter("node", "name of a node", scope="node")
NODE_OR_ALL = Parameter("node", "name of a node, or all", "all", scope="all, node")
WINDOWS = Parameter("node", "name of a Windows node", scope="Windows node")
WINDOWS_OR_ALL = Parameter(
    "node", "name of a Windows node, or all", "all", scope="all, Windows node"
)
LINUX_OR_ALL = Parameter("node", "name of a Linux node, or all", "all", scope="all, Linux node")


class Fault(ABC):
    """A fault with its parameters, in one lab."""

    @abstractmethod
    async def inject(self) -> None:
        """Put the fault in place."""

    @abstractmethod
    async def heal(self) -> None:
        """Remove the fault; do nothing if it is not in place."""

    @abstractmethod
    async def evidence(self) -> list[str]:
        """Return the present effects of the fault, read from the true state (kernel, Felix, IPAM);
        empty: none."""

    async def verified(self) -> bool:
        return bool(await self.evidence())


class Switch(Fault):
    """A fault that one function or coroutine injects and another removes."""

    def __init__(
        self, on: Callable[[], object], off: Callable[[], object], evidence: Callable[[], list[str]]
    ) -> None:
        """Set up the switch. ``evidence``: returns the present effects; empty: none."""
        self._on = on
        self._off = off
        self._evidence = evidence

    async def inject(self) -> None:
        await _done(self._on)

    async def heal(self) -> None:
        await _done(self._off)

    async def evidence(self) -> list[str]:
        return self._evidence()


async def _done(call: Callable[[], object]) -> None:
    if inspect.isawaitable(made := call()):
        await made


class Entries(Fault):
    """A fault that is an entry in tables of the lab's parts."""

    def __init__(
        self,
        identity: str,
        value: Any,
        tables: Mapping[str, dict[str, Any]],
        put: Callable[[], object] = lambda: None,
        taken: Callable[[], object] = lambda: None,
    ) -> None:
        """Describe the entry. ``tables``: the tables that get the entry, each by a text that
        describes the effect there. ``put`` is called after the entry was added, ``taken`` after its
        removal."""
        self._identity = identity
        self._value = value
        self._tables = tables
        self._put = put
        self._taken = taken

    async def inject(self) -> None:
        for table in self._tables.values():
            table[self._identity] = self._value
        await _done(self._put)

    async def heal(self) -> None:
        if [
            table.pop(self._identity) for table in self._tables.values() if self._identity in table
        ]:
            await _done(self._taken)

    async def evidence(self) -> list[str]:
        return [text for text, table in self._tables.items() if self._identity in table]


Make = Callable[[LabParts, str, Mapping[str, str]], Fault]
M = TypeVar("M", bound=Make)


@dataclass(frozen=True)
class FaultType:
    """A kind of fault that can be injected."""

    name: str
    layer: Layer
    scope: str
    """The possible extents of the fault, in words: ``all, node or pair`` ..."""
    description: str
    make: Make
    """Makes the fault from (lab, unique id, complete parameters). Raises BadFault."""
    parameters: tuple[Parameter, ...] = ()

    def complete(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters with defaults filled in. Raise BadFault for an unknown, missing or
        invalid parameter."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise BadFault(
                    f"fault {self.name} has no parameter {name!r}; its parameters: {_listed(known) or 'none'}"
                )
        complete: dict[str, str] = {}
        for parameter in self.parameters:
            value = given.get(parameter.name, parameter.default)
            if value is None:
                raise BadFault(
                    f"fault {self.name} needs parameter {parameter.name}: {parameter.meaning}"
                )
            if parameter.choices and value not in parameter.choices:
                raise BadFault(
                    f"fault {self.name}: {parameter.name} is {value!r}, expected one of {_listed(parameter.choices)}"
                )
            complete[parameter.name] = str(value)
        return complete


@dataclass(frozen=True)
class Taps:
    """Additions by tests to a lab that they start; a lab of ``hybridlab up`` has none."""

    faults: Mapping[str, FaultType] = field(default_factory=dict)
    """Additional kinds of fault, by name."""
    put: Callable[[LabParts], None] = lambda lab: None
    """Called once before the lab's parts start: puts taps at their seams."""


class Types(list[FaultType]):
    """The kinds of fault of a module."""

    def fault(
        self, name: str, layer: Layer, *parameters: Parameter, scope: str = ""
    ) -> Callable[[M], M]:
        """Declare a function or class as the maker of a fault; its docstring is the description.

        An empty ``scope`` is replaced by the first scope of a parameter, or by ``all``.
        """

        def declared(make: M) -> M:
            where = scope or next(
                (parameter.scope for parameter in parameters if parameter.scope), "all"
            )
            self.append(
                FaultType(
                    name,
                    layer,
                    where,
                    " ".join((make.__doc__ or "").split()).removesuffix("."),
                    make,
                    parameters,
                )
            )
            return make

        return declared


def seconds(name: str, value: str, *, for_good: bool = False) -> float:
    """Return a duration that a parameter gives. With ``for_good`` it may be 0, which means no end.
    Raise BadFault."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < 86400 or (number == 0 and not for_good):
        also = ", or 0" if for_good else ""
        raise BadFault(
            f"{name} is {value!r}, expected a number of seconds above 0 and below 86400{also}"
        )
    return number


def count(name: str, value: str) -> int:
    """Return a number of times that a parameter gives, 0 for no limit. Raise BadFault."""
    if not value.isdecimal():
        raise BadFault(f"{name} is {value!r}, expected a whole number, 0 or more")
    return int(value)


def _listed(names: Mapping[str, object] | tuple[str, ...]) -> str:
    return ", ".join(names)
