# SPDX-License-Identifier: Apache-2.0
"""Nodes are no exception: a path that is closed to all clients is closed to every node but the
pod's own."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

NO_RULE = "a policy without rules admits no client and, of all nodes, only the pod's own node"


@verifies("POL-1", part="kubernetes: other nodes, linux server", provisional=True)
@needs(host_network=True)
@manifest("policy/kubernetes/default_deny_ingress.yaml")
def test_no_node_enters_a_closed_linux_pod_of_another(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    nodes = pods.nodes()
    servers = pods.servers("linux")
    clients = pods.clients("linux")
    expect.change(
        policy.filled(server=servers),
        Case(nodes, servers, tcp=8080, on="other nodes", open=False, because=NO_RULE),
        Case(nodes, clients, tcp=8080, open=True, because="no policy selects clients"),
    )
    expect.removed(policy, because="without the policy everybody is let in again")
