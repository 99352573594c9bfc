"""Calico's policy for both ways is in force after labels came, and Services came, changed and went: by TCP, by UDP and
by ping.
"""

from conformance.fixtures import Beyond, Expect, PassingServices, Policy, Relabel, Sides, WorkerPods
from conformance.marks import about, manifest, needs, verifies

ALONE = "one rule lets the friend in, and one the servers to it"
NOBODYS = "labels that nobody selects and Services say how pods are called and found, and not who may connect to them"
THERE = "Services came in front of the servers, whom their friend may reach"


@about("clusterip")
@needs(calico_policy=True)
@manifest("policy/over-time/friends_alone.yaml")
@verifies("POL-1", part="after an event: both ways, and ping", provisional=True)
def test_who_is_kept_out_or_in_stays_so_by_tcp_udp_and_ping(
    *,
    pods: WorkerPods,
    policy: Policy,
    sides: Sides,
    relabel: Relabel,
    passing_services: PassingServices,
    expect: Expect,
    beyond: Beyond,
) -> None:
    here = sides.between(sides.friends, sides.strangers + pods.elsewhere("linux"))
    pings, opened, closed = here.strangers.one_per_os().to(here.servers), here.open_both_ways, here.closed_both_ways
    beyond.before(pings)
    expect.change(policy.filled(friend=here.friends), open=opened, closed=closed, because=ALONE)
    relabel.add_irrelevant_label(*here.servers, *here.strangers)
    relabel.add_irrelevant_label_to_namespaces(*here.servers)
    expect.control(here.friends, passing_services.come(here.at("linux"), here.at("windows")), because=THERE)
    through = (here.friends, passing_services.come(here.at("windows"), here.at("linux")))
    expect.matrix(open=[*opened, through], closed=closed, because=f"Services came and have others now: {NOBODYS}")
    passing_services.remove()
    expect.matrix(open=opened, closed=closed, because=f"the Services went: {NOBODYS}")
    beyond.ping(pings, want=False, because=NOBODYS)
