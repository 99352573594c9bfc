# SPDX-License-Identifier: Apache-2.0
"""With direct server return a Windows pod keeps its address when it connects to a ClusterIP, and
policies recognize it.

The policy admits only the Windows clients. A Linux client is denied, which shows that the policy is
in force.
"""

from conformance.fixtures import Expect, Place, Policy, SourceOf, WindowsNodes, WorkerPods
from conformance.marks import begins_early, manifest, places, verifies

pytestmark = [manifest("policy/services/only-the-client.yaml")]

REMOVED = "without the policy everybody is let in again"


@begins_early()
@places()
@verifies("SVC-2", part="windows pod, server on {place}")
def test_a_policy_knows_the_client_by_cluster_ip(
    pods: WorkerPods,
    policy: Policy,
    windows_nodes: WindowsNodes,
    source: SourceOf,
    expect: Expect,
    *,
    place: Place,
) -> None:
    pod_pairs = pods.placed_around(windows_nodes.with_dsr(), place)
    stranger = pods.client("linux")
    through = source(pod_pairs, stranger)
    through.is_kept(
        because=(
            "with direct server return, kube-proxy does not change the source address of its "
            "node's pods"
        )
    )
    policy.apply(client=pod_pairs.clients, server=pod_pairs.servers)
    through.admits_everywhere(
        because="the policy selects the client, which always connects from its own address"
    )
    expect.removed(policy, because=REMOVED)
