# SPDX-License-Identifier: Apache-2.0
"""Platform, network and release of Kubernetes are among those that the documents list."""

from conformance.fixtures import CalicoObjects, Readings, Supported
from conformance.marks import verifies


@verifies("PLAT-2")
def test_the_platform_is_listed_for_this_calico(supported: Supported, requires: Readings) -> None:
    because = "Calico for Windows is tested and supported on these platforms only"
    requires.that(
        supported.platform(),
        "listed",
        because=because,
        do="the vendor of Calico gives no support here",
    )


@verifies("PLAT-3")
def test_the_platform_is_listed_with_this_network(supported: Supported, requires: Readings) -> None:
    because = "on each platform Calico for Windows supports only these network plugins"
    requires.that(
        supported.network(),
        "listed",
        because=because,
        do="use a plugin and mode that are listed for it",
    )


@verifies("PLAT-10")
def test_this_kubernetes_was_tested_with_this_calico(
    supported: Supported, requires: Readings
) -> None:
    because = "other versions may work, but are not tested"
    do = "upgrade Calico or Kubernetes to releases that were tested together"
    requires.that(supported.kubernetes(), "listed", because=because, do=do)


@verifies("PLAT-12")
def test_every_windows_build_is_listed_for_this_kubernetes(
    calico: CalicoObjects, supported: Supported, requires: Readings
) -> None:
    because = "this release of Kubernetes is tested only with these builds of Windows"
    do = "use a build that this release of Kubernetes lists"
    nodes = calico.windows
    requires.that(supported.windows_build, "listed", on=nodes, because=because, do=do)


@verifies("PLAT-11")
def test_the_platform_is_one_that_is_not_supported(
    supported: Supported, requires: Readings
) -> None:
    because = "the limitations page of this version lists this platform as not supported"
    requires.that(supported.unsupported(), "listed", because=because, do="upgrade Calico")


@verifies("AKS-2")
def test_kubernetes_is_recent_enough_for_aks(calico: CalicoObjects, requires: Readings) -> None:
    because = "AKS has supported Calico for Windows since Kubernetes 1.20"
    requires.that(
        calico.kubernetes(),
        lambda v: v >= (1, 20),
        "1.20 or later",
        because=because,
        do="upgrade it",
    )
