# SPDX-License-Identifier: Apache-2.0
"""kube-proxy has no part in policy: policies stay in force while it restarts, which it may do at
any time.

The Kubernetes policy selects a server, and the Calico policy selects the client on the server's
node, as in the test of Felix' restart.
"""

from conformance.fixtures import (
    OS,
    Case,
    Continuity,
    Expect,
    KubeProxy,
    Policy,
    Services,
    WorkerPods,
)
from conformance.marks import each_os, manifest, needs, other, verifies

IN = "one rule lets this client in"
NOT_IN = "no rule lets these pods in"
OUT = "one rule lets these pods out to this client"
NOT_OUT = "no rule lets these pods out to other pods"
NOT_SELECTED = "no policy selects these pods"
STAYS = "kube-proxy programs Services, not policies"
BACK = "kube-proxy has programmed its node's Services again"


@each_os("os")
@needs(calico_policy=True)
@manifest(
    "policy/over-time/of_both_apis.yaml", otherwise="policy/over-time/of_kubernetes_twice.yaml"
)
@verifies("XPOL-19", part="{os} nodes", alone_on="{os}")
def test_who_is_kept_out_or_in_stays_so_while_kube_proxy_restarts(
    *,
    pods: WorkerPods,
    policy: Policy,
    services: Services,
    kube_proxy: KubeProxy,
    continuity: Continuity,
    expect: Expect,
    own_node: str,
    os: OS,
) -> None:
    server = pods.servers(os).at(own_node)
    client = pods.clients(os).at(own_node)
    selected = server + client
    allowed = pods.clients(other(os)).one_per_os()
    elsewhere = pods.elsewhere(os)
    stranger = pods.servers(other(os)).one_per_os()
    peers = allowed + elsewhere + stranger
    back = Case(elsewhere.at(own_node), peers, through=services.by_name, open=True, because=BACK)
    cases = [
        Case(allowed, selected, tcp=8080, udp=8080, open=True, because=IN),
        Case(allowed, server, tcp=8081, udp=8081, open=True, because=IN),
        Case(elsewhere, server, tcp=8081, udp=8081, open=False, because=NOT_IN),
        Case(elsewhere, client, tcp=8080, udp=8080, open=False, because=NOT_IN),
        Case(stranger, selected, tcp=8080, udp=8080, open=False, because=NOT_IN),
        Case(selected, allowed, tcp=8080, udp=8080, open=True, because=OUT),
        Case(selected, elsewhere + stranger, tcp=8080, udp=8080, open=False, because=NOT_OUT),
        Case(elsewhere + stranger, allowed, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    ]
    expect.base(
        policy.filled(server=pods.servers(os), client=pods.clients(os), friend=allowed),
        *cases,
        back,
    )
    continuity.closed_while(
        lambda: kube_proxy.renew(own_node, lambda: expect.controls(back)),
        *cases,
        because=STAYS,
    )
    expect.matrix(*cases)
