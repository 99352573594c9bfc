"""Whom a server sees when a Windows pod comes by ClusterIP, and what a policy that names that pod makes of it.

Without direct server return kube-proxy rewrites the source: in an overlay to its ``--source-vip``, which on Calico is
the third address of the node's block (the one after the overlay's own), for backends that are pods, and to the node's
address for backends that are not; without an overlay (l2bridge) to the node's address always (kubernetes#83072,
KEP-5100).  A policy's source selector then does not match.  With direct server return the pod's address is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect import message
from conformance.expect.addresses import Addresses
from conformance.expect.routes import Routes
from conformance.expect.traffic import Expect
from conformance.model.endpoint import Target, Workload
from conformance.model.facts import Facts
from conformance.model.observation import Observation
from conformance.pods.roles import ECHO_PORT
from conformance.pods.services import Service

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided


@dataclass
class ServiceSource:
    """One client's way through one Service, before and under a policy that admits this client alone.

    ``stranger`` is another client, which the policy does not admit.
    """

    expect: Expect
    facts: Facts
    lifted: Callable[[str], None]
    client: Workload
    stranger: Workload
    service: Service
    _kept: bool | None = None

    # --- what tests say -----------------------------------------------------------------------------------------------

    def is_kept(self, *, because: str) -> None:
        """By ClusterIP as by its own address the server sees the client's pod address."""
        seen = self._seen(because)
        if _addresses(seen) != {self.client.address}:
            raise self._wrong(seen, self.client.address, because)
        self._kept = True

    def is_rewritten(self, *, because: str) -> None:
        """By ClusterIP the server sees the one address that this mode gives, or the limitation is gone.

        Any third address, and now this and now that one, is a Nonconformance; that it is gone is said only once a
        policy admitted the client.
        """
        wanted = Addresses(self.facts).through_service(self.client, self.service.backend)
        seen = self._seen(because)
        found = _addresses(seen)
        if found not in ({wanted}, {self.client.address}):
            raise self._wrong(seen, wanted, because)
        self._kept = found == {self.client.address}

    def admits_by_address_alone(self, *, because: str) -> None:
        """Under the policy the client gets in by pod address and not by ClusterIP, a stranger not at all.

        Where the source was kept, the client has to get in by ClusterIP too, and the claim is LIFTED.
        """
        if self._kept:
            self.admits_everywhere(because="its address was kept, so that the policy has to admit it")
            self.lifted(
                f"{self.client.label} -> {self.service.by_address.label}: the server saw the pod's own address "
                f"{self.client.address}, and a policy that allows only this pod let it in"
            )
            return
        self.expect.matrix(
            open=[(self.client, self._direct), self._beside],
            closed=[(self.client, self.service.by_address), (self.stranger, self._direct)],
            because=because,
        )

    def admits_everywhere(self, *, because: str) -> None:
        """Under the policy the client gets in by pod address and by ClusterIP, a stranger by neither."""
        opened: list[Routes] = [(self.client, self._both), self._beside]
        self.expect.matrix(open=opened, closed=[(self.stranger, self._both)], because=because)

    # --- how ----------------------------------------------------------------------------------------------------------

    @property
    def _direct(self) -> Target:
        return self.service.backend.tcp(ECHO_PORT)

    @property
    def _both(self) -> list[Target]:
        return [self._direct, self.service.by_address]

    @property
    def _beside(self) -> tuple[Workload, Target]:
        """Where the stranger gets while it does not get to the server: to the client, which no policy selects."""
        return self.stranger, self.client.tcp(ECHO_PORT)

    def _seen(self, because: str) -> list[Observation]:
        """Whom the server sees by ClusterIP, once both ways are open and its address shows by the direct one."""
        ways = [(self.client, self._direct), (self.stranger, self._direct), self._beside]
        self.expect.controls(ways, because="no policy is in force yet")
        plain = self.expect.told(self.client, self._direct, because=because)
        if _addresses(plain) != {self.client.address}:
            line = message.headline(
                self.expect.context.claims, plain[-1].attempt, f"source {self.client.address}", plain, _span(plain),
                observed=_observed(plain),
            )  # fmt: skip
            raise ControlBroken(
                f"control failed: {line} by pod address: what the server sees by ClusterIP says nothing about Services "
                "(NAT-1)",
                control="the source by pod address",
                seen=plain,
            )
        self.expect.reachable([self.client, self.stranger], self.service.by_address, because=because)
        return self.expect.told(self.client, self.service.by_address, because=because)

    def _wrong(self, seen: Sequence[Observation], wanted: str, because: str) -> Nonconformance:
        build = f"build {self.client.windows_build or 'unknown'}"
        flag = self.facts.windows_dsr
        return Nonconformance(
            message.connectivity(
                self.expect.context.claims,
                seen[-1].attempt,
                expected=f"source {wanted}",
                because=because,
                seen=seen,
                seconds=_span(seen),
                further={
                    "DSR": f"{build}, kube-proxy --enable-dsr {'unknown' if flag.value is None else flag.value} "
                    f"({flag.source})",
                    "do": f"compare Get-HnsPolicyList on node {self.client.node}, and kube-proxy's log there",
                },
                observed=_observed(seen),
            ),
            seen=seen,
        )


def _addresses(seen: Sequence[Observation]) -> set[str]:
    return {one.seen_client for one in seen}


def _observed(seen: Sequence[Observation]) -> str:
    return f"source {message.counted([one.seen_client for one in seen])}"


def _span(seen: Sequence[Observation]) -> float:
    """Seconds from the first question to the last answer."""
    return seen[-1].at - seen[0].at + seen[-1].seconds
