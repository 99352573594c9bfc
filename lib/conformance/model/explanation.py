# SPDX-License-Identifier: Apache-2.0
"""The explanation of a failed expectation: a value, made once, that every output prints."""

import re
from dataclasses import dataclass, field

from conformance.model.counted import counted

LAYER = "layer"
"""The name of the line that says which layer failed; it is the second line of the message."""


UNKNOWN = "not known"
"""The first words of the line :data:`LAYER` if the line names several causes, or none."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A first line that is understood alone, followed by named lines: reason, observation,
    explanation, advice."""

    claims: tuple[str, ...]
    path: str
    """Client and server: ``ns/client (windows, node w1) -> 10.0.0.9:80/tcp``."""
    expected: str
    observed: str
    tries: int = 0
    seconds: float = 0.0
    """Seconds from the first attempt to the last; 0: the result was read, without an attempt."""
    since: str = ""
    """UTC, RFC 3339: the time from which on all observations had the same verdict as the newest;
    empty: it is not known."""
    lines: dict[str, str] = field(default_factory=dict)
    """Named lines in the order in which they are printed: ``because``, ``observed`` (the newest
    answer's own message), ``policies``, ``Felix``, ``by node``, ``beside``, ``do`` and others."""
    prefix: str = ""
    """The text in the first line before the path, for example that the path is a control, or that a
    pod restarted."""
    cause: str = ""
    """The fault and its place, in words that several claims of a run may share: ``Felix does not
    run on windows-2019``."""
    where: str = ""
    """The ends of the path in a few words, for the first line if no cause is known: ``windows-2019
    to linux-1``."""
    share: str = ""
    """How many paths are wrong in the same way: ``11 of 67 paths``; empty: it is the only path."""
    so: str = ""
    """The conclusion, at the end of the first line."""
    table: str = ""
    """A table of all paths of the expectation, with expected and observed results; empty if there
    is only one path."""
    again: str = ""
    """The command that runs the test again; empty if it is not known yet."""

    @property
    def headline(self) -> str:
        """Return ``POL-1: w1 to linux-2: expected TIMED_OUT, observed CONNECTED (3 tries, 1.2 s)``.

        A known cause replaces the nodes (``w1 to linux-2``). If neither cause nor nodes are known,
        the path takes this place; otherwise the path is printed below the first line.
        """
        tried = (
            f" ({counted(self.tries, 'try', 'tries')}, {self.seconds:.1f} s)"
            if self.tries or self.seconds
            else ""
        )
        known = self.cause or self.where
        begins = f": {known}: {self.prefix}" if known else f"  {self.prefix}{self.path}  "
        share = f", {self.share}" if self.share and self.cause else ""
        line = f"{begins}expected {self.expected}, observed {self.observed}{tried}{share}"
        return f"{', '.join(self.claims) or 'no claim'}{line}{f': {self.so}' if self.so else ''}"

    def __str__(self) -> str:
        lines = ({"path": self.path} if self.cause or self.where else {}) | self.lines
        lines = {name: lines[name] for name in (LAYER, *lines) if name in lines}
        width = max(map(len, lines), default=0)
        rows = [f"  {key:{width}}  {text}" for key, text in lines.items()]
        return "\n".join([self.headline, *rows, *([self.table] if self.table else [])])


def unnamed(line: str, claim: str) -> str:
    """Return a first line without the claim's id and the error's name, for outputs that show the id
    separately.
    """
    return re.sub(rf"\A(?:[A-Z]\w+: )?{re.escape(claim)}(?:  |: )", "", line)
