# SPDX-License-Identifier: Apache-2.0
"""Felix only programs policies, and the data plane enforces them: policies stay in force while
Felix is down, and while it starts.

The Kubernetes policy selects servers, and the Calico policy selects the clients on the servers'
nodes, each for both directions. So a loss in only one API, direction or protocol is noticed.
"""

from conformance.fixtures import (
    OS,
    Case,
    Continuity,
    Expect,
    Felix,
    Newcomers,
    Policy,
    WorkerPods,
)
from conformance.marks import each_os, manifest, needs, other, verifies

IN = "one rule lets this client in"
NOT_IN = "no rule lets these pods in"
OUT = "one rule lets these pods out to this client"
NOT_OUT = "no rule lets these pods out to other pods"
NOT_SELECTED = "no policy selects these pods"
STAYS = "the rules that Felix has programmed stay in the node's data plane while Felix is down"


@each_os("os")
@needs(calico_policy=True)
@manifest(
    "policy/over-time/of_both_apis.yaml", otherwise="policy/over-time/of_kubernetes_twice.yaml"
)
@verifies("XPOL-18", part="{os} nodes", alone_on="{os}")
def test_who_is_kept_out_or_in_stays_so_while_felix_restarts_and_of_pods_that_come_then(
    *,
    pods: WorkerPods,
    policy: Policy,
    felix: Felix,
    newcomers: Newcomers,
    continuity: Continuity,
    expect: Expect,
    own_nodes: tuple[str, ...],
    os: OS,
) -> None:
    servers = pods.servers(os).at(*own_nodes)
    clients = pods.clients(os).at(*own_nodes)
    selected = servers + clients
    allowed = pods.clients(other(os)).one_per_os()
    away = pods.elsewhere(os).at(*own_nodes)
    stranger = pods.servers(other(os)).one_per_os()
    cases = [
        Case(allowed, selected, tcp=8080, udp=8080, open=True, because=IN),
        Case(allowed, servers, tcp=8081, udp=8081, open=True, because=IN),
        Case(away, servers, tcp=8081, udp=8081, on="same node", open=False, because=NOT_IN),
        Case(away, clients, tcp=8080, udp=8080, on="same node", open=False, because=NOT_IN),
        Case(stranger, selected, tcp=8080, udp=8080, open=False, because=NOT_IN),
        Case(selected, allowed, tcp=8080, udp=8080, open=True, because=OUT),
        Case(selected, away, tcp=8080, udp=8080, on="same node", open=False, because=NOT_OUT),
        Case(selected, stranger, tcp=8080, udp=8080, open=False, because=NOT_OUT),
        Case(away + stranger, allowed, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    ]
    expect.base(
        policy.filled(server=pods.servers(os), client=pods.clients(os), friend=allowed), *cases
    )
    continuity.closed_while(lambda: felix.restart_together(own_nodes), *cases, because=STAYS)
    guests, new = newcomers.beside(selected)
    new_servers = new.playing("server")
    new_clients = new.playing("client")
    expect.matrix(
        *cases,
        Case(allowed, new, tcp=8080, udp=8080, open=True, because=IN),
        Case(allowed, new_servers, tcp=8081, udp=8081, open=True, because=IN),
        Case(away, new_servers, tcp=8081, udp=8081, on="same node", open=False, because=NOT_IN),
        Case(away, new_clients, tcp=8080, udp=8080, on="same node", open=False, because=NOT_IN),
        Case(stranger, new, tcp=8080, udp=8080, open=False, because=NOT_IN),
        Case(new, allowed, tcp=8080, udp=8080, open=True, because=OUT),
        Case(new, away, tcp=8080, udp=8080, on="same node", open=False, because=NOT_OUT),
        Case(new, stranger, tcp=8080, udp=8080, open=False, because=NOT_OUT),
        Case(guests, away + stranger, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
        new=guests + new,
    )
