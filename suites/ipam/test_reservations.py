# SPDX-License-Identifier: Apache-2.0
"""Every block of a Windows node reserves four addresses, and no other block does; no pod has a
reserved address."""

from conformance.fixtures import IpamFacts, Readings, WorkerPods
from conformance.marks import verifies

CHECK = "run calicoctl ipam check --show-problem-ips"


@verifies("IPAM-3", part="blocks")
def test_the_first_three_and_the_last_address_are_reserved(
    ipam: IpamFacts, requires: Readings
) -> None:
    because = (
        "these are the HNS network's own address, its gateway, the host's endpoint and the "
        "broadcast address"
    )
    requires.that(
        ipam.reserved,
        ["first", "second", "third", "last"],
        on=ipam.windows,
        because=because,
        do=CHECK,
    )


@verifies("IPAM-3", part="other blocks")
def test_nothing_is_reserved_so_in_blocks_of_other_nodes(
    ipam: IpamFacts, requires: Readings
) -> None:
    because = (
        "only Windows nodes have an HNS network; on Linux nodes, pods can have every address of a "
        "block"
    )
    requires.that(ipam.reserved_elsewhere(), [], because=because, do=CHECK)


@verifies("IPAM-3", part="pods")
def test_no_windows_pod_has_an_address_that_is_kept_back(
    pods: WorkerPods, ipam: IpamFacts, requires: Readings
) -> None:
    pods.ensure_ready("windows-client", "windows-server")
    because = (
        "IPAM gives no pod an address that its block reserves or that was reserved when the pod "
        "came"
    )
    requires.that(
        ipam.takings,
        "not reserved",
        on=ipam.windows_with_pods,
        because=because,
        do=f"delete that pod; {CHECK}",
    )
