"""kube-proxy has no part in policy: what is in force stays so while it restarts, which it may do at any time.

Kubernetes' policy is about a server and Calico's about the client on its node, as where Felix restarts.
"""

from conformance.fixtures import (
    OS,
    Expect,
    KubeProxy,
    Policy,
    Services,
    Sides,
    Throughout,
    WorkerPods,
)
from conformance.marks import each_os, manifest, needs, verifies

ALONE = "one rule lets the friend in, and one out to it"
STAYS = "kube-proxy programs Services, and no policy"
BACK = "kube-proxy has programmed its node's Services anew"


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
    sides: Sides,
    services: Services,
    kube_proxy: KubeProxy,
    throughout: Throughout,
    expect: Expect,
    own_node: str,
    os: OS,
) -> None:
    here = sides.under_both_apis(pods, [own_node], os, strangers=pods.elsewhere(os))
    named = (
        pods.elsewhere(os).at(own_node).to(here.friends + here.strangers).through(services.by_name)
    )
    policies = policy.filled(server=pods.servers(os), client=pods.clients(os), friend=here.friends)
    opened = here.open_both_ways
    closed = here.closed_both_ways
    expect.base(policies, open=[*opened, named], closed=closed, because=ALONE)
    throughout.closed_while(
        lambda: kube_proxy.renew(own_node, lambda: expect.control(named, because=BACK)),
        closed=[closed],
        beside=[opened],
        because=STAYS,
    )
    expect.matrix(open=opened, closed=closed, because=STAYS)
