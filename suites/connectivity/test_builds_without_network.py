# SPDX-License-Identifier: Apache-2.0
"""A Windows update broke the network of Calico's pods on some builds of Server 2022, until a later
update repaired it."""

from conformance.fixtures import KnownIssue, WindowsNodes, WorkerPods
from conformance.marks import verifies

BROKEN = ">=20348.2322 <20348.2762"


@verifies("XLC-3")
def test_pods_of_these_builds_may_have_no_network(
    pods: WorkerPods, windows_nodes: WindowsNodes, known_issue: KnownIssue
) -> None:
    servers = pods.servers("windows").at(*windows_nodes.of_build(BROKEN))
    because = "these builds break the network of Calico's pods, and KB5044281 repairs it"
    witness = pods.server("linux").tcp(8080)
    known_issue.may_be_cut_off(
        pods.client("linux"), servers.tcp(8080), beside=witness, because=because
    )
