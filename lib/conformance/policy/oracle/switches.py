# SPDX-License-Identifier: Apache-2.0
"""What the oracle can leave off the API's promise: four departures of Calico for Windows, and releases' defects.

A verdict is asked under a set of switches.  None of them is the promise.  ``WINDOWS`` is what Calico for Windows is
documented, or known by design, to make of it; ``as_shipped`` adds what a release was shown to do wrong.
"""

from collections.abc import Iterable
from enum import Enum

Minor = tuple[int, int]


class Switch(Enum):
    """One departure from the promise: its claim, the first release that has it (None: by design), what it does."""

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
        "what the last tier passes, by a rule or at its end, is denied where the default tier has a policy",
    )
    STAGED = ("XPOL-14", (3, 30), "a staged policy denies, and hides what follows it in its tier")
    COMBINED_PORTS = (
        "XPOL-6",
        (3, 29),
        "ports of a Pass and of a rule behind it that have none in common become any port",
    )
    SERVICE_ALONE = (
        "XPOL-7",
        (3, 29),
        "a rule to a Service looks at nothing else that the rule says",
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

RELEASES: tuple[Minor, ...] = ((3, 29), (3, 30), (3, 31), (3, 32))
"""Those whose code was run or read for the defects.  Windows nodes have tiers from the first of them on."""


def as_shipped(release: Minor) -> Switches:
    """Calico for Windows as this release was shipped."""
    return WINDOWS | {
        defect for defect in DEFECTS if defect.since is not None and release >= defect.since
    }


def alike(releases: Iterable[Minor] = RELEASES) -> dict[str, Switches]:
    """Releases that decide alike together: ``v3.29``, ``v3.30 to v3.32``, each with its switches."""
    groups: list[tuple[list[Minor], Switches]] = []
    for release in releases:
        if groups and groups[-1][1] == as_shipped(release):
            groups[-1][0].append(release)
        else:
            groups.append(([release], as_shipped(release)))
    return {_named(group): switches for group, switches in groups}


def _named(group: list[Minor]) -> str:
    ends = [f"v{major}.{number}" for major, number in (group[0], group[-1])]
    return ends[0] if len(group) == 1 else " to ".join(ends)
