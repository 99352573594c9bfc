"""Calico's policy for both ways is in force after labels and Services came: by TCP, by UDP and by ping."""

from conformance.fixtures import Beyond, Expect, PassingServices, Policy, Relabel, Sides, WorkerPods
from conformance.marks import about, manifest, needs, verifies

NOBODYS = "labels that nobody selects and Services say how pods are called and found, and not who may connect to them"


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
    here, pings = sides.between(sides.friends, sides.strangers + pods.elsewhere("linux")), sides.strangers.one_per_os()
    opened, closed = [*here.opened, *here.let_out], [*here.closed, *here.kept_in]
    beyond.before(pings.to(here.servers))
    because = "its two rules let the friend in, and the servers out to the friend"
    expect.change(policy.filled(friend=here.friends), open=opened, closed=closed, because=because)
    relabel.add_irrelevant_label(*here.servers)
    relabel.add_irrelevant_label_to_namespaces(*here.servers)
    through = (here.friends, passing_services.come(here.at("linux"), here.at("windows")))
    expect.matrix(open=[*opened, through], closed=closed, because=NOBODYS)
    beyond.ping(pings.to(here.servers), want=False, because=NOBODYS)
