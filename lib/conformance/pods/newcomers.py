# SPDX-License-Identifier: Apache-2.0
"""Pods that are created while a policy is in force; their labels decide how the policy treats
them.
"""

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from conformance.errors import EnvironmentBroken
from conformance.model.endpoint import Workload
from conformance.pods.deploy import Pods, Wish, end
from conformance.pods.groups import Group
from conformance.pods.placement import Placement
from conformance.pods.relabel import GUEST, pod_reference

ADDRESS = "cni.projectcalico.org/ipAddrs"
"""The annotation by which a pod requests an address from Calico's IPAM; used only for Linux pods
(``kube.address_guard``)."""


class Newcomers:
    """The pods that a test creates while its policy is in force; :meth:`remove` removes them."""

    def __init__(self, deployer: Pods, placement: Placement) -> None:
        self._deployer = deployer
        self._placement = placement
        self._wishes: dict[str, Wish] = {}
        """The wanted pods, by the name of their Deployment."""
        self._called: dict[str, str] = {}
        """The name of each pod's Deployment, by the pod's uid."""

    def beside(self, pods: Group) -> tuple[Group, Group]:
        """Deploy a guest on each client's node, and a stranger on each pod's node. Return (guests,
        strangers).

        A guest has the label by which policies select guests; a stranger lacks it. All pods are
        created at once, with their roles' label ``app``. Raise EnvironmentBroken if a pod is not
        ready in time.
        """
        guests = [
            self._like(pod, "guest", labels={GUEST: "welcome"}) for pod in pods.playing("client")
        ]
        there = self._deploy([*guests, *[self._like(pod, "stranger") for pod in pods]])
        return Group(there[: len(guests)]), Group(there[len(guests) :])

    def twins(self, servers: Group) -> Group:
        """Deploy, on each server's node, another pod with the server's role and label ``app``.
        Raise the errors of :meth:`beside`."""
        return Group(self._deploy([self._like(server, "twin") for server in servers]))

    def replaced(self, pods: Group) -> Group:
        """Delete these pods, and return the pods with which their Deployments replace them. Raise
        the errors of :meth:`beside`."""
        changes = self._deployer.changes
        names = [self._called[pod.uid] for pod in pods]
        for pod in pods:
            changes.delete(pod_reference(pod), "its Deployment must replace it")
        self._await_gone(pods)
        with ThreadPoolExecutor(max_workers=16) as pool:
            there = list(
                pool.map(
                    lambda name: self._deployer.again(self._wishes[name], f"{name} was deleted"),
                    names,
                )
            )
        self._called.update((pod.uid, name) for pod, name in zip(there, names, strict=True))
        return Group(there)

    def heirs(self, guests: Group) -> Group:
        """Delete these guests, and return new Linux pods that have the guests' addresses, but not
        their label. Raise the errors of :meth:`beside`, and EnvironmentBroken if a pod got another
        address."""
        self._delete(self._called[guest.uid] for guest in guests)
        self._await_gone(guests)
        wishes = [
            self._like(guest, "heir", annotations={ADDRESS: json.dumps([guest.address])})
            for guest in guests
        ]
        there = Group(self._deploy(wishes))
        for heir, guest in zip(there, guests, strict=True):
            if heir.address != guest.address and not self._deployer.changes.dry_run:
                raise EnvironmentBroken(
                    f"pod {heir.label} has the address {heir.address}, but requested "
                    f"{guest.address} of a deleted pod: run again, or find its new owner: "
                    "calicoctl ipam show --ip"
                )
        return there

    def remove(self) -> None:
        self._delete(list(self._wishes))

    def _like(self, pod: Workload, kind: str, **more: dict[str, str]) -> Wish:
        nodes = {node.name: node for node in self._placement.covered(pod.os)}
        name = f"{pod.role}-{kind}-{self._placement.number(pod.node)}"
        return Wish(role=pod.role, node=nodes[pod.node], name=name, **more)  # type: ignore[arg-type]

    def _deploy(self, wishes: list[Wish]) -> list[Workload]:
        self._wishes.update((wish.called, wish) for wish in wishes)
        there = self._deployer.deploy(wishes)
        self._called.update((pod.uid, name) for name, pod in there.items())
        return [there[wish.called] for wish in wishes]

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            end(self._deployer, name)
            self._wishes.pop(name, None)

    def _await_gone(self, pods: Group) -> None:
        if self._deployer.changes.dry_run:
            return
        for pod in pods:
            self._deployer.changes.waits.gone(
                pod_reference(pod), within=self._deployer.settings.timings.of(pod.os).delete
            )
