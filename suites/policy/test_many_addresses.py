# SPDX-License-Identifier: Apache-2.0
"""Rules with thousands of addresses are enforced for each address; an HNS rule holds 4,000.

Three rules share a change, each for a set and a port of its own. The client is the 4,000th address
of the first set, the first address of the second set that does not fit into one HNS rule, and the
last address of the third set.
"""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, verifies

SIZE = 4_500
FULL = f"address 4000 of {SIZE}"
NEXT = f"address 4001 of {SIZE}"
LAST = f"address {SIZE} of {SIZE}"
IN_THE_SET = "the set in this port's rule contains the client's address"
NOT_IN_THE_SET = "the set in this port's rule contains no address of these clients"


@manifest("policy/limits/network_set.yaml")
@verifies("XPOL-10", part=FULL, alone_on="windows")
@verifies("XPOL-10", part=NEXT, alone_on="windows")
@verifies("XPOL-10", part=LAST, alone_on="windows")
def test_one_of_thousands_enters_and_others_do_not(
    pods: WorkerPods, policy: Policy, expect: Expect, own_nodes: tuple[str, ...]
) -> None:
    servers = pods.servers("windows").at(*own_nodes)
    client = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    full = client.in_crowd(4_000, SIZE)
    following = client.in_crowd(4_001, SIZE)
    last = client.in_crowd(SIZE, SIZE)
    expect.change(
        policy.filled(first=full, second=following, third=last),
        Case(client, servers, tcp=8080, open=True, part=FULL, because=IN_THE_SET),
        Case(others, servers, tcp=8080, open=False, part=FULL, because=NOT_IN_THE_SET),
        Case(client, servers, tcp=8083, open=True, part=NEXT, because=IN_THE_SET),
        Case(others, servers, tcp=8083, open=False, part=NEXT, because=NOT_IN_THE_SET),
        Case(client, servers, tcp=8084, open=True, part=LAST, because=IN_THE_SET),
        Case(others, servers, tcp=8084, open=False, part=LAST, because=NOT_IN_THE_SET),
        Case(others, client, tcp=8080, udp=8080, open=True, because="no policy selects clients"),
    )
