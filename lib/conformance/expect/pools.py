"""Whether what was seen of some pods was seen of every IP pool that there is."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conformance.errors import MissingCapability
from conformance.expect.context import Context
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Workload
from conformance.model.facts import Fact

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


@dataclass
class Pools:
    """The pools of one cluster, beside the addresses of a test's pods."""

    context: Context

    def are_all_used(self, pools: Mapping[str, Fact[str]], *, by: Iterable[Workload], because: str) -> None:
        """Each pool (name to its CIDR) has given one of these pods its address.  Raises MissingCapability."""
        addresses = [ipaddress.ip_address(workload.address) for workload in by]
        unused = [
            f"{name} ({fact.value})"
            for name, fact in pools.items()
            if not any(address in ipaddress.ip_network(str(fact.value)) for address in addresses)
        ]
        if unused or not pools:
            which = f"none has an address of {', '.join(unused)}" if unused else "there is no enabled IPv4 pool to read"
            raise MissingCapability(
                f"the suite's pods say nothing of every pool: {which}",
                "cover a node whose pods get addresses of it (--nodes), or disable a pool that is not in use",
            )
        self.context.decided(None, None, ClaimVerdict.CONFIRMED, because, "read")
