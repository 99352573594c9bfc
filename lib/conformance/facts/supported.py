# SPDX-License-Identifier: Apache-2.0
"""Facts about support, by name: whether the documents of the cluster's Calico version list its
platform, network and Kubernetes release."""

from dataclasses import dataclass

from conformance.catalog import Version, row, tables
from conformance.model.facts import Fact, Facts

LISTED = "listed"
NOT_NAMED = "not named"


@dataclass(frozen=True)
class Supported:
    """Facts about support in the documents. A fact is ``listed``, or the present value with the
    list."""

    facts: Facts

    def platform(self) -> dict[str, Fact[str]]:
        """Return whether Calico for Windows lists the platform as supported."""
        return {"the platform": self._looked_up("platforms", self.facts.platform)}

    def network(self) -> dict[str, Fact[str]]:
        """Return whether the platform is listed with this CNI plugin of Windows nodes in this
        mode."""
        facts = (self.facts.platform, self.facts.cni, self.facts.mode)
        unknown = next((fact for fact in facts if fact.value is None), None)
        there = Fact(
            None if unknown else "{}: {} in {}".format(*(fact.value for fact in facts)),
            unknown.source if unknown else "; ".join(fact.source for fact in facts),
        )
        return {"the network of Windows pods": self._looked_up("networks", there)}

    def kubernetes(self) -> dict[str, Fact[str]]:
        """Return whether this version of Calico was tested with this release of Kubernetes."""
        reported = self.facts.kubernetes_version
        release = (
            ".".join(str(number) for number in Version.parse(reported.value).numbers[:2])
            if reported.value
            else None
        )
        return {
            "the release of Kubernetes": self._looked_up(
                "kubernetes", Fact(release, reported.source)
            )
        }

    def windows_build(self, node: str) -> dict[str, Fact[str]]:
        """Return whether this release of Kubernetes lists the build of a Windows node."""
        reported = self.facts.kubernetes_version
        build = next(one for one in self.facts.by_os("windows") if one.name == node).windows_build
        release = Version.parse(reported.value) if reported.value else None
        rows = [one for one in tables()["windows"] if release and release in one.versions]
        name = f"build of node {node}"
        if not build:
            return {name: Fact(None, ".status.nodeInfo.kernelVersion names no build")}
        if not rows:
            text = f"the table has no row for Kubernetes {reported.value} ({reported.source})"
            return {name: Fact(None, text)}
        own = str(build[0])
        listed = rows[0].listed
        value = LISTED if own in listed else f"{own}, but listed: {', '.join(listed)}"
        return {name: Fact(value, f"Kubernetes {reported.value}: {rows[0].source}")}

    def unsupported(self) -> dict[str, Fact[str]]:
        """Return whether the documents name the platform as not supported."""
        found = self._looked_up("unsupported", self.facts.platform)
        return {
            "the platform": found
            if found.value in (None, LISTED)
            else Fact(NOT_NAMED, found.source)
        }

    def _looked_up(self, table: str, there: Fact[str]) -> Fact[str]:
        calico = self.facts.calico_version
        if there.value is None:
            return there
        if calico.value is None:
            return Fact(None, f"Calico's version is not known: {calico.source}")
        known = row(table, calico.value)
        if known is None:
            return Fact(None, f"the table has no row for Calico {calico.value} ({calico.source})")
        own = [
            item.partition(": ")[2]
            for item in known.listed
            if item.startswith(f"{there.value.split(': ')[0]}: ")
        ]
        others = own or known.listed
        value = (
            LISTED
            if there.value in known.listed
            else f"{there.value}, but listed: {', '.join(others)}"
        )
        return Fact(value, f"{there.source}; Calico {calico.value}: {known.source}")
