# SPDX-License-Identifier: Apache-2.0
"""Calico's operator installs Calico on Windows nodes once its requirements are met, in the
documented form."""

from conformance.fixtures import OperatorFacts, Readings
from conformance.marks import verifies

STATUS = "kubectl describe tigerastatus calico-windows"


@verifies("XOP-1", part="demands")
def test_the_operator_is_given_what_it_demands(operator: OperatorFacts, requires: Readings) -> None:
    because = (
        "if one of these settings is missing, the operator degrades and installs nothing on "
        "Windows nodes"
    )
    requires.that(
        operator.demands(),
        "as the operator requires",
        because=because,
        do=f"add what is missing; {STATUS}",
    )


@verifies("XOP-1", part="outcome")
def test_calico_on_windows_is_available_and_ready(
    operator: OperatorFacts, requires: Readings
) -> None:
    because = (
        "with these settings the operator creates its DaemonSet, which has a ready pod on every "
        "Windows node"
    )
    right = {"Available", "all ready"}
    requires.that(
        operator.outcome(), right.__contains__, "Available, all ready", because=because, do=STATUS
    )


@verifies("XOP-2")
def test_the_daemonset_on_windows_has_its_documented_shape(
    operator: OperatorFacts, requires: Readings
) -> None:
    because = "Felix and node need the host and its network; confd is for BGP, install-cni for Calico's own plugin"
    do = (
        "read the DaemonSet calico-node-windows, and find out who changed it: the operator "
        "reverts changes by others"
    )
    requires.that(operator.shape(), "as the operator renders it", because=because, do=do)


@verifies("INST-2")
def test_the_operator_has_laid_nothing_on_windows(
    operator: OperatorFacts, requires: Readings
) -> None:
    because = (
        "up to v3.26 the operator supports only Linux; a manifest or script installs Calico on "
        "Windows nodes"
    )
    do = "read the DaemonSet's ownerReferences"
    requires.that(operator.on_windows(), "nothing", lifted=bool, because=because, do=do)
