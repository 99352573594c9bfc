# SPDX-License-Identifier: Apache-2.0
"""FelixConfiguration as one node's Felix takes it: once, at its start.

What is changed later makes Felix exit and start again (exit status 129), but for what its environment decides: what
the environment says no FelixConfiguration changes.
"""

from collections.abc import Collection, Mapping
from typing import Any

FelixSettings = Mapping[str, Any]
"""Every field, those of the node's own FelixConfiguration before those of the default one."""
EXIT_STATUS = 129
"""The exit status of a Felix that wants to be started again with another configuration."""
WITHOUT_RESTART = frozenset(
    {"calicoVersion", "clusterGUID", "clusterType", "healthTimeoutOverrides"}
)
"""What Felix takes over while it runs."""


def effective(specs: Mapping[str, Mapping[str, Any]], node: str) -> FelixSettings:
    """The settings of a node's Felix by the FelixConfigurations (name to spec): ``default``, then ``node.NAME``."""
    return {**specs.get("default", {}), **specs.get(f"node.{node}", {})}


def needs_restart(
    before: FelixSettings, after: FelixSettings, from_environment: Collection[str]
) -> bool:
    """A running Felix cannot take the change over."""
    names = (before.keys() | after.keys()) - WITHOUT_RESTART - set(from_environment)
    return any(before.get(name) != after.get(name) for name in names)
