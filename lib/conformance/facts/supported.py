# SPDX-License-Identifier: Apache-2.0
"""What the documents of its version of Calico say of a cluster's platform, network and Kubernetes,
as facts by name."""

from dataclasses import dataclass

from conformance.catalog import Version, row
from conformance.model.facts import Fact, Facts

LISTED = "listed"
NOT_NAMED = "not named"


@dataclass(frozen=True)
class Supported:
    """Of one cluster.  A fact says ``listed``, or what is there and what is listed in its place."""

    facts: Facts

    def platform(self) -> dict[str, Fact[str]]:
        """Whether the platform is one of those that Calico for Windows lists."""
        return {"the platform": self._looked_up("platforms", self.facts.platform)}

    def network(self) -> dict[str, Fact[str]]:
        """Whether the platform is listed with this CNI plugin of Windows nodes in this mode."""
        facts = (self.facts.platform, self.facts.cni, self.facts.mode)
        unknown = next((fact for fact in facts if fact.value is None), None)
        there = Fact(
            None if unknown else "{}: {} in {}".format(*(fact.value for fact in facts)),
            unknown.source if unknown else "; ".join(fact.source for fact in facts),
        )
        return {"the network of Windows pods": self._looked_up("networks", there)}

    def kubernetes(self) -> dict[str, Fact[str]]:
        """Whether this release of Kubernetes is one that this Calico was tested with."""
        told = self.facts.kubernetes_version
        release = (
            ".".join(str(number) for number in Version.parse(told.value).numbers[:2])
            if told.value
            else None
        )
        return {
            "the release of Kubernetes": self._looked_up("kubernetes", Fact(release, told.source))
        }

    def unsupported(self) -> dict[str, Fact[str]]:
        """Whether the documents name the platform among those that are not supported."""
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
            return Fact(None, f"not in the table: Calico {calico.value} ({calico.source})")
        own = [
            item.partition(": ")[2]
            for item in known.listed
            if item.startswith(f"{there.value.split(': ')[0]}: ")
        ]
        others = own or known.listed
        value = (
            LISTED
            if there.value in known.listed
            else f"{there.value}, where {', '.join(others)} are listed"
        )
        return Fact(value, f"{there.source}; Calico {calico.value}: {known.source}")
