"""The streams beside the output: where errors, warnings and the host's texts go while a command runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from hybridlab.windows.powershell.syntax import NotEmulated, Redirection

Emit = Callable[[object], Awaitable[None]]
"""Takes one object of an output."""


async def drop(value: object) -> None:
    """The sink of ``2>$null``."""


@dataclass(frozen=True)
class Streams:
    """A sink per stream; None is the host."""

    error: Emit | None = None
    warning: Emit | None = None
    verbose: Emit | None = None
    debug: Emit | None = None
    information: Emit | None = None


_NUMBERS = {"2": "error", "3": "warning", "4": "verbose", "5": "debug", "6": "information"}


def redirected(outer: Streams, output: Emit, redirections: Iterable[Redirection]) -> tuple[Streams, Emit]:
    """The streams and the output of a command with these redirections.  Raises NotEmulated."""
    streams, out = outer, output
    for one in redirections:
        if one.stream == "1":
            if one.merge:
                raise NotEmulated("the redirection 1>&1")
            out = drop
    for one in redirections:
        names = list(_NUMBERS.values()) if one.stream == "*" else [_NUMBERS[one.stream]] if one.stream != "1" else []
        if one.stream == "*" and not one.merge:
            out = drop
        if one.merge and out is drop:
            raise NotEmulated("a stream merged with an output that goes nowhere")
        streams = replace(streams, **dict.fromkeys(names, out if one.merge else drop))
    return streams, out
