"""FelixConfiguration as one node's Felix takes it: once, at its start.

What is changed later makes Felix exit and start again (exit status 129).  On Windows its environment says which VNI it
uses (felix-service.ps1: FELIX_VXLANVNI), and what the environment says no FelixConfiguration changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hybridlab.calico.routes import DEFAULT_PORT, DEFAULT_VNI
from hybridlab.profiles.model import OS

EXIT_STATUS = 129
"""The exit status of a Felix that wants to be started again with another configuration."""
WITHOUT_RESTART = frozenset({"calicoVersion", "clusterGUID", "clusterType", "healthTimeoutOverrides"})
"""What Felix takes over while it runs."""
FROM_ENVIRONMENT = {"linux": frozenset[str](), "windows": frozenset({"vxlanVNI"})}


@dataclass(frozen=True, kw_only=True)
class FelixSettings:
    """What a Felix read when it started."""

    values: Mapping[str, Any]
    """Every field, those of the node's own FelixConfiguration before those of the default one."""

    @property
    def vni(self) -> int:
        """VNI of the Linux VXLAN device."""
        return int(self.values.get("vxlanVNI", DEFAULT_VNI))

    @property
    def port(self) -> int:
        """UDP port of VXLAN."""
        return int(self.values.get("vxlanPort", DEFAULT_PORT))

    @property
    def mtu(self) -> int | None:
        """MTU of the VXLAN device, bytes; None: Felix finds it out itself."""
        return self.values.get("vxlanMTU") or None


def effective(specs: Mapping[str, Mapping[str, Any]], node: str) -> FelixSettings:
    """The settings of a node's Felix by the FelixConfigurations (name to spec): ``default``, then ``node.NAME``."""
    return FelixSettings(values={**specs.get("default", {}), **specs.get(f"node.{node}", {})})


def needs_restart(before: FelixSettings, after: FelixSettings, os: OS) -> bool:
    """A running Felix cannot take the change over."""
    ignored = WITHOUT_RESTART | FROM_ENVIRONMENT[os]
    names = (before.values.keys() | after.values.keys()) - ignored
    return any(before.values.get(name) != after.values.get(name) for name in names)
