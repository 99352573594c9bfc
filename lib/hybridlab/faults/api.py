"""Faults between a client and the API server: exec that answers wrongly, requests that are refused."""

from __future__ import annotations

from collections.abc import Mapping

from hybridlab.api.interference import Interference
from hybridlab.faults.bench import Bench
from hybridlab.faults.model import BadFault, Fault, seconds


class ExecFault(Fault):
    """Every exec ends in the same wrong way."""

    def __init__(self, interference: Interference, kind: str) -> None:
        self._interference, self._kind = interference, kind
        self._injected = False

    async def inject(self) -> None:
        """Begin.  Raises BadFault while an exec fault is in place."""
        active = self._interference.exec_fault()
        if active is not None:
            raise BadFault(f"exec is already made to fail: {active}; heal that first")
        self._interference.set_exec_fault(self._kind)
        self._injected = True

    async def heal(self) -> None:
        """End, if this one began it."""
        if self._injected:
            self._interference.set_exec_fault(None)
            self._injected = False

    async def evidence(self) -> list[str]:
        """How execs end now."""
        return [f"exec: {self._kind}"] if self._interference.exec_fault() == self._kind else []


def exec_empty_output(bench: Bench, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Nothing that a command writes arrives; its exit status does."""
    return ExecFault(bench.interference, "empty-output")


def exec_loses_status(bench: Bench, identity: str, parameters: Mapping[str, str]) -> Fault:
    """What a command writes arrives; how it ended does not."""
    return ExecFault(bench.interference, "lost-status")


class Api429(Fault):
    """The API server answers 429 for a while, then heals by itself."""

    def __init__(self, bench: Bench, identity: str, parameters: Mapping[str, str]) -> None:
        self._interference = bench.interference
        self._seconds = seconds("seconds", parameters["seconds"])

    async def inject(self) -> None:
        """Begin."""
        self._interference.reject_for(self._seconds)

    async def heal(self) -> None:
        """End early."""
        self._interference.reject_for(0)

    async def evidence(self) -> list[str]:
        """For how long it still refuses."""
        remaining = self._interference.rejecting()
        return [f"the API server answers 429 for {remaining:.1f} s more"] if remaining > 0 else []
