"""A policy that changes while a node has no Felix is in force there once Felix is ready again."""

from conformance.fixtures import OS, Expect, Felix, Policy, WorkerPods
from conformance.marks import each_os, manifest, other, verifies

pytestmark = [manifest("policy/kubernetes/ingress_by_selector.yaml")]

WITH_FELIX = "the one rule lets the friend enter, and Felix is there to see it change"
BECAUSE = (
    "Felix is ready once it has programmed every policy, and so what changed while there was none"
)


@each_os("os")
@verifies("XOP-3", part="{os} nodes", alone_on="{os}")
def test_the_new_friend_enters_and_the_former_one_no_more(
    *,
    pods: WorkerPods,
    policy: Policy,
    expect: Expect,
    felix: Felix,
    own_nodes: tuple[str, ...],
    os: OS,
) -> None:
    servers = pods.servers(os).at(*own_nodes)
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    ways = linux.to(servers).tcp(8080)
    others = windows.to(servers).tcp(8080)
    beside = (linux + windows).to([pods.server(other(os))]).tcp(8080)
    former = policy.filled(server=servers, friend=linux)
    new = policy.filled(server=servers, friend=windows)
    expect.under(new, open=[*others, *beside], closed=ways, because=WITH_FELIX)
    expect.under(former, open=[*ways, *beside], closed=others, because=WITH_FELIX)
    felix.restart_around(own_nodes, new.apply)
    expect.matrix(open=[*others, *beside], closed=ways, because=BECAUSE)
