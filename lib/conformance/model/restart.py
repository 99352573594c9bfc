# SPDX-License-Identifier: Apache-2.0
"""The observation of a restart."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Restart:
    """An observed restart of Felix."""

    node: str
    before: str
    """The pod before the restart: its name, its start and the number of its restarts."""
    after: str
    seconds: float
    """The time from the deletion to readiness."""
    note: str = ""
    """Other observations: a node that was not Ready meanwhile, why the pod was deleted."""
