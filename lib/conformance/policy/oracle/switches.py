# SPDX-License-Identifier: Apache-2.0
"""The oracle's departures from the API's promise: four of Calico for Windows, and defects of
releases.

A verdict is computed under a set of switches.  The empty set is the promise.  ``WINDOWS`` has the
departures of Calico for Windows that are documented, or known by design; ``as_shipped`` adds the
defects that a release was shown to have.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

Minor = tuple[int, int]


class Switch(Enum):
    """A departure from the promise: its claim, the first release that has it (None: by design),
    what it does."""

    NEGATIONS = (
        "XPOL-1",
        None,
        "a rule with a negated match (notNets, except, notPorts, notProtocol, notICMP, a notSelector alone in a "
        "GlobalNetworkPolicy) is left out as a whole",
    )
    ICMP_TYPES = ("XPOL-3", None, "a rule with an ICMP type or code is left out as a whole")
    NAMED_PORTS = (
        "XPOL-4",
        None,
        "a rule that names a port is left out as a whole, its numbers included",
    )
    LAST_PASS = (
        "XPOL-6",
        None,
        "traffic that the last tier passes, by a rule or at its end, is denied where the default tier has a policy",
    )
    STAGED = ("XPOL-14", (3, 30), "a staged policy denies, and hides later policies of its tier")
    COMBINED_PORTS = (
        "XPOL-6",
        (3, 29),
        "if a Pass and a later rule have no port in common, any port matches",
    )
    SERVICE_ALONE = (
        "XPOL-7",
        (3, 29),
        "in a rule that names a Service, all other fields are ignored",
    )

    def __init__(self, claim: str, since: Minor | None, statement: str) -> None:
        self.claim = claim
        self.since = since
        self.statement = statement

    def __str__(self) -> str:
        return f"{self.name.lower().replace('_', '-')} ({self.claim})"


Switches = frozenset[Switch]

PROMISE: Switches = frozenset()
WINDOWS: Switches = frozenset(switch for switch in Switch if switch.since is None)
DEFECTS: Switches = frozenset(switch for switch in Switch if switch.since is not None)

RELEASES: tuple[Minor, ...] = ((3, 29), (3, 30), (3, 31), (3, 32), (3, 33))
"""Releases whose code was run or read for the defects.  Windows nodes have tiers from the first
entry on."""


def subsets(switches: Switches) -> Iterator[Switches]:
    """Yield the sets of some of the switches, the smallest first."""
    ordered = sorted(switches, key=list(Switch).index)
    for size in range(len(ordered) + 1):
        yield from map(frozenset, combinations(ordered, size))


def as_shipped(release: Minor) -> Switches:
    """Return the switches of Calico for Windows as this release was shipped."""
    return WINDOWS | {
        defect for defect in DEFECTS if defect.since is not None and release >= defect.since
    }


def columns(version: str | None) -> tuple[Switches, ...]:
    """Return the switches under which a Windows node may enforce policies: as documented, and as
    shipped.

    ``version``: of Calico there; if it is unknown, the newest release that was read counts.
    """
    found = re.match(r"v?(\d+)\.(\d+)", version or "")
    release = (int(found[1]), int(found[2])) if found else RELEASES[-1]
    return tuple(dict.fromkeys((WINDOWS, as_shipped(release))))


@dataclass(frozen=True)
class Column:
    """A reading of policies: as promised, as documented for Windows, or by releases."""

    name: str
    switches: Switches = PROMISE
    """Departures on Windows; a Linux pod has none in any column."""
    release: Minor | None = None
    """The release that breaks ties, and that reads its kinds alone."""

    def on(self, system: str) -> Switches:
        """Return the departures of a system."""
        return self.switches if system == "windows" else PROMISE


def columns_of(breaks: Iterable[Minor]) -> tuple[Column, ...]:
    """Return the promise, Windows, and the releases, those that decide alike together.

    ``breaks``: releases that decide otherwise than the releases before them, whatever the defects.
    """
    groups: list[list[Minor]] = []
    known = list(breaks)
    for release in RELEASES:
        before = groups[-1][-1] if groups else None
        if before and as_shipped(before) == as_shipped(release) and release not in known:
            groups[-1].append(release)
        else:
            groups.append([release])
    shipped = (Column(_named(group), as_shipped(group[0]), group[0]) for group in groups)
    return (Column("PROMISE"), Column("WINDOWS", WINDOWS), *shipped)


def _named(group: list[Minor]) -> str:
    ends = [f"v{major}.{number}" for major, number in (group[0], group[-1])]
    return ends[0] if len(group) == 1 else " to ".join(ends)
