# SPDX-License-Identifier: Apache-2.0
"""The CNI plugin and HNS handle pods that come and go on a Windows node, and many pods that come at
once, or known issues appear."""

from conformance.fixtures import FullNode, HnsHealth, PodChurn, Services, WorkerPods
from conformance.marks import needs, verifies


@verifies("XLC-2")
@needs(linux=1)
def test_pods_come_and_go_and_the_next_one_may_have_no_network(
    *,
    pods: WorkerPods,
    services: Services,
    pod_churn: PodChurn,
    hns_health: HnsHealth,
    own_nodes: tuple[str, ...],
) -> None:
    servers = pods.servers("windows").at(*own_nodes)
    because = (
        "HNS may keep endpoints of pods that are gone, and create no endpoints for the pods that "
        "follow"
    )
    pod_churn.may_leave_traces(
        servers,
        client=pods.client("linux"),
        name=services.by_name(pods.server("linux")),
        left=hns_health.left_behind,
        because=because,
    )


@verifies("XLC-4")
def test_the_cni_plugin_may_refuse_pods_that_come_at_once(
    full_node: FullNode, own_nodes: tuple[str, ...]
) -> None:
    because = "Calico's CNI plugin holds a lock and creates the network of only one pod at a time"
    full_node.burst_may_be_refused(own_nodes, because=because)
