# SPDX-License-Identifier: Apache-2.0
"""Rules for addresses that are edited in place are in force with their new addresses, for ingress
and egress.

Servers listen on one port and connect to another port, so that a change affects both directions,
each direction at different pods.
"""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

IN = "calico: edited networks of a rule"
OUT = "calico: edited networks of an egress rule"
NAMED = "the rule names these addresses"
NOT_NAMED = "the rule does not name these addresses"
NOW = "the rule now names these addresses"
NO_MORE = "the rule no longer names these addresses"
FREE = "clients may connect to each other, and to others on port 8080 and by UDP"


@needs(calico_policy=True)
@manifest("policy/over-time/edited_nets.yaml")
@verifies("POL-1", part=IN, provisional=True)
@verifies("POL-1", part=OUT, provisional=True)
def test_who_is_in_a_rules_networks_now_enters_or_is_let_to_and_who_was_is_no_more(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    client = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    clients = pods.clients("linux") + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    both = linux + windows
    expect.base(
        policy.filled(friend=client, server=linux),
        Case(client, both, tcp=8080, udp=8080, open=True, part=IN, at="target", because=NAMED),
        Case(others, both, tcp=8080, udp=8080, open=False, part=IN, at="target", because=NOT_NAMED),
        Case(others, client, tcp=8080, udp=8080, open=True, part=IN, at="target", because=FREE),
        Case(clients, linux, tcp=8082, open=True, part=OUT, at="source", because=NAMED),
        Case(clients, windows, tcp=8082, open=False, part=OUT, at="source", because=NOT_NAMED),
    )
    expect.change(
        policy.filled(friend=others, server=windows),
        Case(others, both, tcp=8080, udp=8080, open=True, part=IN, at="target", because=NOW),
        Case(client, both, tcp=8080, udp=8080, open=False, part=IN, at="target", because=NO_MORE),
        Case(client, others, tcp=8080, udp=8080, open=True, part=IN, at="target", because=FREE),
        Case(clients, windows, tcp=8082, open=True, part=OUT, at="source", because=NOW),
        Case(clients, linux, tcp=8082, open=False, part=OUT, at="source", because=NO_MORE),
    )
