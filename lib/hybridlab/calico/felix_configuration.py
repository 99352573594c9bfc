# SPDX-License-Identifier: Apache-2.0
"""The FelixConfiguration of one node, which Felix reads once, at its start.

A later change makes Felix exit and start again (exit status 129). Values from Felix' environment
override every FelixConfiguration.
"""

from collections.abc import Collection, Mapping
from typing import Any

FelixSettings = Mapping[str, Any]
"""A node's settings, by field; a value in FelixConfiguration ``node.NAME`` replaces the value in
FelixConfiguration ``default``."""
EXIT_STATUS = 129
"""The exit status of a Felix that wants to be started again with another configuration."""
WITHOUT_RESTART = frozenset(
    {"calicoVersion", "clusterGUID", "clusterType", "healthTimeoutOverrides"}
)
"""Settings that a running Felix applies without a restart."""


def effective(specs: Mapping[str, Mapping[str, Any]], node: str) -> FelixSettings:
    """Return the settings of a node's Felix. They come from the FelixConfigurations (name to spec):
    ``default``, overridden by ``node.NAME``."""
    return {**specs.get("default", {}), **specs.get(f"node.{node}", {})}


def needs_restart(
    before: FelixSettings, after: FelixSettings, from_environment: Collection[str]
) -> bool:
    """Return whether a running Felix cannot apply the change."""
    names = (before.keys() | after.keys()) - WITHOUT_RESTART - set(from_environment)
    return any(before.get(name) != after.get(name) for name in names)
