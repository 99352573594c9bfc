"""Policies that are allowed do not end Felix, which programs those of every pod on its node."""

from conformance.fixtures import EndingPolicy, Policy, Sides, WorkerPods
from conformance.marks import manifest, verifies

BECAUSE = (
    "the first tier passes TCP 8080, by which the next one lets the friend in, and nobody else"
)
BACK = "once those policies are gone Felix has nothing to end by, and follows others"


@manifest("policy/limits/pass_and_highest_port.yaml")
@verifies("XPOL-22")
def test_felix_outlives_a_pass_with_the_highest_port_of_the_next_tier(
    pods: WorkerPods, policy: Policy, sides: Sides, ending_policy: EndingPolicy, own_node: str
) -> None:
    here = sides.on([own_node], "windows")
    server = here.servers.first
    seat = pods.seat_of(here.servers.first)
    opened = [*here.friends.to([server]).tcp(8080), *here.strangers.to(here.friends).tcp(8080)]
    closed = here.strangers.to([server]).tcp(8080)
    ending = policy.filled(seat=seat, friend=here.friends, highest=8080)
    harmless = policy.filled(seat=seat, friend=here.friends, highest=8089)
    ending_policy.outlived(
        server, policy, ending, harmless, open=opened, closed=closed, because=BECAUSE, back=BACK
    )
