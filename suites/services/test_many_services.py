# SPDX-License-Identifier: Apache-2.0
"""Each of hundreds of Services over the same pods leads to them: kube-proxy on Windows makes a load
balancer in HNS for each of their ports."""

from conformance.fixtures import Case, Expect, PassingServices, WorkerPods
from conformance.marks import manifest, needs, verifies


@manifest("services/cluster-ip.yaml")
@needs(node_fill=True, lab=True)
@verifies("XSVC-11")
def test_each_of_300_services_leads_to_its_backends(
    pods: WorkerPods, passing_services: PassingServices, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    fronts = passing_services.come(*[pods.servers("linux")] * 300)
    because = "kube-proxy of each node programs all Services, whatever their number"
    expect.matrix(Case(clients, fronts, open=True, because=because))
