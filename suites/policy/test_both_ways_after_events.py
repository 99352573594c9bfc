"""Calico's policy for both ways is in force after labels and Services came: by TCP, by UDP and by ping."""

import functools

from conformance.fixtures import Beyond, Expect, PassingServices, Policy, Relabel, Sides
from conformance.marks import about, manifest, needs, verifies

ALONE = "one rule lets the friend in, and one the servers to it"
NOBODYS = "labels that nobody selects and Services say how pods are called and found, and not who may connect to them"


@about("clusterip")
@needs(calico_policy=True)
@manifest("policy/over-time/friends_alone.yaml")
@verifies("POL-1", part="after an event: both ways, and ping", provisional=True)
def test_who_is_kept_out_or_in_stays_so_by_tcp_udp_and_ping(
    *,
    policy: Policy,
    sides_of_everybody: Sides,
    relabel: Relabel,
    passing_services: PassingServices,
    expect: Expect,
    beyond: Beyond,
) -> None:
    here, come = sides_of_everybody, passing_services.come
    beyond.before(here.pings)
    opened, closed = here.open_both_ways, here.closed_both_ways
    expect.change(policy.filled(friend=here.friends), open=opened, closed=closed, because=ALONE, base=True)
    relabel.add_irrelevant_labels(*here.servers, *here.strangers)
    expect.matrix(open=[*opened, (here.friends, come(*here.by_os))], closed=closed, because=NOBODYS)
    policy.touch()
    policy.beside("policy/over-time/nobodys.yaml")
    opened = [*opened, (here.friends, come(*here.by_os[::-1]))]
    look = functools.partial(expect.matrix, open=opened, closed=closed, because=NOBODYS)
    beyond.ping(here.pings, want=False, because=NOBODYS, meanwhile=look)
