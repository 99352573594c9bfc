"""A denial is no Service's business: it is in force after Services come in front of its pods, change, and go."""

from conformance.fixtures import Expect, PassingServices, Policy, Sides
from conformance.marks import about, manifest, verifies

NOBODYS = "a Service says how a pod is found, and not who may connect to it"


@about("clusterip")
@manifest("policy/over-time/only_the_friend.yaml")
@verifies("POL-1", part="after an event: Services of its pods", provisional=True)
def test_who_is_kept_out_stays_out_whatever_services_do(
    policy: Policy, sides: Sides, passing_services: PassingServices, expect: Expect
) -> None:
    one_rule, opened, closed = policy.filled(server=sides.servers, friend=sides.friends), sides.opened, sides.closed
    expect.change(one_rule, open=opened, closed=closed, because="the one rule lets the friend in")
    through = (sides.friends, passing_services.come(sides.at("linux"), sides.at("windows")))
    expect.matrix(open=[*opened, through], closed=closed, because=f"a Service came, and {NOBODYS}")
    through = (sides.friends, passing_services.come(sides.at("windows"), sides.at("linux")))
    expect.matrix(open=[*opened, through], closed=closed, because=f"its backends changed, and {NOBODYS}")
    passing_services.remove()
    expect.matrix(open=opened, closed=closed, because=f"the Service went, and {NOBODYS}")
