"""kube-proxy has no part in policy: what is in force stays so while it restarts, which it may do at any time."""

from conformance.fixtures import OS, Expect, KubeProxy, Policy, Services, Sides, Throughout, WorkerPods
from conformance.marks import each_os, manifest, verifies

STAYS = "kube-proxy programs Services, and no policy"
BACK = "kube-proxy has programmed its node's Services anew"


@each_os("os")
@manifest("policy/over-time/only_the_friend.yaml")
@verifies("XPOL-19", part="{os} nodes", alone_on="{os}")
def test_who_is_kept_out_stays_out_while_kube_proxy_restarts(
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
    here, clients = sides.on([own_node], os), pods.clients(os).at(own_node)
    named = clients.to(sides.friends + sides.strangers).through(services.by_name)
    back, restart = lambda: expect.control(named, because=BACK), lambda: kube_proxy.renew(own_node, back)
    one_rule = policy.filled(server=here.servers, friend=here.friends)
    expect.change(one_rule, open=[*here.opened, named], closed=here.closed, because="the one rule lets the friend in")
    throughout.closed_while(restart, closed=[here.closed], beside=[here.beside], because=STAYS)
    expect.matrix(open=here.opened, closed=here.closed, because=STAYS)
