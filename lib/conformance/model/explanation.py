# SPDX-License-Identifier: Apache-2.0
"""Why an expectation failed, as a value: made once, and printed by every output."""

import re
from dataclasses import dataclass, field

from conformance.model.counted import counted


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A first line that is enough on its own, then named lines: why, what was seen, what explains it, what to do."""

    claims: tuple[str, ...]
    path: str
    """Who connects to whom: ``ns/client (windows, node w1) -> 10.0.0.9:80/tcp``."""
    expected: str
    observed: str
    tries: int = 0
    seconds: float = 0.0
    """From the first try to the last; 0, and no try: it was read."""
    lines: dict[str, str] = field(default_factory=dict)
    """Named lines in the order in which they are told: ``because``, ``observed`` (the newest answer's own words),
    ``policies``, ``Felix``, ``by node``, ``beside``, ``do`` and others."""
    prefix: str = ""
    """What the first line says between the claims and the path: that it is a control, or that a pod restarted."""
    cause: str = ""
    """What is wrong where, in words that several claims of a run may share: ``Felix does not run on windows-2019``."""
    where: str = ""
    """The ends of the path in a few words, for the first line where no cause is known: ``windows-2019 to linux-1``."""
    share: str = ""
    """How many paths are so: ``11 of 67 paths``; empty: it is the only one."""
    so: str = ""
    """What follows from it, at the first line's end."""
    table: str = ""
    """All paths of the expectation, expected and observed side by side; empty: there is one."""
    again: str = ""
    """The command that runs the test again; empty: not known yet."""

    @property
    def headline(self) -> str:
        """``POL-1: w1 to linux-2: expected TIMED_OUT, observed CONNECTED (3 tries, 1.2 s)``, and the path below.

        Where the cause is known it stands in the place of nodes; where neither is, the path does.
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
        width = max(map(len, lines), default=0)
        told = [f"  {key:{width}}  {text}" for key, text in lines.items()]
        return "\n".join([self.headline, *told, *([self.table] if self.table else [])])


def unnamed(line: str, claim: str) -> str:
    """A first line without the claim's id and the name of the error before it, where the id stands beside it."""
    return re.sub(rf"\A(?:[A-Z]\w+: )?{re.escape(claim)}(?:  |: )", "", line)
