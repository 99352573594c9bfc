# SPDX-License-Identifier: Apache-2.0
"""A new pod takes nothing before its policy is there; whether a Windows one can send meanwhile is seen and recorded."""

from conformance.fixtures import Expect, NewPods, PodStartup, Policy, WorkerPods
from conformance.marks import manifest, verifies

pytestmark = [manifest("policy/new-pod/default_deny.yaml")]

CLOSED = "the CNI plugin denies ingress until Felix has programmed the pod, and its policy does from then on"
OPEN = "nothing holds egress until then"
NOTHING = "Felix on Linux lets nothing pass until it has programmed the pod, and its policy denies from then on"


@verifies("XPOL-11")
def test_a_new_windows_pod_takes_nothing_and_may_send_before_its_policy(
    pods: WorkerPods, policy: Policy, new_pods: NewPods, pod_startup: PodStartup, expect: Expect
) -> None:
    client = pods.client("linux")
    server = pods.server("linux")
    bystander = pods.server("windows")
    expect.control(
        client, bystander.tcp(8080), because="it answers all the time while the new pods do not"
    )
    policy.apply(new_pod="windows-new-pod")
    new = new_pods.create("windows", server.tcp(8080))
    pod_startup.accept_nothing(client, new, beside=bystander.tcp(8080), because=CLOSED)
    pod_startup.may_have_sent(new, server.tcp(8080), because=OPEN)
    policy.remove()
    expect.controls(
        pod_startup.pairs(client, new, server.tcp(8080)),
        because="without its policy the pod is open",
    )


@verifies("POL-1", part="kubernetes: new pod, linux", applies={"cnis": ["Calico"]})
def test_a_new_linux_pod_takes_and_sends_nothing(
    pods: WorkerPods, policy: Policy, new_pods: NewPods, pod_startup: PodStartup, expect: Expect
) -> None:
    client = pods.client("linux")
    server = pods.server("linux")
    bystander = pods.server("windows")
    expect.control(
        client, bystander.tcp(8080), because="it answers all the time while the new pods do not"
    )
    policy.apply(new_pod="linux-new-pod")
    new = new_pods.create("linux", server.tcp(8080))
    pod_startup.accept_nothing(client, new, beside=bystander.tcp(8080), because=NOTHING)
    pod_startup.sent_nothing(new, server.tcp(8080), because=NOTHING)
    policy.remove()
    expect.controls(
        pod_startup.pairs(client, new, server.tcp(8080)),
        because="without its policy the pod is open",
    )
