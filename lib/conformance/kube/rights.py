# SPDX-License-Identifier: Apache-2.0
"""The rights of a kubeconfig's user; the API server is asked for them before the run changes
anything."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from conformance.kube.client import REVIEWS, Kube
from conformance.kube.fields import value_at


@dataclass(frozen=True)
class Right:
    """A verb on one resource; ``needed_for`` completes "needed to ..."."""

    verb: str
    resource: str
    """The resource: ``pods``, ``pods/exec`` ..."""
    group: str = ""
    namespace: str | None = None
    """The namespace; None stands for all namespaces."""
    needed_for: str = ""

    @property
    def label(self) -> str:
        """Return the right in words: ``create deployments.apps in all namespaces``."""
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {name} in {self.namespace or 'all namespaces'}"


def missing(kube: Kube, rights: Sequence[Right]) -> list[Right]:
    """Return the rights that the user lacks, in the given order, according to the API server's
    SelfSubjectAccessReview."""

    def allowed(right: Right) -> bool:
        resource, _, sub = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": resource}
        attributes |= {"subresource": sub} if sub else {}
        attributes |= {"namespace": right.namespace} if right.namespace else {}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = kube.request("POST", REVIEWS, body=review, repeat=True)
        return bool(value_at(answer, "status", "allowed"))

    with ThreadPoolExecutor(max_workers=8) as pool:
        return [
            right for right, may in zip(rights, pool.map(allowed, rights), strict=True) if not may
        ]
