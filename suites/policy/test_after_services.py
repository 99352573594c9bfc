"""A denial is no Service's business, nor one of labels that no policy selects: it is in force after pods, namespaces,
accounts and policies get some, after what is about others came, and after Services come in front of its pods, change,
and go.
"""

from conformance.fixtures import Expect, PassingServices, Policy, RelabelNamespaces, Sides
from conformance.marks import about, manifest, needs, verifies

ALONE = "one rule lets the friend in, and one the servers to it"
CALLED = (
    "no policy selects by the labels that all have now, and what came beside it is about nobody"
)
NOBODYS = "a Service says how a pod is found, and not who may connect to it"
CAME, MOVED, WENT = (
    f"a Service {what}, and {NOBODYS}" for what in ("came", "has other backends and type", "went")
)


@about("clusterip")
@manifest("policy/over-time/only_the_friend.yaml")
@verifies(
    "POL-1", part="after an event: labels that no policy selects, and Services", provisional=True
)
def test_who_is_kept_out_stays_out_whatever_pods_are_called_and_services_do(
    policy: Policy,
    sides_of_everybody: Sides,
    relabel_namespaces: RelabelNamespaces,
    passing_services: PassingServices,
    expect: Expect,
) -> None:
    here = sides_of_everybody
    come = passing_services.come
    look = expect.matrix
    linux, windows = here.by_os
    opened = here.open_both_ways
    closed = here.closed_both_ways
    expect.base(
        policy.filled(server=here.servers, friend=here.friends),
        open=opened,
        closed=closed,
        because=ALONE,
    )
    relabel_namespaces.add_irrelevant_labels(*here.servers, *here.strangers, after=policy.stir)
    look(open=opened, closed=closed, because=CALLED, lasts=False)
    look(
        open=[*opened, (here.friends, come(linux, windows))],
        closed=closed,
        because=CAME,
        lasts=False,
    )
    look(
        open=[*opened, (here.friends, come(windows, linux, at_nodes=True))],
        closed=closed,
        because=MOVED,
        lasts=False,
    )
    look(open=[*opened, (here.friends, come())], closed=closed, because=WENT)


@about("clusterip")
@needs(calico_policy=True)
@manifest("policy/limits/egress_to_a_service.yaml")
@verifies("XPOL-7", part="backends that change", provisional=True)
def test_who_may_leave_for_a_service_reaches_its_backends_of_now_and_those_of_before_no_more(
    policy: Policy, sides: Sides, passing_services: PassingServices, expect: Expect
) -> None:
    clients = sides.friends + sides.strangers
    linux = sides.at("linux")
    windows = sides.at("windows")
    first = clients.to(linux).tcp(8080)
    second = clients.to(windows).tcp(8080)
    because = "these are its backends"
    passing_services.come(linux)
    expect.base(policy.filled(service="passing-1"), open=first, closed=second, because=because)
    passing_services.come(windows)
    expect.matrix(open=second, closed=first, because=f"{because} now")
