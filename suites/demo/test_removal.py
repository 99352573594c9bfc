# SPDX-License-Identifier: Apache-2.0
"""Deleting the demo's namespace removes everything of the demo."""

from conformance.fixtures import Policy, Readings, TemporaryNamespace
from conformance.marks import manifest, needs, verifies

POLICY = "policy/demo/allow-linux-client.yaml"
SAME = "policy/demo/allow-linux-client.kubernetes.yaml"
pytestmark = [verifies("DEMO-8"), manifest(POLICY, otherwise=SAME), needs(calico_policy=True)]


def test_pods_and_policy_go_with_the_namespace(
    temporary_namespace: TemporaryNamespace, policy: Policy, requires: Readings
) -> None:
    temporary_namespace.deploy("linux-client", "windows-client")
    policy.apply(into=temporary_namespace.namespace)
    requires.that(
        temporary_namespace.contents(),
        "there",
        because="the objects were created just before",
        do="check the namespace's events",
    )
    because = "Kubernetes deletes what is in a namespace with it"
    temporary_namespace.delete(because=because)
    requires.that(
        temporary_namespace.contents(),
        "gone",
        because=because,
        do="look for finalizers of the remaining objects",
    )
