# SPDX-License-Identifier: Apache-2.0
"""HNS of Windows nodes agrees with the API: an endpoint for each pod, a load balancer for each
Service, and the rules of the policies in force.

HNS is read twice and only a difference in both readings counts, since pods and Services come and
go.
"""

from conformance.fixtures import (
    Case,
    Expect,
    HnsHealth,
    Policy,
    Readings,
    RenderedLists,
    WorkerPods,
)
from conformance.marks import manifest, needs, verifies

GUEST = "one of the policies admits this client"
OTHERS = "none of the policies admits these pods"


@verifies("XHNS-1")
@needs(host_process=True)
def test_no_two_pods_of_a_node_have_one_address(
    pods: WorkerPods, hns_health: HnsHealth, requires: Readings
) -> None:
    pods.ensure_ready("windows-server")
    because = "HNS delivers packets for an address to a single endpoint"
    do = (
        "find out which endpoint's pod is gone (kubectl get pods -o wide), and remove that "
        "endpoint: Get-HnsEndpoint | Where-Object ID -eq ... | Remove-HnsEndpoint"
    )
    requires.that(
        hns_health.shared_addresses, (), "none", on=hns_health.windows, because=because, do=do
    )


@verifies("XHNS-2")
@needs(host_process=True)
def test_every_endpoint_is_of_a_pod_and_every_pod_has_one(
    pods: WorkerPods, hns_health: HnsHealth, requires: Readings
) -> None:
    pods.ensure_ready("windows-server")
    because = "the CNI plugin makes an endpoint for each pod, and removes it with the pod"
    do = (
        "read Calico's CNI log on the node; remove leftover endpoints with Remove-HnsEndpoint, "
        "and delete pods without an endpoint so that their successors get endpoints"
    )
    requires.that(
        hns_health.endpoints_of_nobody, (), "none", on=hns_health.windows, because=because, do=do
    )


@manifest("policy/calico/hns_list.yaml")
@verifies("XHNS-3")
@needs(calico_policy=True, host_process=True)
def test_hns_holds_the_rules_of_the_policies_that_select_a_pod(
    pods: WorkerPods, policy: Policy, expect: Expect, rendered_lists: RenderedLists
) -> None:
    server = pods.servers("windows")
    guest = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    expect.change(
        policy.filled(server=server, guest=guest),
        Case(guest, server, tcp=8080, open=True, because=GUEST),
        Case(others, server, tcp=8080, open=False, because=OTHERS),
    )
    because = "Felix gives HNS the rules of all policies that select the pod"
    rendered_lists.held(server, because=because)


@verifies("XHNS-4")
@needs(host_process=True)
def test_every_service_has_its_load_balancer(hns_health: HnsHealth, requires: Readings) -> None:
    because = "kube-proxy makes a load balancer for each port of a Service, with its ready backends"
    do = (
        "compare Get-HnsPolicyList with kubectl get endpointslices, and read kube-proxy's log on "
        "the node; a restart of kube-proxy creates the load balancers again"
    )
    requires.that(
        hns_health.services_without_balancer,
        (),
        "none",
        on=hns_health.windows,
        because=because,
        do=do,
    )
