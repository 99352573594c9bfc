"""A policy is about whoever has the labels that it selects, each pod for itself: who comes in the place of another, who
has the address of one that went, and all pods of a node when the policy goes.
"""

from conformance.fixtures import Expect, Newcomers, Policy, Relabel, Sides, WorkerPods
from conformance.marks import manifest, needs, verifies

ALONE = "one rule lets the friend in, to both pods of each node, and one lets these out to it"
# They come by TCP alone: Linux keeps a guest's datagrams for two minutes, and takes those of its heir for them.
GUESTS = "the one rule lets guests in"
PLACE = "who comes in a selected pod's place has the labels that are selected"


@needs(calico_policy=True)
@manifest("policy/over-time/in_and_out.yaml", otherwise="policy/over-time/only_the_friend.yaml")
@verifies(
    "POL-1",
    part="after an event: pods that are replaced, and the end of their policy",
    provisional=True,
)
def test_who_takes_a_selected_pods_place_is_closed_and_all_are_open_when_the_policy_goes(
    pods: WorkerPods, policy: Policy, sides: Sides, newcomers: Newcomers, expect: Expect
) -> None:
    came = newcomers.twins(sides.servers + pods.clients("linux") + pods.clients("windows"))
    both = sides.joined_by(came.playing("server"))
    filled = policy.filled(server=sides.servers, friend=sides.friends)
    expect.base(filled, open=both.open_both_ways, closed=both.closed_both_ways, because=ALONE)
    new = newcomers.replaced(came)
    both = sides.joined_by(new.playing("server"))
    through = new.playing("client").to(sides.strangers).tcp_and_udp(8080)
    opened = [*both.open_both_ways, *through]
    closed = both.closed_both_ways
    expect.matrix(open=opened, closed=closed, new=new, gone=came, because=PLACE)
    expect.removed(policy, because="without a policy both pods of each node are open to everybody")


@manifest("policy/over-time/only_guests.yaml")
@verifies(
    "POL-1",
    part="after an event: a member that goes",
    provisional=True,
    applies={"ipam": ["calico-ipam"]},
)
def test_who_gets_the_address_of_a_member_that_went_is_none(
    policy: Policy, sides: Sides, newcomers: Newcomers, relabel: Relabel, expect: Expect
) -> None:
    guests, strangers = newcomers.beside(sides.friends)
    here = sides.between(guests, strangers)
    way = guests.to(sides.servers).tcp(8080)
    expect.base(
        policy.filled(server=sides.servers),
        open=[*way, *here.beside],
        closed=here.closed,
        because=GUESTS,
    )
    relabel.label_as_guest(*sides.friends)
    heirs = newcomers.heirs(guests)
    because = "a guest is gone, and who has its address now has no label of guests"
    after = sides.between(sides.friends, heirs)
    new = heirs + sides.friends
    expect.matrix(open=after.opened, closed=after.closed, new=new, because=because)
    expect.removed(policy, because="without a policy everything is allowed")
