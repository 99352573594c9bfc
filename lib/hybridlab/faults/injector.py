# SPDX-License-Identifier: Apache-2.0
"""Injects and removes faults, and verifies both in the true state."""

import asyncio
import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hybridlab.faults.errors import BadFault, FaultFailed
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault, FaultType


@dataclass(frozen=True)
class Active:
    """A fault that is in place."""

    id: str
    type: FaultType
    parameters: Mapping[str, str]
    fault: Fault


class Injector:
    """The faults of a lab."""

    def __init__(
        self, lab: LabParts, offered: Mapping[str, FaultType], elsewhere: Collection[str] = ()
    ) -> None:
        """Set up the injector. ``offered``: the faults that this lab can have; ``elsewhere``: the
        names of faults that only labs with another network can have."""
        self._lab = lab
        self._offered = offered
        self._elsewhere = elsewhere
        self._active: dict[str, Active] = {}
        self._number = 0
        self._one_at_a_time = asyncio.Lock()

    @staticmethod
    def catalogue(faults: Iterable[FaultType]) -> list[dict[str, Any]]:
        """Return the names of faults, with layers, scopes, descriptions and the meaning of
        parameters."""
        return [
            {
                "name": kind.name,
                "layer": kind.layer,
                "scope": kind.scope,
                "description": kind.description,
                "parameters": {parameter.name: parameter.meaning for parameter in kind.parameters},
            }
            for kind in faults
        ]

    async def inject(self, name: str, parameters: Mapping[str, str] | None = None) -> str:
        """Inject a fault and return its id. Raise BadFault for an invalid request, FaultFailed if
        the fault is not in effect afterwards.
        """
        name = name.casefold()
        kind = self._offered.get(name)
        if kind is None and name in self._elsewhere:
            raise BadFault(
                f"fault {name} is not possible in this lab: "
                "no part of the lab's network can fail in this way"
            )
        if kind is None:
            near = difflib.get_close_matches(name, self._offered, 3)
            hint = f". Did you mean {' or '.join(near)}?" if near else "."
            offered = ", ".join(self._offered)
            raise BadFault(f"there is no fault {name!r}{hint} The lab's faults are: {offered}")
        complete = kind.complete(parameters or {})
        async with self._one_at_a_time:
            self._number += 1
            identity = f"{name}-{self._number}"
            fault = kind.make(self._lab, identity, complete)
            try:
                await fault.inject()
                if not await fault.verified():
                    found = await fault.evidence() or "none"
                    raise FaultFailed(
                        f"fault {name} is not in effect after its injection; "
                        f"observed effects: {found}"
                    )
            except BaseException:
                await asyncio.shield(fault.heal())
                raise
            self._active[identity] = Active(identity, kind, complete, fault)
            return identity

    async def heal(self, identity: str) -> None:
        """Remove a fault. Raise BadFault for an unknown id, FaultFailed if parts of it remain."""
        async with self._one_at_a_time:
            found = self._active.get(identity)
            if found is None:
                raise BadFault(
                    f"there is no active fault {identity!r}; "
                    f"active faults: {', '.join(self._active) or 'none'}"
                )
            await found.fault.heal()
            rest = await found.fault.evidence()
            if rest:
                raise FaultFailed(
                    f"fault {identity} is still in effect after it was healed: {'; '.join(rest)}"
                )
            del self._active[identity]

    async def heal_all(self) -> None:
        """Remove every fault. Raise FaultFailed with the names of all that remain."""
        failed: list[str] = []
        for identity in list(self._active):
            try:
                await self.heal(identity)
            except FaultFailed as error:
                failed.append(str(error))
        if failed:
            raise FaultFailed("; ".join(failed))

    def active(self) -> list[dict[str, Any]]:
        """Return the faults that were injected and not removed: id, name and parameters."""
        return [
            {"id": active.id, "fault": active.type.name, "parameters": dict(active.parameters)}
            for active in self._active.values()
        ]

    async def evidence(self, identity: str) -> list[str]:
        """Return the effects of an active fault, read now."""
        return await self._active[identity].fault.evidence()
