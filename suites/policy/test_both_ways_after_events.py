"""Calico's policy for both ways is in force after labels, Services and what is about others: by TCP, UDP and ping."""

from conformance.fixtures import Beyond, Expect, PassingServices, Policy, RelabelNamespaces, Sides
from conformance.marks import about, manifest, needs, verifies

ALONE = "one rule lets the friend in, and one the servers to it"
SO = "labels that nobody selects, what is about others and Services do not say who may connect to these pods"


@about("clusterip")
@needs(calico_policy=True)
@manifest("policy/over-time/friends_alone.yaml")
@verifies("POL-1", part="after an event: both ways, and ping", provisional=True)
def test_who_is_kept_out_or_in_stays_so_by_tcp_udp_and_ping(
    *,
    policy: Policy,
    sides_of_everybody: Sides,
    relabel_namespaces: RelabelNamespaces,
    passing_services: PassingServices,
    expect: Expect,
    beyond: Beyond,
) -> None:
    here = sides_of_everybody
    come = passing_services.come
    look = expect.matrix
    opened = here.open_both_ways
    closed = here.closed_both_ways
    pings = here.pings
    beyond.before(pings)
    expect.base(policy.filled(friend=here.friends), open=opened, closed=closed, because=ALONE)
    relabel_namespaces.add_irrelevant_labels(*here.servers, *here.strangers, after=policy.stir)
    look(open=[*opened, (here.friends, come(*here.by_os))], closed=closed, because=SO, lasts=False)
    moved = here.friends, come(*here.by_os[::-1])
    beyond.ping(
        pings,
        want=False,
        because=SO,
        meanwhile=lambda: look(open=[*opened, moved], closed=closed, because=SO),
    )
