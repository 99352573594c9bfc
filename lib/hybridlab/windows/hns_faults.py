# SPDX-License-Identifier: Apache-2.0
"""Deliberate faults of a node's HNS, and the interface through which HNS applies them, so that HNS'
code depends on no fault."""

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class HnsFaults:
    """The deliberate faults of a node's HNS, by the ids of the faults that set them."""

    follows_delivered: dict[str, bool] = field(default_factory=dict)
    """A VSID that is delivered while the network exists becomes the network's VSID."""
    remembers_vsid: dict[str, bool] = field(default_factory=dict)
    """A network that is created again gets the VSID of the removed network."""
    loses_services: dict[str, bool] = field(default_factory=dict)
    """Services do not return with a network that is created again, until kube-proxy restarts."""
    takes_any_identifier: dict[str, bool] = field(default_factory=dict)
    """Networks with a VNI below 4096 are created too."""
    fails: dict[str, str] = field(default_factory=dict)
    """The way in which requests to HNS fail, by the id of the fault: ``error``, ``silent`` or
    ``garbled``."""
    bare: set[str] = field(default_factory=set)
    """Ids of the faults that remove the host's own endpoint in the pods' network."""
    removed_vsid: int | None = None
    """The VSID of the network that was removed last."""

    @property
    def failing(self) -> str:
        """Return the way in which requests fail (a value of ``fails``); an empty string if HNS
        works."""
        return next(iter(self.fails.values()), "")

    def vsid_of_new(self, delivered: int | None) -> int | None:
        """Return the VSID of a network that is created now: the delivered VSID, unless a fault
        keeps the VSID of the removed network."""
        return (
            self.removed_vsid
            if self.remembers_vsid and self.removed_vsid is not None
            else delivered
        )

    def vsid_of_kept(self, vsid: int | None, delivered: int | None) -> int | None:
        """Return the VSID of an existing network after a VSID was delivered. The network keeps its
        VSID, unless a fault replaces it by the delivered VSID."""
        return delivered if self.follows_delivered else vsid
