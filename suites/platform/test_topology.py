# SPDX-License-Identifier: Apache-2.0
"""The cluster is hybrid, and its control plane runs on Linux."""

from conformance.fixtures import CalicoObjects, ClusterWide, Readings
from conformance.marks import verifies


@verifies("PLAT-1", part="nodes")
def test_nodes_of_both_systems_are_ready(calico: CalicoObjects, requires: Readings) -> None:
    because = "Calico for Windows needs Linux nodes for its cluster-wide parts, and Windows workers beside them"
    requires.that(
        calico.ready_nodes(),
        lambda n: n > 0,
        "at least 1",
        because=because,
        do="kubectl describe nodes",
    )


@verifies("PLAT-1", part="cluster-wide pods")
def test_cluster_wide_pods_run_on_linux(cluster_wide: ClusterWide, requires: Readings) -> None:
    because = (
        "Kubernetes' control plane, cluster DNS and Calico's cluster-wide parts exist only for "
        "Linux"
    )
    do = (
        "give these pods nodeSelector kubernetes.io/os: linux, and Windows nodes the taint "
        "os=windows:NoSchedule"
    )
    requires.that(cluster_wide.pods(), "linux", because=because, do=do)


@verifies("INST-3")
def test_no_typha_pod_runs_on_windows(cluster_wide: ClusterWide, requires: Readings) -> None:
    because = "there is no Typha for Windows: Felix on Windows connects to a Typha on a Linux node"
    do = "give the Deployment calico-typha nodeSelector kubernetes.io/os: linux"
    requires.that(cluster_wide.typha(), "not on Windows", lifted=bool, because=because, do=do)
