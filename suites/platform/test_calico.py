"""Calico runs on a Linux worker, in a version that knows Windows."""

from conformance.fixtures import Builds, CalicoObjects, Readings
from conformance.marks import verifies


@verifies("PLAT-4", part="calico-node")
def test_calico_node_is_ready_on_a_linux_worker(calico: CalicoObjects, requires: Readings) -> None:
    because = "routes, addresses and policies of the cluster begin there"
    do = "kubectl describe daemonset --all-namespaces calico-node"
    requires.that(calico.calico_nodes(), lambda n: n > 0, "at least 1", because=because, do=do)


@verifies("PLAT-4", part="version")
def test_calico_is_recent_enough_for_windows(calico: CalicoObjects, builds: Builds, requires: Readings) -> None:
    floor = builds.calico_floor
    because = f"Calico for Windows came with v3.12, its installation by operator with v3.27; here: {builds.install}"
    requires.that(calico.calico_version(), builds.recent, f"{floor} or later", because=because, do="upgrade Calico")
