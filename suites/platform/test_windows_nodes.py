# SPDX-License-Identifier: Apache-2.0
"""Windows nodes run a build and a container runtime that this version of Calico lists."""

from conformance.fixtures import Builds, CalicoObjects, Readings
from conformance.marks import verifies

UPGRADE = "install the newest cumulative update, or use Windows Server 2022"


@verifies("PLAT-6")
def test_every_windows_build_is_listed(
    calico: CalicoObjects, builds: Builds, requires: Readings
) -> None:
    because = f"Calico {builds.calico} lists no other build"
    requires.that(calico.windows_builds(), builds.listed, builds.row, because=because, do=UPGRADE)


@verifies("PLAT-7")
def test_every_windows_node_runs_a_listed_container_runtime(
    calico: CalicoObjects, builds: Builds, requires: Readings
) -> None:
    because = "Calico runs on Windows in HostProcess containers, which need containerd 1.6, or as services"
    do = "install containerd 1.6 or later on the node"
    runtimes = calico.windows_runtimes()
    requires.that(runtimes, builds.runtime_fits, builds.runtimes, because=because, do=do)


@verifies("VXLAN-5")
def test_every_windows_build_has_overlay_networks(
    calico: CalicoObjects, requires: Readings
) -> None:
    because = "HNS in older builds has no overlay network that Calico can use"
    right = (17763, 0).__le__
    requires.that(
        calico.kernel, right, "17763 or later", on=calico.windows, because=because, do=UPGRADE
    )
