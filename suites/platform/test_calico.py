# SPDX-License-Identifier: Apache-2.0
"""Calico runs on a Linux worker, in a version that supports Windows."""

from conformance.fixtures import Builds, CalicoObjects, ClusterWide, Readings
from conformance.marks import verifies


@verifies("PLAT-4", part="calico-node")
def test_calico_node_is_ready_on_a_linux_worker(
    cluster_wide: ClusterWide, requires: Readings
) -> None:
    because = "calico-node on Linux workers provides the cluster's routes, addresses and policies"
    do = "kubectl describe daemonset --all-namespaces calico-node"
    requires.that(
        cluster_wide.calico_nodes(), lambda n: n > 0, "at least 1", because=because, do=do
    )


@verifies("PLAT-4", part="cluster-wide parts", provisional=True)
def test_calicos_cluster_wide_parts_are_ready_on_linux(
    cluster_wide: ClusterWide, requires: Readings
) -> None:
    because = (
        "Windows nodes depend on these components, which release the blocks of removed nodes and "
        "send policies to Felix"
    )
    do = "kubectl describe deployments --all-namespaces calico-kube-controllers calico-typha calico-apiserver"
    requires.that(cluster_wide.deployments(), lambda n: n > 0, "at least 1", because=because, do=do)


@verifies("PLAT-4", part="version")
def test_calico_is_recent_enough_for_windows(
    calico: CalicoObjects, builds: Builds, requires: Readings
) -> None:
    floor = builds.calico_floor
    because = (
        "Calico for Windows exists since v3.12, and its installation by the operator since v3.27; "
        f"here: {builds.install}"
    )
    requires.that(
        calico.calico_version(),
        builds.recent,
        f"{floor} or later",
        because=because,
        do="upgrade Calico",
    )


@verifies("PLAT-5", part="workers")
def test_there_are_three_linux_workers_for_typha(
    cluster_wide: ClusterWide, requires: Readings
) -> None:
    because = (
        "with fewer nodes, Typha is not highly available: the loss of one node can mean the loss "
        "of Typha"
    )
    do = "add Linux workers, or uncordon them"
    requires.that(cluster_wide.workers(), lambda n: n >= 3, "at least 3", because=because, do=do)


@verifies("PLAT-5", part="Typha")
def test_every_typha_pod_is_ready_on_a_node_of_its_own(
    cluster_wide: ClusterWide, requires: Readings
) -> None:
    because = (
        "two Typha pods on one node fail together, and a Typha pod that waits for a node serves "
        "no Felix"
    )
    do = "kubectl describe pods --namespace calico-system --selector k8s-app=calico-typha"
    requires.that(
        cluster_wide.typha_pods(), "all ready, each on its own node", because=because, do=do
    )
