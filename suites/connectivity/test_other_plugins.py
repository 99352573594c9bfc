# SPDX-License-Identifier: Apache-2.0
"""Pods connect if a plugin other than Calico's networks them: flannel, or static routes of an
administrator."""

from conformance.fixtures import OS, Case, Expect, PlatformObjects, Readings, Subnets, WorkerPods
from conformance.marks import about, directions, needs, verifies

HOST_GATEWAY = (
    "flannel host-gw routes each podCIDR through its node, which is on the same layer 2 network "
    "and forwards the packets"
)
BY_HAND = (
    "win-bridge gives pods addresses of their node's podCIDR, and routes to the podCIDR lead to "
    "the node"
)


@about("tcp")
@verifies("FL-1", part="{client_os}->{server_os} pod-ip")
@needs(host_network=True)
@directions(across_nodes=True)
def test_pods_of_nodes_in_one_subnet_reach_each_other_by_flannels_routes(
    pods: WorkerPods, subnets: Subnets, expect: Expect, client_os: OS, server_os: OS
) -> None:
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    case = Case(clients, servers, on="other nodes", tcp=8080, open=True, because=HOST_GATEWAY)
    expect.matrix(subnets.within(case, pods.nodes()))


@verifies("FL-2")
def test_flannels_overlay_does_not_carry_windows_pods(
    platform_objects: PlatformObjects, requires: Readings
) -> None:
    because = "nobody has tested Calico for Windows with flannel VXLAN"
    do = "use flannel host-gw or Calico's own VXLAN, or expect untested behaviour"
    windows = platform_objects.windows
    requires.that(
        platform_objects.backend,
        lambda kind: kind != "vxlan",
        "another",
        on=windows,
        because=because,
        do=do,
    )


@verifies("FL-3")
def test_flannel_keeps_its_data_in_the_kubernetes_api(
    platform_objects: PlatformObjects, requires: Readings
) -> None:
    because = (
        "on Windows flanneld finds other nodes only in the Kubernetes API, where every flanneld "
        "annotates its node"
    )
    do = "start every flanneld with --kube-subnet-mgr"
    windows = platform_objects.windows
    requires.that(platform_objects.subnet_manager, "true", on=windows, because=because, do=do)


@about("tcp")
@verifies("CP-2", part="{client_os}->{server_os} pod-ip")
@directions(across_nodes=True)
def test_pods_reach_each_other_by_routes_laid_by_hand(
    pods: WorkerPods, expect: Expect, client_os: OS, server_os: OS
) -> None:
    clients = pods.clients(client_os)
    servers = pods.servers(server_os)
    expect.matrix(Case(clients, servers, on="other nodes", tcp=8080, open=True, because=BY_HAND))
