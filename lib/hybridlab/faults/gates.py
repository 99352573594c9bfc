# SPDX-License-Identifier: Apache-2.0
"""Gates in front of the data plane, in which faults change the tables that kube-proxies and the DNS
controller write. When a fault begins or ends, a gate passes on the last written table once more.

When the lab is put together, the kube-proxies and the DNS controller get the gates in place of the
data plane.
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
    """Passes on the table that was written for a place, after the faults' functions (the taps of
    its seam) have changed the table."""

    def __init__(
        self, serve: Callable[[str, T], Awaitable[None]], programmed: Callable[[T], T]
    ) -> None:
        """Make a gate. ``programmed`` returns the part of a table that is programmed; ``serve`` is
        called with a place (a node; empty: the whole cluster) and this part."""
        self.seam: Seam[T] = Seam()
        """A seam through which the table passes that is served at a place. Its taps also receive
        the place, and the table that was served there before, or None."""
        self.written: dict[str, T] = {}
        self.served: dict[str, T] = {}
        self._serve = serve
        self._programmed = programmed

    async def write(self, place: str, table: T) -> None:
        """Replace the table of a place; active faults apply to the new table, too."""
        self.written[place] = table
        await self.again([place])

    async def again(self, places: Iterable[str]) -> None:
        """Pass on the tables of these places once more, because faults have changed."""
        for place in self.written.keys() & set(places):
            before = self.served.get(place)
            table = self._programmed(self.seam(self.written[place], place, before))
            if table != before:
                await self._serve(place, table)
                self.served[place] = table


class ZoneGate(Gate[Zone]):
    """A gate with the data plane's method ``set_zone``."""

    def __init__(self, dataplane: Dataplane) -> None:
        super().__init__(lambda _, zone: dataplane.set_zone(zone), lambda zone: zone)

    async def set_zone(self, zone: Zone) -> None:
        """Replace the zone."""
        await self.write("", zone)


class ServiceGate(Gate[ServiceTable]):
    """A gate with the data plane's method ``set_services``."""

    def __init__(self, dataplane: Dataplane) -> None:
        super().__init__(dataplane.set_services, _programmed)

    async def set_services(self, node: str, table: ServiceTable) -> None:
        """Replace a node's Services."""
        await self.write(node, table)

    async def lose(self, node: str) -> None:
        """Remove a node's Services from now on, whatever its kube-proxy programs."""
        self.seam.taps[f"lost {node}"] = partial(_lost, node)
        await self.again([node])

    async def regain(self, node: str) -> None:
        """Restore the Services that a node's kube-proxy programs."""
        self.seam.taps.pop(f"lost {node}", None)
        await self.again([node])


def _programmed(table: ServiceTable) -> ServiceTable:
    """Return the table without backends that are not ready, or that a traffic policy leaves out."""
    return replace(
        table, ports=tuple(replace(port, unready=(), elsewhere=()) for port in table.ports)
    )


def _lost(lost: str, table: ServiceTable, node: str, _: ServiceTable | None) -> ServiceTable:
    return replace(table, ports=()) if node == lost else table
