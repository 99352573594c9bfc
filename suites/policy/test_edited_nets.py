"""Rules for addresses that are edited in place are in force as they are now: who enters, and where who leaves may go.

Servers are entered by one port and left for by another, so that a change is of both, each at pods of its own.
"""

from conformance.fixtures import Expect, Paths, Policy, Sides, WorkerPods
from conformance.marks import manifest, needs, verifies

IN = "calico: edited networks of a rule"
OUT = "calico: edited networks of an egress rule"
NAMED = "the rules name the addresses of the Linux pods"
NOW = "they name those of the Windows pods now"


@needs(calico_policy=True)
@manifest("policy/over-time/edited_nets.yaml")
@verifies("POL-1", part=IN, provisional=True)
@verifies("POL-1", part=OUT, provisional=True)
def test_who_is_in_a_rules_networks_now_enters_or_is_let_to_and_who_was_is_no_more(
    pods: WorkerPods, policy: Policy, sides: Sides, expect: Expect
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    other = sides.between(sides.strangers, sides.friends)
    linux = clients.to(sides.at("linux")).tcp(8082)
    windows = clients.to(sides.at("windows")).tcp(8082)
    enter = Paths(open=sides.opened, closed=sides.closed, at="target")
    parts = {IN: enter, OUT: Paths(open=linux, closed=windows, at="source")}
    expect.changes(
        policy.filled(friend=sides.friends, server=sides.at("linux")),
        parts=parts,
        because=NAMED,
        base=True,
    )
    enter = Paths(open=other.opened, closed=other.closed, at="target")
    parts = {IN: enter, OUT: Paths(open=windows, closed=linux, at="source")}
    expect.changes(
        policy.filled(friend=sides.strangers, server=sides.at("windows")), parts=parts, because=NOW
    )
