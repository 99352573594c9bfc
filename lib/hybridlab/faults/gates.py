# SPDX-License-Identifier: Apache-2.0
"""Gates before the data plane: what kube-proxies and the DNS controller write passes a seam, and
can be served again.

The composition gives the gates to the kube-proxies and the DNS controller in the data plane's
place.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.model import ServiceTable, Zone
from hybridlab.taps import Seam

T = TypeVar("T")


class Gate(Generic[T]):
    """Hands on what was written for a place, as the taps of its seam leave it."""

    def __init__(
        self, serve: Callable[[str, T], Awaitable[None]], programmed: Callable[[T], T]
    ) -> None:
        """``serve`` takes a place (a node, or the whole cluster: empty) and what is
        ``programmed`` there."""
        self.seam: Seam[T] = Seam()
        """About: the place; what was served there before, or None."""
        self.written: dict[str, T] = {}
        self.served: dict[str, T] = {}
        self._serve = serve
        self._programmed = programmed

    async def write(self, place: str, table: T) -> None:
        """Replace what was written for a place; what is wrong there stays wrong."""
        self.written[place] = table
        await self.again([place])

    async def again(self, places: Iterable[str]) -> None:
        """Let what was written for these places pass once more, because other taps are there."""
        for place in self.written.keys() & set(places):
            before = self.served.get(place)
            table = self._programmed(self.seam(self.written[place], place, before))
            if table != before:
                await self._serve(place, table)
                self.served[place] = table


class ZoneGate(Gate[Zone]):
    """Offers ``set_zone`` of the data plane."""

    def __init__(self, dataplane: Dataplane) -> None:
        super().__init__(lambda _, zone: dataplane.set_zone(zone), lambda zone: zone)

    async def set_zone(self, zone: Zone) -> None:
        """Replace the zone."""
        await self.write("", zone)


class ServiceGate(Gate[ServiceTable]):
    """Offers ``set_services`` of the data plane."""

    def __init__(self, dataplane: Dataplane) -> None:
        super().__init__(dataplane.set_services, _programmed)

    async def set_services(self, node: str, table: ServiceTable) -> None:
        """Replace a node's Services."""
        await self.write(node, table)

    async def lose(self, node: str) -> None:
        """From now on a node has no Services, whatever its kube-proxy programs."""
        self.seam.taps[f"lost {node}"] = partial(_lost, node)
        await self.again([node])

    async def regain(self, node: str) -> None:
        """It has again what its kube-proxy programs."""
        self.seam.taps.pop(f"lost {node}", None)
        await self.again([node])


def _programmed(table: ServiceTable) -> ServiceTable:
    """Backends that are not ready are programmed nowhere."""
    return replace(table, ports=tuple(replace(port, unready=()) for port in table.ports))


def _lost(lost: str, table: ServiceTable, node: str, _: ServiceTable | None) -> ServiceTable:
    return replace(table, ports=()) if node == lost else table
