# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a node's HNS on purpose, and what HNS asks instead of knowing any fault."""

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class HnsFaults:
    """What is deliberately wrong with a node's HNS, by the ids of the faults that want it."""

    follows_delivered: dict[str, bool] = field(default_factory=dict)
    """A VSID that is delivered while the network is there becomes its own."""
    remembers_vsid: dict[str, bool] = field(default_factory=dict)
    """A network that is made anew gets the VSID that the removed one had."""
    loses_services: dict[str, bool] = field(default_factory=dict)
    """Services do not come back with a network that is made anew, until kube-proxy starts again."""
    fails: dict[str, str] = field(default_factory=dict)
    """It cannot be asked: ``error``, ``silent`` or ``garbled``, by the fault that wants it."""
    bare: set[str] = field(default_factory=set)
    """The host has no endpoint of its own among the pods."""
    removed_vsid: int | None = None
    """VSID of the network that was removed last."""

    @property
    def failing(self) -> str:
        """How it answers who asks: by one of ``fails``; empty when it works."""
        return next(iter(self.fails.values()), "")

    def vsid_of_new(self, delivered: int | None) -> int | None:
        """The VSID that a network gets which is made now: the one that is delivered."""
        return (
            self.removed_vsid
            if self.remembers_vsid and self.removed_vsid is not None
            else delivered
        )

    def vsid_of_kept(self, vsid: int | None, delivered: int | None) -> int | None:
        """The VSID of a network that is there when one is delivered: the one it has."""
        return delivered if self.follows_delivered else vsid
