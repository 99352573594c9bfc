"""A rule with thousands of addresses is enforced, wherever among them one stands; HNS takes 4,000 in one of its own."""

import pytest

from conformance.fixtures import Expect, Policy, Sides
from conformance.marks import manifest, verifies

SIZE = 4_500


@pytest.mark.parametrize("place", [4_000, 4_001, SIZE])
@manifest("policy/limits/network_set.yaml")
@verifies("XPOL-10", part="address {place} of 4500", alone_on="windows")
def test_one_of_thousands_enters_and_others_do_not(
    place: int, policy: Policy, sides: Sides, expect: Expect, own_nodes: tuple[str, ...]
) -> None:
    here, because = sides.on(own_nodes, "windows"), "the client's address is one of the set's, and the others' is none"
    expect.change(policy.filled(member=here.crowd(place, SIZE)), open=here.opened, closed=here.closed, because=because)
