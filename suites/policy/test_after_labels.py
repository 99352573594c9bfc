"""Labels that no policy selects change nothing: a denial is in force after pods and namespaces get some."""

from conformance.fixtures import Expect, Policy, Relabel, Sides
from conformance.marks import manifest, verifies


@manifest("policy/over-time/only_the_friend.yaml")
@verifies("POL-1", part="after an event: labels that no policy selects", provisional=True)
def test_who_is_kept_out_stays_out_whatever_else_pods_are_called(
    policy: Policy, sides: Sides, relabel: Relabel, expect: Expect
) -> None:
    one_rule, opened = policy.filled(server=sides.servers, friend=sides.friends), sides.open_both_ways
    closed, because = sides.closed_both_ways, "one rule lets the friend in, and one the servers to it"
    expect.change(one_rule, open=opened, closed=closed, because=because)
    relabel.add_irrelevant_label(*sides.servers, *sides.strangers)
    expect.matrix(open=opened, closed=closed, because="no policy selects by the label that these pods have now")
    relabel.add_irrelevant_label_to_namespaces(*sides.servers)
    expect.matrix(open=opened, closed=closed, because="no policy selects by the label that their namespace has now")
