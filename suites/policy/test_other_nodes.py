"""Nodes are no exception: what is closed to all is closed to every node but the pod's own."""

from conformance.fixtures import Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies


@verifies("POL-1", part="kubernetes: other nodes, linux server", provisional=True)
@needs(host_network=True)
@manifest("policy/kubernetes/default_deny_ingress.yaml")
def test_no_node_enters_a_closed_linux_pod_of_another(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    nodes = pods.nodes()
    servers = pods.servers("linux")
    closed = nodes.across(servers).tcp(8080)
    opened = nodes.to(pods.clients("linux")).tcp(8080)
    because = "a policy without rules lets nobody in, and of nodes the pod's own alone"
    expect.change(policy.filled(server=servers), open=opened, closed=closed, because=because)
    expect.removed(policy, because="without the policy everybody is let in again")
