"""Rules with thousands of addresses are enforced, wherever among them one stands; HNS takes 4,000 in one of its own.

Three rules share a change, each for a set and a port of its own: the friend is the 4,000th of the first set, the first
that is one too many for a rule of HNS in the second, and the last in the third.
"""

from conformance.fixtures import Expect, Paths, Policy, Sides
from conformance.marks import manifest, verifies

SIZE = 4_500
FULL, NEXT, LAST = (f"address {place} of {SIZE}" for place in (4_000, 4_001, SIZE))


@manifest("policy/limits/network_set.yaml")
@verifies("XPOL-10", part=FULL, alone_on="windows")
@verifies("XPOL-10", part=NEXT, alone_on="windows")
@verifies("XPOL-10", part=LAST, alone_on="windows")
def test_one_of_thousands_enters_and_others_do_not(
    policy: Policy, sides: Sides, expect: Expect, own_nodes: tuple[str, ...]
) -> None:
    here = sides.on(own_nodes, "windows")
    because = "the client's address is one of the set's, and the others' is none"
    full = here.crowd(4_000, SIZE)
    following = here.crowd(4_001, SIZE)
    last = here.crowd(SIZE, SIZE)
    filled = policy.filled(first=full, second=following, third=last)
    first, second, third = map(here.friends.to(here.servers).tcp, (8080, 8083, 8084))
    theirs, others, rest = map(here.strangers.to(here.servers).tcp, (8080, 8083, 8084))
    parts = {
        FULL: Paths(open=[*first, *here.beside], closed=theirs),
        NEXT: Paths(open=second, closed=others),
    }
    expect.changes(filled, parts={**parts, LAST: Paths(open=third, closed=rest)}, because=because)
