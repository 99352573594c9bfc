"""Labels that no policy selects change nothing: a denial is in force after pods and namespaces get some."""

from conformance.fixtures import Expect, Policy, Relabel, Sides
from conformance.marks import manifest, verifies


@manifest("policy/over-time/only_the_friend.yaml")
@verifies("POL-1", part="after an event: labels that no policy selects", provisional=True)
def test_who_is_kept_out_stays_out_whatever_else_pods_are_called(
    policy: Policy, sides_of_everybody: Sides, relabel: Relabel, expect: Expect
) -> None:
    sides, alone = sides_of_everybody, "one rule lets the friend in, and one the servers to it"
    opened, closed = sides.open_both_ways, sides.closed_both_ways
    expect.change(policy.filled(server=sides.servers, friend=sides.friends), open=opened, closed=closed, because=alone)
    relabel.add_irrelevant_labels(*sides.servers, *sides.strangers)
    because = "no policy selects by the labels that these pods and their namespaces have now"
    expect.matrix(open=opened, closed=closed, because=because)
