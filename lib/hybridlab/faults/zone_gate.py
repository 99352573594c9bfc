"""DNS answers that are wrong or late: a gate between whoever writes the zone and the resolvers.

The composition gives the gate to the DNS controller in the data plane's place; every other call goes straight on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.model import Zone

WRONG_ADDRESS = "203.0.113.9"
"""In a range that is documentation only (RFC 5737): nothing answers there."""
ANOTHER: Final = "another-address"
EXTRA: Final = "extra-address"
AAAA_DENIED: Final = "aaaa-nxdomain"
PORT: Final = "another-port"
NAME: Final = "another-name"
ANSWERS = {
    ANOTHER: f"with {WRONG_ADDRESS}",
    EXTRA: f"with {WRONG_ADDRESS} too",
    AAAA_DENIED: "with NXDOMAIN where it is asked for another record than A",
    PORT: "with the next port",
    NAME: "with another name",
}
"""What can be wrong with an answer (A, AAAA, SRV and PTR records), and how evidence tells it."""


@dataclass(frozen=True)
class WrongAnswer:
    """What is answered wrongly."""

    name: str
    """Full name; empty: every name."""
    answer: str = ANOTHER
    """One of ``ANSWERS``."""

    def meets(self, host: str) -> bool:
        return self.name in {"", host}


def _with_wrong(zone: Zone, given: WrongAnswer) -> Zone:
    """Return the zone with one fault's wrong answers in the place of the true ones."""
    hosts = [host for host in zone.a if given.meets(host)]
    if given.answer == AAAA_DENIED:
        return replace(zone, denied=tuple(sorted({*zone.denied, *hosts})))
    if given.answer == PORT:
        wrong = {
            at: tuple((port + 1, to) for port, to in there)
            for at, there in zone.srv.items()
            if given.meets(at)
        }
        return replace(zone, srv={**zone.srv, **wrong})
    if given.answer == NAME:
        names = {at: f"not-{name}" for at, name in zone.ptr.items() if given.meets(name)}
        return replace(zone, ptr={**zone.ptr, **names})
    extra = given.answer == EXTRA
    addresses = {host: (*(zone.a[host] if extra else ()), WRONG_ADDRESS) for host in hosts}
    return replace(zone, a={**zone.a, **addresses})


class ZoneGate:
    """Lets the zone through, or one with wrong answers.  Offers ``set_zone`` of the data plane."""

    def __init__(self, dataplane: Dataplane) -> None:
        self._dataplane = dataplane
        self._true: Zone | None = None
        self._served: Zone | None = None
        self._wrong: dict[str, WrongAnswer] = {}
        self._stale: set[str] = set()
        self._late: dict[str, tuple[tuple[str, float], ...]] = {}

    async def set_zone(self, zone: Zone) -> None:
        """Replace the zone; what is answered wrongly stays wrong."""
        self._true = zone
        await self._serve()

    async def answer_wrongly(self, fault: str, wrong: WrongAnswer | None) -> None:
        """Answer wrongly on behalf of a fault; None: no longer."""
        if wrong is None:
            self._wrong.pop(fault, None)
        else:
            self._wrong[fault] = wrong
        await self._serve()

    async def keep(self, fault: str, *, stale: bool) -> None:
        """On behalf of a fault, names keep the addresses that they had first; or no longer."""
        (self._stale.add if stale else self._stale.discard)(fault)
        await self._serve()

    async def delay(self, fault: str, late: tuple[tuple[str, float], ...]) -> None:
        """On behalf of a fault, clients of these networks are answered so many seconds late; none: no longer."""
        if late:
            self._late[fault] = late
        else:
            self._late.pop(fault, None)
        await self._serve()

    def late(self, fault: str) -> tuple[tuple[str, float], ...]:
        """Networks whose clients are answered late because of a fault, with the seconds."""
        served = self._served.late if self._served else ()
        return tuple(entry for entry in self._late.get(fault, ()) if entry in served)

    def keeps(self, fault: str) -> bool:
        return fault in self._stale

    def wrong(self, fault: str) -> list[str]:
        """Names that resolvers were told wrongly because of a fault; once it is healed, those that nothing explains."""
        if self._true is None or self._served is None:
            return []
        served = _answers(self._served)
        denied = self._served.denied
        wrong = [
            host
            for host, true in _answers(self._true).items()
            if served[host] != true or host in denied
        ]
        answer = self._wrong.get(fault)
        if answer is None:
            return [
                host
                for host in wrong
                if not any(other.meets(host) for other in self._wrong.values())
            ]
        return [host for host in wrong if answer.meets(host)]

    async def _serve(self) -> None:
        if self._true is None:
            return
        zone = replace(
            self._true, late=tuple(entry for entries in self._late.values() for entry in entries)
        )
        if self._stale and self._served is not None:
            had = self._served.a
            zone = replace(zone, a={host: had.get(host, true) for host, true in zone.a.items()})
        for given in self._wrong.values():
            zone = _with_wrong(zone, given)
        await self._dataplane.set_zone(zone)
        self._served = zone


def _answers(zone: Zone) -> dict[str, tuple[object, ...]]:
    records: tuple[Mapping[str, object], ...] = (zone.a, zone.srv, zone.ptr)
    return {host: tuple(one.get(host) for one in records) for one in records for host in one}
