"""A denial is no Service's business: it is in force after Services come in front of its pods, change, and go."""

from conformance.fixtures import Expect, PassingServices, Policy, Sides, WorkerPods
from conformance.marks import about, manifest, needs, verifies

ALONE = "one rule lets the friend in, and one the servers to it"
NOBODYS = "a Service says how a pod is found, and not who may connect to it"


@about("clusterip")
@manifest("policy/over-time/only_the_friend.yaml")
@verifies("POL-1", part="after an event: Services of its pods", provisional=True)
def test_who_is_kept_out_stays_out_whatever_services_do(
    pods: WorkerPods, policy: Policy, sides: Sides, passing_services: PassingServices, expect: Expect
) -> None:
    here = sides.between(sides.friends, sides.strangers + pods.elsewhere("linux"))
    opened, closed = here.open_both_ways, here.closed_both_ways
    filled = policy.filled(server=here.servers, friend=here.friends, note="first")
    expect.change(filled, open=opened, closed=closed, because=ALONE)
    through = (here.friends, passing_services.come(here.at("linux"), here.at("windows")))
    expect.matrix(open=[*opened, through], closed=closed, because=f"a Service came, and {NOBODYS}")
    through = (here.friends, passing_services.come(here.at("windows"), here.at("linux")))
    passing_services.open_at_nodes(here.at("windows"), here.at("linux"))
    changed = f"its backends changed, and its type: {NOBODYS}"
    expect.matrix(open=[*opened, through], closed=closed, because=changed)
    passing_services.remove()
    expect.matrix(open=opened, closed=closed, because=f"the Service went, and {NOBODYS}")


@about("clusterip")
@needs(calico_policy=True)
@manifest("policy/limits/egress_to_a_service.yaml")
@verifies("XPOL-7", part="backends that change", provisional=True)
def test_who_may_leave_for_a_service_reaches_its_backends_of_now_and_those_of_before_no_more(
    policy: Policy, sides: Sides, passing_services: PassingServices, expect: Expect
) -> None:
    clients, linux, windows = sides.friends + sides.strangers, sides.at("linux"), sides.at("windows")
    first, second, because = clients.to(linux).tcp(8080), clients.to(windows).tcp(8080), "these are its backends"
    passing_services.come(linux)
    expect.change(policy.filled(service="passing-1"), open=first, closed=second, because=because)
    passing_services.come(windows)
    expect.matrix(open=second, closed=first, because=f"{because} now")
