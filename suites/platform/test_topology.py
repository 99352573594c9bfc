"""The cluster is hybrid, and what runs it runs on Linux."""

from conformance.fixtures import CalicoObjects, Readings
from conformance.marks import verifies


@verifies("PLAT-1", part="nodes")
def test_nodes_of_both_systems_are_ready(calico: CalicoObjects, requires: Readings) -> None:
    because = "Calico for Windows needs Linux nodes for its cluster-wide parts, and Windows workers beside them"
    requires.that(calico.ready_nodes(), lambda n: n > 0, "at least 1", because=because, do="kubectl describe nodes")


@verifies("PLAT-1", part="cluster-wide pods")
def test_cluster_wide_pods_run_on_linux(calico: CalicoObjects, requires: Readings) -> None:
    because = "Kubernetes' control plane and Calico's cluster-wide parts exist for Linux only"
    do = "give them nodeSelector kubernetes.io/os: linux, and Windows nodes the taint os=windows:NoSchedule"
    requires.that(calico.cluster_wide_pods(), "linux", because=because, do=do)
