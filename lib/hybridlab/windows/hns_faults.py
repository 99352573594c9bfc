# SPDX-License-Identifier: Apache-2.0
"""Deliberate faults of a node's HNS, and the interface by which HNS applies them without knowing
any fault."""

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class HnsFaults:
    """The deliberate faults of a node's HNS, by the ids of the faults that want them."""

    follows_delivered: dict[str, bool] = field(default_factory=dict)
    """A VSID that is delivered while the network is there becomes its own."""
    remembers_vsid: dict[str, bool] = field(default_factory=dict)
    """A network that is made anew gets the VSID that the removed one had."""
    loses_services: dict[str, bool] = field(default_factory=dict)
    """Services do not come back with a network that is made anew, until kube-proxy starts again."""
    takes_any_identifier: dict[str, bool] = field(default_factory=dict)
    """Networks with a VNI below 4096 are made as well."""
    fails: dict[str, str] = field(default_factory=dict)
    """How requests to HNS fail, by fault: ``error``, ``silent`` or ``garbled``."""
    bare: set[str] = field(default_factory=set)
    """The host has no endpoint of its own among the pods."""
    removed_vsid: int | None = None
    """VSID of the network that was removed last."""

    @property
    def failing(self) -> str:
        """Return the way in which requests fail, any of ``fails``; empty when HNS works."""
        return next(iter(self.fails.values()), "")

    def vsid_of_new(self, delivered: int | None) -> int | None:
        """Return the VSID of a network that is created now: the delivered VSID, unless a fault
        remembers the removed network's."""
        return (
            self.removed_vsid
            if self.remembers_vsid and self.removed_vsid is not None
            else delivered
        )

    def vsid_of_kept(self, vsid: int | None, delivered: int | None) -> int | None:
        """Return the VSID of an existing network when a VSID is delivered: its own, unless a fault
        follows the delivered VSID."""
        return delivered if self.follows_delivered else vsid
