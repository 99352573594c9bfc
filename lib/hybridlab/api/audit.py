# SPDX-License-Identifier: Apache-2.0
"""A count of requests by verb, resource and user agent, and the latest requests."""

from collections import Counter, deque
from dataclasses import dataclass

REMEMBERED = 1000
_AGENTS = 256
"""Maximum number of distinct user agents; all further agents count as ``other``."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A request that was received over HTTPS."""

    verb: str
    resource: str
    """The resource: ``pods``, ``pods/exec``, ``deployments.apps``; for a request that names no
    resource, the request's path."""
    namespace: str
    name: str
    user: str
    agent: str
    code: int


class Audit:
    """Counters since the start, and the last requests."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """The number of requests for each (verb, resource, user agent)."""
        self.last: deque[Entry] = deque(maxlen=REMEMBERED)
        self._agents: set[str] = set()

    def note(self, entry: Entry) -> None:
        """Count a request that has been answered, or a watch or exec that has begun."""
        agent = entry.agent.partition(" ")[0]
        if agent not in self._agents:
            if len(self._agents) >= _AGENTS:
                agent = "other"
            self._agents.add(agent)
        self.counts[entry.verb, entry.resource, agent] += 1
        self.last.append(entry)

    def total(self) -> int:
        """Return the number of all requests since the start."""
        return sum(self.counts.values())
