"""The streams beside the output: where errors and the host's texts go while a command runs."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from hybridlab.powershell.syntax import NotEmulated, Redirection

Emit = Callable[[object], Awaitable[None]]
"""Takes one object of an output."""


async def drop(value: object) -> None:
    """The sink of ``2>$null``."""


@dataclass(frozen=True)
class Streams:
    """A sink per stream; None is the host."""

    error: Emit | None = None
    information: Emit | None = None


_WRITTEN = {"2": ("error",), "6": ("information",), "*": ("error", "information")}
"""Streams to which something here writes."""


def redirected(outer: Streams, output: Emit, redirections: Iterable[Redirection]) -> tuple[Streams, Emit]:
    """The streams and the output of a command with these redirections.  Raises NotEmulated."""
    streams, out = outer, output
    for redirection in redirections:
        if redirection.stream == "1":
            if redirection.merge:
                raise NotEmulated("the redirection 1>&1")
            out = drop
    for redirection in redirections:
        names = _WRITTEN.get(redirection.stream, ())
        if redirection.stream == "*" and not redirection.merge:
            out = drop
        if redirection.merge and out is drop:
            raise NotEmulated("a stream merged with an output that goes nowhere")
        streams = replace(streams, **dict.fromkeys(names, out if redirection.merge else drop))
    return streams, out
