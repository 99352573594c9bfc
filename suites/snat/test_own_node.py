# SPDX-License-Identifier: Apache-2.0
"""Without an overlay, packets with the address of a backend's own node are let in, whatever the
policies."""

from conformance.fixtures import Case, Expect, OwnNode, Policy, Services, WindowsNodes, WorkerPods
from conformance.marks import manifest, verifies

pytestmark = [manifest("policy/services/only-the-client.yaml")]

PORT = 8080
ADMITTED = "the policy admits this client"
NOT_ADMITTED = "the policy does not admit these clients"
OPEN = "no policy is in force yet"
UNGUARDED = (
    "kube-proxy changes the client's address to that of the backend's node, which Felix admits "
    "before all policies"
)


@verifies("XSVC-5", part="windows pod, cluster-ip on its own node")
def test_a_stranger_of_the_backends_node_gets_in_by_cluster_ip(
    *,
    pods: WorkerPods,
    policy: Policy,
    services: Services,
    windows_nodes: WindowsNodes,
    own_node_hole: OwnNode,
    expect: Expect,
) -> None:
    nodes = windows_nodes.on_l2bridge(windows_nodes.without_dsr())
    strangers = pods.clients("windows").at(*nodes)
    servers = pods.servers("windows").at(*nodes)
    admitted = pods.clients("linux")
    expect.controls(
        Case(strangers, servers, on="same node", tcp=PORT, open=True, because=OPEN),
        Case(
            strangers, servers, on="same node", through=services.by_address, open=True, because=OPEN
        ),
        Case(admitted, servers, tcp=PORT, open=True, because=OPEN),
    )
    policy.apply(client=admitted, server=servers)
    own_node_hole.lets_in(
        Case(
            strangers,
            servers,
            on="same node",
            through=services.by_address,
            open=True,
            because=UNGUARDED,
        ),
        Case(
            strangers,
            servers,
            on="same node",
            tcp=PORT,
            open=False,
            witness=True,
            because=NOT_ADMITTED,
        ),
        Case(admitted, servers, tcp=PORT, open=True, witness=True, because=ADMITTED),
        undecided=windows_nodes.undecided,
    )


@verifies("XSVC-5", part="outside, NodePort of the backend's node")
def test_a_stranger_from_outside_gets_in_by_the_nodes_node_port(
    *,
    pods: WorkerPods,
    policy: Policy,
    services: Services,
    windows_nodes: WindowsNodes,
    own_node_hole: OwnNode,
    expect: Expect,
) -> None:
    strangers = pods.nodes()
    servers = pods.servers("windows").at(*windows_nodes.on_l2bridge())
    admitted = pods.clients("linux")
    expect.controls(
        Case(strangers, servers, tcp=PORT, open=True, because=OPEN),
        Case(strangers, servers, through=services.by_node_port, open=True, because=OPEN),
        Case(admitted, servers, tcp=PORT, open=True, because=OPEN),
    )
    policy.apply(client=admitted, server=servers)
    own_node_hole.lets_in(
        Case(strangers, servers, through=services.by_node_port, open=True, because=UNGUARDED),
        Case(strangers, servers, tcp=PORT, open=False, witness=True, because=NOT_ADMITTED),
        Case(admitted, servers, tcp=PORT, open=True, witness=True, because=ADMITTED),
        undecided=windows_nodes.undecided,
    )
