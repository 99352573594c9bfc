"""Faults between a client and the API server: requests that are refused, connections that are cut for a while."""

from collections.abc import Mapping
from typing import Literal

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault, Parameter, Types, count, seconds

TYPES = Types()

PARAMETERS = (
    Parameter("seconds", "for how long"),
    Parameter("namespace", "only requests about objects in this namespace", ""),
    Parameter("first", "only so many requests (0: all)", "0"),
)


class ApiRefuses(Fault):
    """The API server answers requests with an error for a while, then heals by itself."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str], code: Literal[429, 500]) -> None:
        self._interference, self._identity, self._code = lab.interference, identity, code
        self._seconds = seconds("seconds", parameters["seconds"])
        self._namespace, self._first = parameters["namespace"], count("first", parameters["first"])

    async def inject(self) -> None:
        self._interference.refuse(
            self._identity, self._code, self._seconds, namespace=self._namespace, first=self._first
        )

    async def heal(self) -> None:
        self._interference.accept(self._identity)

    async def evidence(self) -> list[str]:
        """For how long it still refuses."""
        remaining = self._interference.refusing(self._identity)
        where = f" in namespace {self._namespace}" if self._namespace else ""
        return [f"the API server answers {self._code}{where} for {remaining:.1f} s more"] if remaining > 0 else []


@TYPES.fault("api-429", "api", *PARAMETERS, scope="all, namespace")
def api_429(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The API server answers 429 Too Many Requests for a while."""
    return ApiRefuses(lab, identity, parameters, 429)


@TYPES.fault("api-500", "api", *PARAMETERS, scope="all, namespace")
def api_500(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The API server answers 500 Internal Server Error for a while."""
    return ApiRefuses(lab, identity, parameters, 500)


@TYPES.fault(
    "watch-silent",
    "api",
    Parameter("namespace", "only watches of objects in this namespace", ""),
    Parameter("first", "only so many watches (0: all)", "0"),
    scope="all, namespace",
)
class WatchesSilent(Fault):
    """Watches deliver nothing any more and stay open, as behind a gateway that forgot them."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._interference, self._identity = lab.interference, identity
        self._namespace, self._first = parameters["namespace"], count("first", parameters["first"])

    async def inject(self) -> None:
        self._interference.silence(self._identity, namespace=self._namespace, first=self._first)

    async def heal(self) -> None:
        """Catch no more; those that are caught stay silent."""
        self._interference.let_speak(self._identity)

    async def evidence(self) -> list[str]:
        """Whether watches are still caught."""
        where = f" in namespace {self._namespace}" if self._namespace else ""
        return [f"watches{where} fall silent"] if self._interference.silencing(self._identity) else []


@TYPES.fault("api-unreachable", "api", Parameter("seconds", "for how long"))
class ApiUnreachable(Fault):
    """Every connection to the API server is cut for a while, execs and watches too."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._interference, self._identity = lab.interference, identity
        self._seconds = seconds("seconds", parameters["seconds"])

    async def inject(self) -> None:
        self._interference.go_away(self._identity, self._seconds)

    async def heal(self) -> None:
        self._interference.come_back(self._identity)

    async def evidence(self) -> list[str]:
        """For how long connections are still cut."""
        remaining = self._interference.going_away(self._identity)
        return [f"connections to the API server are cut for {remaining:.1f} s more"] if remaining > 0 else []
