"""A policy is about whoever has the labels that it selects, each pod for itself: who comes in the place of another, who
has the address of one that went, and all pods of a node when the policy goes.
"""

from conformance.fixtures import Expect, Newcomers, Policy, Relabel, Sides
from conformance.marks import manifest, verifies


@manifest("policy/over-time/only_the_friend.yaml")
@verifies("POL-1", part="after an event: pods that are replaced, and the end of their policy", provisional=True)
def test_who_takes_a_selected_pods_place_is_closed_and_all_are_open_when_the_policy_goes(
    policy: Policy, sides: Sides, newcomers: Newcomers, expect: Expect
) -> None:
    one_rule, twins = policy.filled(server=sides.servers, friend=sides.friends), newcomers.twins(sides.servers)
    both, because = sides.joined_by(twins), "the one rule lets the friend in, to both pods of each node"
    expect.change(one_rule, open=both.opened, closed=both.closed, because=because)
    new, because = newcomers.replaced(twins), "who comes in a selected pod's place has the labels that are selected"
    both = sides.joined_by(new)
    expect.matrix(open=both.opened, closed=both.closed, new=new, gone=twins, because=because)
    expect.removed(policy, because="without a policy both pods of each node are open to everybody")


@manifest("policy/over-time/only_guests.yaml")
@verifies("POL-1", part="after an event: a member that goes", provisional=True, applies={"ipam": ["calico-ipam"]})
def test_who_gets_the_address_of_a_member_that_went_is_none(
    policy: Policy, sides: Sides, newcomers: Newcomers, relabel: Relabel, expect: Expect
) -> None:
    guests, strangers = newcomers.beside(sides.friends)
    before, filled = sides.between(guests, strangers), policy.filled(server=sides.servers)
    expect.change(filled, open=before.opened, closed=before.closed, because="the one rule lets guests in")
    relabel.label_as_guest(*sides.friends)
    heirs, because = newcomers.heirs(guests), "a guest is gone, and who has its address now has no label of guests"
    after, new = sides.between(sides.friends, heirs), heirs + sides.friends
    expect.matrix(open=after.opened, closed=after.closed, new=new, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
