# SPDX-License-Identifier: Apache-2.0
"""Every pod of the cluster's DNS answers: the Service may send a query to any of them."""

from conformance.fixtures import OS, ClusterDns, Expect, Services, WorkerPods
from conformance.marks import each_os, manifest, verifies

pytestmark = [manifest("services/cluster-ip.yaml")]


@verifies("CONN-6", part="{client_os}, each DNS pod")
@each_os("client_os")
def test_each_dns_pod_answers(
    pods: WorkerPods, services: Services, cluster_dns: ClusterDns, expect: Expect, client_os: OS
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    because = "if a pod behind the DNS Service gave no answers, names would resolve only by chance"
    name = service.full_name
    to = [service.cluster_ip]
    expect.resolves(pods.clients(client_os), name, to, at=cluster_dns.pods(), because=because)
