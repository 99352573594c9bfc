"""Deleting the demo's namespace removes everything of the demo."""

from conformance.fixtures import Farewell, Policy, Readings
from conformance.marks import manifest, needs, verifies

pytestmark = [verifies("DEMO-8"), manifest("policy/demo/allow-linux-client.yaml"), needs(calico_policy=True)]


def test_pods_and_policy_go_with_the_namespace(farewell: Farewell, policy: Policy, requires: Readings) -> None:
    farewell.deploy("linux-client", "windows-client")
    policy.apply(into=farewell.namespace)
    requires.equal(farewell.contents(), "there", because="they were made just now", do="look at the events")
    because = "Kubernetes deletes what is in a namespace with it"
    farewell.delete(because=because)
    requires.equal(farewell.contents(), "gone", because=because, do="look for finalizers on what is left")
