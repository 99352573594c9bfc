"""What can be wrong with a Felix on purpose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class FelixFaults:
    """What is wrong with a Felix, by the ids of the faults that asked for it."""

    delays: dict[str, float] = field(default_factory=dict)
    """Seconds that policy is late; the longest one counts."""
    frozen: set[str] = field(default_factory=set)
    """Endpoints that were programmed once are not programmed again."""
    storms: set[str] = field(default_factory=set)
    """Linux: programming an endpoint again ends its connections."""
    dead: set[str] = field(default_factory=set)
    """It does not start."""
    on_reprogrammed: dict[str, Callable[[tuple[str, ...]], Awaitable[None]]] = field(default_factory=dict)
    """Told the endpoints whose ACL list Felix replaced by another of its own."""
