# SPDX-License-Identifier: Apache-2.0
"""A node reaches its own pods under any policy: the kubelet's probes pass where no other client
gets in."""

from conformance.fixtures import NewPods, PodStartup, Policy, WorkerPods
from conformance.marks import manifest, verifies

pytestmark = [manifest("policy/new-pod/default_deny.yaml")]

BECAUSE = (
    "no policy applies to packets from a pod's own node; otherwise the kubelet's probes would fail"
)


@verifies("XPOL-8")
def test_a_windows_pod_that_nobody_may_enter_becomes_ready(
    pods: WorkerPods, policy: Policy, new_pods: NewPods, pod_startup: PodStartup
) -> None:
    client = pods.client("linux")
    server = pods.server("linux")
    policy.apply(new_pod="windows-new-pod")
    new = new_pods.create("windows", server.tcp(8080))
    pod_startup.become_ready(client, new, beside=server.tcp(8080), because=BECAUSE)


@verifies("POL-1", part="kubernetes: own node, linux server")
def test_a_linux_pod_that_nobody_may_enter_becomes_ready(
    pods: WorkerPods, policy: Policy, new_pods: NewPods, pod_startup: PodStartup
) -> None:
    client = pods.client("linux")
    server = pods.server("linux")
    policy.apply(new_pod="linux-new-pod")
    new = new_pods.create("linux", server.tcp(8080))
    pod_startup.become_ready(client, new, beside=server.tcp(8080), because=BECAUSE)
