# SPDX-License-Identifier: Apache-2.0
"""Without direct server return kube-proxy replaces the address of a Windows pod that connects to a
ClusterIP, so that policies do not recognize the pod.

The policy admits only the Windows clients. A Linux client is denied, which shows that the policy is
in force.
"""

from conformance.fixtures import Expect, Place, Policy, SourceOf, WindowsNodes, WorkerPods
from conformance.marks import manifest, places, verifies

pytestmark = [manifest("policy/services/only-the-client.yaml"), places()]

REWRITTEN = (
    "without direct server return, kube-proxy replaces the source address of its node's pods"
)
REMOVED = "without the policy everybody is let in again"
UNSEEN = (
    "the policy selects the client, but through the ClusterIP the client connects from another "
    "address"
)


@verifies("SVC-1", part="windows pod, server on {place}")
def test_a_policy_does_not_know_the_client_by_cluster_ip(
    pods: WorkerPods,
    policy: Policy,
    windows_nodes: WindowsNodes,
    source: SourceOf,
    expect: Expect,
    *,
    place: Place,
) -> None:
    pod_pairs = pods.placed_around(windows_nodes.without_dsr(), place)
    stranger = pods.client("linux")
    through = source(pod_pairs, stranger)
    through.is_rewritten(because=REWRITTEN)
    policy.apply(client=pod_pairs.clients, server=pod_pairs.servers)
    through.admits_by_address_alone(because=UNSEEN)
    expect.removed(policy, because=REMOVED)


@verifies("VXLAN-6", part="windows pod, server on {place}")
def test_an_old_1809_sees_pod_addresses_only(
    pods: WorkerPods,
    policy: Policy,
    windows_nodes: WindowsNodes,
    source: SourceOf,
    expect: Expect,
    *,
    place: Place,
) -> None:
    pod_pairs = pods.placed_around(windows_nodes.of_build(">=17763 <17763.1432"), place)
    stranger = pods.client("linux")
    through = source(pod_pairs, stranger)
    through.is_rewritten(because=REWRITTEN)
    policy.apply(client=pod_pairs.clients, server=pod_pairs.servers)
    through.admits_by_address_alone(because=UNSEEN)
    expect.removed(policy, because=REMOVED)


@verifies("EKS-3", part="windows pod, server on {place}")
def test_eks_comes_without_dsr(
    pods: WorkerPods,
    policy: Policy,
    windows_nodes: WindowsNodes,
    source: SourceOf,
    expect: Expect,
    *,
    place: Place,
) -> None:
    pod_pairs = pods.placed_around(windows_nodes.all(), place)
    stranger = pods.client("linux")
    through = source(pod_pairs, stranger)
    through.is_rewritten(because=f"EKS does not configure direct server return: {REWRITTEN}")
    policy.apply(client=pod_pairs.clients, server=pod_pairs.servers)
    through.admits_by_address_alone(because=UNSEEN)
    expect.removed(policy, because=REMOVED)
