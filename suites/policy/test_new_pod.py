# SPDX-License-Identifier: Apache-2.0
"""With Calico's plugin a new pod accepts nothing before its policy is programmed. The tests also
record whether a Windows pod can send during this time, and whether clients reach it if another
plugin networks it."""

from conformance.fixtures import Case, Expect, NewPods, PodStartup, Policy, WorkerPods
from conformance.marks import manifest, verifies

pytestmark = [manifest("policy/new-pod/default_deny.yaml")]

BESIDE = "this pod answers all the time, even while the new pods do not"
REMOVED = "the pod's policy was removed, so the pod is open"
CLOSED = (
    "the CNI plugin denies ingress until Felix has programmed the pod, and then the pod's policy "
    "denies ingress"
)
OPEN = "nothing blocks egress until Felix has programmed the pod"
UNTIL_FELIX = "the CNI plugin lets all traffic pass, and Felix does not know the pod yet"
NOTHING = (
    "Felix on Linux lets nothing pass until it has programmed the pod, and then the pod's policy "
    "denies the traffic"
)


@verifies("XPOL-11")
def test_a_new_windows_pod_takes_nothing_and_may_send_before_its_policy(
    pods: WorkerPods, policy: Policy, new_pods: NewPods, pod_startup: PodStartup, expect: Expect
) -> None:
    client = pods.client("linux")
    server = pods.server("linux")
    bystander = pods.server("windows")
    expect.controls(Case(client, bystander, tcp=8080, open=True, because=BESIDE))
    policy.apply(new_pod="windows-new-pod")
    new = new_pods.create("windows", server.tcp(8080))
    pod_startup.accept_nothing(client, new, beside=bystander.tcp(8080), because=CLOSED)
    pod_startup.may_have_sent(new, server.tcp(8080), because=OPEN)
    policy.remove()
    expect.controls(
        Case(client, new_pods.pods, tcp=8080, open=True, because=REMOVED),
        Case(new_pods.pods, server, tcp=8080, open=True, because=REMOVED),
    )


@verifies("XPOL-23")
def test_a_new_windows_pod_of_another_plugin_may_be_open_before_its_policy(
    pods: WorkerPods, policy: Policy, new_pods: NewPods, pod_startup: PodStartup, expect: Expect
) -> None:
    client = pods.client("linux")
    server = pods.server("linux")
    bystander = pods.server("windows")
    expect.controls(Case(client, bystander, tcp=8080, open=True, because=BESIDE))
    policy.apply(new_pod="windows-new-pod")
    new = new_pods.create("windows", server.tcp(8080))
    pod_startup.may_have_accepted(client, new, beside=bystander.tcp(8080), because=UNTIL_FELIX)
    pod_startup.may_have_sent(new, server.tcp(8080), because=UNTIL_FELIX)
    policy.remove()
    expect.controls(
        Case(client, new_pods.pods, tcp=8080, open=True, because=REMOVED),
        Case(new_pods.pods, server, tcp=8080, open=True, because=REMOVED),
    )


@verifies("POL-1", part="kubernetes: new pod, linux", applies={"cnis": ["Calico"]})
def test_a_new_linux_pod_takes_and_sends_nothing(
    pods: WorkerPods, policy: Policy, new_pods: NewPods, pod_startup: PodStartup, expect: Expect
) -> None:
    client = pods.client("linux")
    server = pods.server("linux")
    bystander = pods.server("windows")
    expect.controls(Case(client, bystander, tcp=8080, open=True, because=BESIDE))
    policy.apply(new_pod="linux-new-pod")
    new = new_pods.create("linux", server.tcp(8080))
    pod_startup.accept_nothing(client, new, beside=bystander.tcp(8080), because=NOTHING)
    pod_startup.sent_nothing(new, server.tcp(8080), because=NOTHING)
    policy.remove()
    expect.controls(
        Case(client, new_pods.pods, tcp=8080, open=True, because=REMOVED),
        Case(new_pods.pods, server, tcp=8080, open=True, because=REMOVED),
    )
