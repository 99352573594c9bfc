# SPDX-License-Identifier: Apache-2.0
"""A namespace that is filled only to be deleted, for a test about the deletion of its contents."""

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.model.change import ObjectRef
from conformance.model.facts import Fact
from conformance.pods.deploy import Pods, Wish
from conformance.pods.placement import Placement
from conformance.pods.roles import ROLES

KINDS = (("v1", "Pod"), ("apps/v1", "Deployment"))
"""Kinds of objects in the demo's namespace, besides its policy."""
POLICY = ("projectcalico.org/v3", "NetworkPolicy")
KUBERNETES_POLICY = ("networking.k8s.io/v1", "NetworkPolicy")
"""The policy's kind if Calico policies cannot be written."""


class TemporaryNamespace:
    """A temporary namespace of the worker."""

    def __init__(self, pods: Pods, placement: Placement) -> None:
        self._pods = pods
        self._placement = placement
        self.namespace = f"{pods.namespace}-temporary"

    def deploy(self, *roles: str) -> None:
        """Fill the namespace with pods of these roles."""
        self._pods.prepare(self.namespace)
        self._pods.deploy(
            [
                Wish(
                    role=role,
                    node=node,
                    name=f"{role}-{self._placement.number(node.name)}",
                    namespace=self.namespace,
                )
                for role in roles
                for node in self._placement.covered(ROLES[role].os)
            ]
        )

    def contents(self) -> dict[str, Fact[str]]:
        """Return ``there`` or ``gone`` for the namespace, and for each kind of object in it."""
        kube = self._pods.kube
        found = {
            f"{kind} objects": Fact(
                "there" if kube.objects(api, kind, self.namespace) else "gone",
                f"list in {self.namespace} ({api})",
            )
            for api, kind in (*KINDS, *self._policies())
        }
        space = kube.find("v1", "Namespace", self.namespace)
        return {"the namespace": Fact("there" if space else "gone", self.namespace), **found}

    def _policies(self) -> tuple[tuple[str, str], ...]:
        """Return the kind of the namespace's policy. Return nothing if calicoctl writes the policy,
        since no API then shows the policy."""
        if self._pods.kube.discovery.serves(*POLICY):
            return (POLICY,)
        return () if self._pods.settings.calicoctl else (KUBERNETES_POLICY,)

    def delete(self, *, because: str) -> None:
        """Delete the namespace. Raise Nonconformance if it stays, with the objects that keep it
        from being deleted."""
        target = ObjectRef(api_version="v1", kind="Namespace", name=self.namespace)
        try:
            self._pods.changes.delete_and_wait(
                target,
                "the test is about its deletion",
                within=self._pods.settings.timings.windows.delete,
            )
        except EnvironmentBroken as error:
            left = [name for name, fact in self.contents().items() if fact.value == "there"]
            first, _, rest = str(error).partition("\n")
            text = "\n".join(
                [
                    f"{first}; still there: {', '.join(left) or 'nothing'}",
                    *filter(None, [rest]),
                ]
            )
            raise Nonconformance(f"{text}\n  because  {because}") from error
