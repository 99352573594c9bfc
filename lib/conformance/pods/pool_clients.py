# SPDX-License-Identifier: Apache-2.0
"""Linux pods with addresses of IP pools from which no other pod of the worker has an address, if
there are several pools.

Windows pods never request a pool (``kube.address_guard``).
"""

import ipaddress
import json
from collections.abc import Mapping

from conformance.errors import EnvironmentBroken, MissingCapability, NotAboutThisCluster
from conformance.model.facts import Fact
from conformance.pods.deploy import Pods, Wish, end
from conformance.pods.groups import Group
from conformance.pods.placement import Placement
from conformance.pods.worker_pods import WorkerPods

POOLS = "cni.projectcalico.org/ipv4pools"
"""The annotation by which a pod requests pools from Calico's IPAM."""
ROLE = "linux-client"


class PoolClients:
    """The Linux clients of a test in other pools; :meth:`remove` removes them."""

    def __init__(self, deployer: Pods, placement: Placement, pods: WorkerPods) -> None:
        self._deployer = deployer
        self._placement = placement
        self._pods = pods
        self._made: list[str] = []

    def of(self, pools: Mapping[str, Fact[str]], *, anywhere: Mapping[str, Fact[str]]) -> Group:
        """Return Linux clients, at least one in every pool from which no pod of the demo has an
        address.

        ``pools`` maps names to CIDRs; ``anywhere``: pools that pods on any node may request. Raise
        NotAboutThisCluster if there is only one pool, MissingCapability if a pool is for nodes that
        are not covered, EnvironmentBroken if a pod got another address than requested.
        """
        if len(pools) < 2:
            raise NotAboutThisCluster(
                f"the claim is about several enabled pools; this cluster has: {', '.join(pools) or 'none'}"
            )
        demo = [*self._pods.clients("linux"), *self._pods.servers("windows")]
        unused = {
            name: str(fact.value)
            for name, fact in pools.items()
            if not any(_in(str(fact.value), pod.address) for pod in demo)
        }
        if elsewhere := [
            f"{name} ({cidr})" for name, cidr in unused.items() if name not in anywhere
        ]:
            raise MissingCapability(
                f"the suite's pods cannot check every pool: no pod has an address of {', '.join(elsewhere)}",
                "cover a node whose pods get addresses of this pool (--nodes)",
            )
        wishes = {name: self._wish(number, name) for number, name in enumerate(unused, 1)}
        self._made = [wish.called for wish in wishes.values()]
        there = self._deployer.deploy(list(wishes.values()))
        for name, wish in wishes.items():
            pod = there[wish.called]
            if not self._deployer.changes.dry_run and not _in(unused[name], pod.address):
                raise EnvironmentBroken(
                    f"pod {pod.label} has the address {pod.address}, but requested an "
                    f"address of {name} ({unused[name]}): see the free addresses of the pools: "
                    "calicoctl ipam show"
                )
        return Group(there.values()) if there else self._pods.clients("linux")

    def _wish(self, number: int, pool: str) -> Wish:
        node = self._placement.covered("linux")[0]
        asked = {POOLS: json.dumps([pool.removeprefix("IPPool ")])}
        return Wish(role=ROLE, node=node, name=f"{ROLE}-of-pool-{number}", annotations=asked)

    def remove(self) -> None:
        end(self._deployer, *self._made)


def _in(cidr: str, address: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(cidr)
