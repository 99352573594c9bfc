# SPDX-License-Identifier: Apache-2.0
"""The Windows builds and container runtimes that the requirements page of each Calico version
lists."""

from dataclasses import dataclass

from conformance.catalog import Range, Version, row, tables
from conformance.model.builds import BuildUnderCalico
from conformance.model.facts import Facts

CONTAINERD_FLOOR = "1.6"
"""The containerd version that HostProcess containers need. The ways of installation in
:data:`HOST_PROCESS` need such containers."""
HOST_PROCESS = ("operator", "manifest")
"""Ways of installation that run Calico in HostProcess containers on Windows. After a manual
installation, Calico runs as services."""
FLOORS = {"operator": "3.27"}
"""The first Calico version that can be installed on Windows in a given way, by the way of
installation."""
FLOOR = "3.12"
"""The first Calico version for all other ways of installation."""


@dataclass(frozen=True)
class Builds:
    """The row of the requirements page's table for a cluster. An unknown Calico version is judged
    as the newest."""

    facts: Facts

    @property
    def calico(self) -> str:
        """Return Calico's versions on the Windows nodes, for messages."""
        return " and ".join(version or "of an unknown version" for version in self._versions)

    @property
    def install(self) -> str:
        """Return how Calico was installed, for messages."""
        return self.facts.install.value or "an unknown installation method"

    @property
    def calico_floor(self) -> str:
        """Return the first Calico version for this way of installation."""
        return FLOORS.get(self.install, FLOOR)

    def recent(self, version: str) -> bool:
        """Return whether a Calico version is :attr:`calico_floor` or later."""
        return Version.parse(version) >= Version.parse(self.calico_floor)

    def listed(self, there: BuildUnderCalico) -> bool:
        """Return whether the requirements of the Calico version on a node list the node's Windows
        build."""
        return any(Version.of(*there.build) in Range(item) for item in _row(there.calico))

    @property
    def row(self) -> str:
        """Return ``build.revision >=17763.1432 <17764 or >=20348.169 <20349``; one row for each
        Calico version if nodes differ."""
        rows = {
            version: f"build.revision {' or '.join(_row(version))}" for version in self._versions
        }
        if len(rows) == 1:
            return next(iter(rows.values()))
        return "; ".join(
            f"{row} under Calico {version or 'of an unknown version'}"
            for version, row in rows.items()
        )

    @property
    def runtimes(self) -> str:
        """Return the runtimes that :meth:`runtime_fits` accepts, in words."""
        return (
            f"containerd {CONTAINERD_FLOOR} or later"
            if self.install in HOST_PROCESS
            else "containerd or Docker"
        )

    def runtime_fits(self, runtime: str) -> bool:
        """Return whether the requirements of Calico for Windows list a node's
        ``containerRuntimeVersion``."""
        name, _, version = runtime.partition("://")
        if self.install not in HOST_PROCESS:
            return name in ("containerd", "docker")
        return name == "containerd" and Version.parse(version) >= Version.parse(CONTAINERD_FLOOR)

    @property
    def _versions(self) -> list[str | None]:
        """Return the different Calico versions on Windows nodes."""
        there = [self.facts.calico_on(node.name).value for node in self.facts.by_os("windows")]
        return list(dict.fromkeys(there)) or [self.facts.calico_version.value]


def _row(calico: str | None) -> tuple[str, ...]:
    """Return the ranges of builds that the requirements of a Calico version list."""
    return (row("builds", calico) or tables()["builds"][0]).listed
