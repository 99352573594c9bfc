"""Felix programs policy and does not carry it: what is in force stays so while there is none, and while it starts.

Kubernetes' policy is about servers and Calico's about the clients on their nodes, both for both ways: what is lost of
one API, of one way or of one protocol alone shows.
"""

from conformance.fixtures import OS, Expect, Felix, Newcomers, Policy, Sides, Throughout, WorkerPods
from conformance.marks import each_os, manifest, needs, verifies

ALONE = "one rule lets the friend in, and one out to it"
STAYS = "what Felix has programmed stays in its node's data plane without it"
NEW = "the new pods have the selected labels, and Felix was ready before they came"


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
    sides: Sides,
    felix: Felix,
    newcomers: Newcomers,
    throughout: Throughout,
    expect: Expect,
    own_nodes: tuple[str, ...],
    os: OS,
) -> None:
    here = sides.under_both_apis(pods, own_nodes, os)
    servers = pods.servers(os)
    clients = pods.clients(os)
    policies = policy.filled(server=servers, client=clients, friend=here.friends)
    expect.base(policies, open=here.open_both_ways, closed=here.closed_both_ways, because=ALONE)
    throughout.closed_while(
        lambda: felix.restart_together(own_nodes),
        closed=[here.closed_both_ways],
        beside=[here.open_both_ways],
        because=STAYS,
    )
    guests, new = newcomers.beside(here.servers)
    both = here.joined_by(new)
    through = guests.to(here.strangers).tcp_and_udp(8080)
    expect.matrix(
        open=[*both.open_both_ways, *through],
        closed=both.closed_both_ways,
        new=guests + new,
        because=NEW,
    )
