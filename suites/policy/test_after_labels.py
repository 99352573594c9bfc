"""Labels that no policy selects change nothing: a denial is in force after pods, namespaces and policies get some."""

from conformance.fixtures import Expect, Policy, Relabel, Sides, WorkerPods
from conformance.marks import manifest, verifies


@manifest("policy/over-time/only_the_friend.yaml")
@verifies("POL-1", part="after an event: labels that no policy selects", provisional=True)
def test_who_is_kept_out_stays_out_whatever_else_pods_are_called(
    pods: WorkerPods, policy: Policy, sides: Sides, relabel: Relabel, expect: Expect
) -> None:
    here = sides.between(sides.friends, sides.strangers + pods.elsewhere("linux"))
    opened, closed, alone = here.open_both_ways, here.closed_both_ways, "one rule lets the friend in, and out to it"
    filled = policy.filled(server=here.servers, friend=here.friends, note="first")
    expect.change(filled, open=opened, closed=closed, because=alone)
    relabel.add_irrelevant_label(*here.servers, *here.strangers)
    relabel.add_irrelevant_label_to_namespaces(*here.servers, *here.strangers)
    policy.apply(server=here.servers, friend=here.friends, note="second")
    because = "no policy selects by the labels that these pods, their namespaces and the policy have now"
    expect.matrix(open=opened, closed=closed, because=because)
