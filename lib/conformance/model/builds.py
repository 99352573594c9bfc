# SPDX-License-Identifier: Apache-2.0
"""Windows builds by the names under which their verdicts are listed."""

from dataclasses import dataclass

DSR_REVISION = {17763: 1432}
"""The first revision with direct server return, by build; earlier revisions count as a separate
build."""


def build_name(build: tuple[int, int] | None) -> str:
    """Return the name of a Windows build in decisions: ``20348``, ``17763``, ``17763 before
    .1432``.

    ``build``: build and revision, ``(20348, 2762)``; for None, return ``unknown``.
    """
    if build is None:
        return "unknown"
    first = DSR_REVISION.get(build[0], 0)
    return f"{build[0]}" if build[1] >= first else f"{build[0]} before .{first}"


@dataclass(frozen=True)
class BuildUnderCalico:
    """A Windows node's build and revision, ``(20348, 2762)``, and the version of Calico on it;
    None: not known."""

    build: tuple[int, int]
    calico: str | None

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.build))} under Calico {self.calico or 'of an unknown version'}"
