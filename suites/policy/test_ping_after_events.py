"""Ping is no exception of what stays in force: who is kept out pings nobody after labels changed and Services came."""

from conformance.fixtures import Beyond, Expect, PassingServices, Policy, Relabel, Sides
from conformance.marks import about, manifest, verifies

NOBODYS = "labels that nobody selects and Services say how pods are called and found, and not who may ping them"


@about("clusterip")
@manifest("policy/over-time/only_the_friend.yaml")
@verifies("POL-1", part="after an event: ping", provisional=True)
def test_who_is_kept_out_pings_nobody_after_labels_and_services(
    *,
    policy: Policy,
    sides: Sides,
    relabel: Relabel,
    passing_services: PassingServices,
    expect: Expect,
    beyond: Beyond,
) -> None:
    one_rule, stranger = policy.filled(server=sides.servers, friend=sides.friends), sides.strangers.one_per_os()
    beyond.before(stranger.to(sides.servers))
    expect.change(one_rule, open=sides.opened, closed=sides.closed, because="the one rule lets the friend in")
    relabel.add_irrelevant_label(*sides.servers)
    relabel.add_irrelevant_label_to_namespaces(*sides.servers)
    through = (sides.friends, passing_services.come(sides.at("linux"), sides.at("windows")))
    expect.matrix(open=[*sides.opened, through], closed=sides.closed, because=NOBODYS)
    beyond.ping(stranger.to(sides.servers), want=False, because=NOBODYS)
