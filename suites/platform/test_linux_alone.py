# SPDX-License-Identifier: Apache-2.0
"""WireGuard, IPv6 and eBPF exist only on Linux nodes, and Windows nodes in the same cluster keep
working."""

from conformance.fixtures import (
    CalicoObjects,
    Case,
    Expect,
    NotOnWindows,
    Policy,
    Readings,
    WorkerPods,
)
from conformance.marks import manifest, verifies

FRIEND = "the one rule allows this label"
OTHERS = (
    "no rule allows this label, and HNS enforces the policy, whatever data plane Linux nodes have"
)
ENDS = "each node encrypts only packets to nodes that have a key"


@verifies("UNSUP-3")
def test_windows_nodes_have_no_wireguard_key_and_are_reached_all_the_same(
    pods: WorkerPods,
    calico: CalicoObjects,
    not_on_windows: NotOnWindows,
    requires: Readings,
    expect: Expect,
) -> None:
    linux_clients = pods.clients("linux")
    linux = pods.servers("linux")
    windows_clients = pods.clients("windows")
    windows = pods.servers("windows")
    because = "only Linux nodes have WireGuard"
    requires.that(
        not_on_windows.keys,
        "none",
        on=calico.windows,
        because=because,
        do="find out who wrote the key",
    )
    expect.matrix(
        Case(linux_clients, windows, tcp=8080, open=True, because=ENDS),
        Case(windows_clients, linux, tcp=8080, open=True, because=ENDS),
    )


@verifies("UNSUP-5")
def test_windows_pods_have_no_address_of_ipv6(
    pods: WorkerPods, calico: CalicoObjects, not_on_windows: NotOnWindows, requires: Readings
) -> None:
    pods.ensure_ready("windows-client")
    because = "Calico gives Windows pods one address, of IPv4, where Linux pods have both"
    do = "read the pod's status.podIPs and its node's annotations"
    requires.that(
        not_on_windows.of_ipv6, "none", on=calico.windows, lifted=bool, because=because, do=do
    )


@manifest("policy/kubernetes/ingress_by_selector.yaml")
@verifies("UNSUP-4")
def test_policies_of_windows_pods_are_enforced_while_linux_nodes_run_ebpf(
    *,
    pods: WorkerPods,
    not_on_windows: NotOnWindows,
    requires: Readings,
    policy: Policy,
    expect: Expect,
) -> None:
    because = "without eBPF on Linux nodes, the test proves nothing"
    requires.that(not_on_windows.ebpf(), "eBPF", because=because, do="set linuxDataplane to BPF")
    server = pods.servers("windows")
    friend = pods.clients("linux")
    others = pods.clients("windows")
    not_selected = pods.servers("linux")
    expect.change(
        policy.filled(server=server, friend=friend),
        Case(friend, server, tcp=8080, open=True, because=FRIEND),
        Case(others, server, tcp=8080, open=False, because=OTHERS),
        Case(others, not_selected, tcp=8080, open=True, because="no policy selects this server"),
    )
