# SPDX-License-Identifier: Apache-2.0
"""Failures of ``kubectl exec`` for the lab's faults: which execs fail, how, and how many of them.

A fault affects an exec when it starts, or, if the exec runs already, when it next writes or
receives data. An affected exec stays affected until the fault is removed; ``first`` limits how many
execs are affected in all, so that the next attempt succeeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Final

from hybridlab.api.contract import Obj

KINDS: Final = {
    "empty-output": "the command's output is lost; its exit status arrives",
    "lost-status": "the command's output arrives; its exit status is lost",
    "half-output": "the first half of each piece of output arrives, then the exit status",
    "hang": "the command is not started; the output of commands that already run is lost",
    "cut": "the connection is cut at the next output",
    "missing-binary": "the runtime reports that the requested program does not exist",
    "wrong-binary": "another program runs instead of the requested program",
    "dial-fails": "after the upgrade the API server reports that it cannot reach the kubelet",
    "start-times-out": "the runtime reports that it could not start the command in time",
    "slow": "the command starts late",
    "other-words": "certain words in the command's output are replaced",
    "killed": "the command is killed as soon as it runs or receives input",
}


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The execs or requests that a fault affects; an empty field means all."""

    node: str = ""
    namespace: str = ""
    pod: str = ""

    def covers(self, other: Scope) -> bool:
        """Return whether this scope includes ``other``, a scope with known fields."""
        return all(
            mine in ("", theirs) for mine, theirs in zip(astuple(self), astuple(other), strict=True)
        )

    def meets(self, other: Scope) -> bool:
        """Return whether both scopes can include the same exec."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return all(not mine or not theirs or mine == theirs for mine, theirs in pairs)

    def __str__(self) -> str:
        named = {"node": self.node, "namespace": self.namespace, "pod": self.pod}
        return (
            ", ".join(f"{name} {value}" for name, value in named.items() if value) or "everywhere"
        )


@dataclass(kw_only=True)
class ExecFault:
    """A fault that is in effect."""

    kind: str
    """The kind of the fault, one of KINDS."""
    scope: Scope = field(default_factory=Scope)
    first: int = 0
    """The fault affects only this many execs; 0: all."""
    argv: tuple[str, ...] = ()
    """For wrong-binary: the program that answers. For other-words: the words that are replaced, and
    the words that replace them."""
    seconds: float = 0.0
    """For slow: how late the command starts, in seconds."""
    start_error: Callable[[Obj, str, tuple[str, ...]], str] = lambda pod, container, argv: (
        "no such program"
    )
    """A function for missing-binary, start-times-out and dial-fails. Given pod, container and
    command, it returns the error in the words of real systems."""
    caught: set[int] = field(default_factory=set)
    healed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Session:
    """An exec under way."""

    faults: ExecFaults
    number: int
    where: Scope

    def fault(self) -> ExecFault | None:
        """Return the fault that affects this exec now, and count the exec as affected; None if no
        fault affects it."""
        return self.faults.of(self)


class ExecFaults:
    """The faults of a server; none at first."""

    def __init__(self) -> None:
        self._faults: dict[str, ExecFault] = {}
        self._sessions = 0

    @property
    def active(self) -> Mapping[str, ExecFault]:
        return self._faults

    def put(self, name: str, fault: ExecFault) -> None:
        """Apply a fault from now on.  Raise ValueError for an unknown kind, and if another fault
        may affect the same execs."""
        if fault.kind not in KINDS:
            raise ValueError(
                f"there is no exec fault {fault.kind!r}; the exec faults are {', '.join(KINDS)}"
            )
        for other in self._faults.values():
            if other.scope.meets(fault.scope):
                raise ValueError(
                    f"another exec fault is active: {other.kind} ({other.scope}); heal it first"
                )
        self._faults[name] = fault

    def heal(self, name: str) -> None:
        """Remove a fault; execs that hung go on."""
        fault = self._faults.pop(name, None)
        if fault:
            fault.healed.set()

    def session(self, where: Scope) -> Session:
        self._sessions += 1
        return Session(self, self._sessions, where)

    def of(self, session: Session) -> ExecFault | None:
        """Return the fault that affects an exec now, and count the exec as affected; None if no
        fault affects it."""
        for fault in self._faults.values():
            if not fault.scope.covers(session.where):
                continue
            if session.number in fault.caught:
                return fault
            if not fault.first or len(fault.caught) < fault.first:
                fault.caught.add(session.number)
                return fault
        return None
