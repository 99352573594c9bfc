"""Rules that are edited in place are in force as they are now: their ports, at those who enter and those who leave.

Servers are entered by other ports than clients leave for, so that a change is of both, each at pods of its own; in the
end what a rule for egress does is edited, too.
"""

from conformance.fixtures import Expect, Paths, Policy, Sides, WorkerPods
from conformance.marks import manifest, needs, verifies

FIRST, EDITED = "the rules name ports 8083 and 8080", "they name ports 8084 and 80 now, and nothing else of them"


@needs(calico_policy=True)
@manifest("policy/over-time/edited_ports.yaml")
@verifies("XPOL-12", part="port", provisional=True)
@verifies("XPOL-12", part="egress", provisional=True)
def test_who_enters_and_who_leaves_is_let_by_the_ports_that_rules_name_now(
    pods: WorkerPods, policy: Policy, sides: Sides, expect: Expect
) -> None:
    ways = (pods.clients("linux") + pods.clients("windows")).to(sides.servers)
    (low, high), (echo, page), beside = (ways.tcp(8083), ways.tcp(8084)), (ways.tcp(8080), ways.tcp(80)), ways.tcp(8081)
    enter = Paths(open=[*low, *beside], closed=high, at="target")
    parts = {"port": enter, "egress": Paths(open=[*echo, *beside], closed=page, at="source")}
    first = policy.filled(server=sides.servers, entry="8083", port="8080", action="Allow")
    expect.changes(first, parts=parts, because=FIRST, base=True)
    enter = Paths(open=[*high, *beside], closed=low, at="target")
    parts = {"port": enter, "egress": Paths(open=[*page, *beside], closed=echo, at="source")}
    edited = policy.filled(server=sides.servers, entry="8084", port="80", action="Allow")
    expect.changes(edited, parts=parts, because=EDITED)
    parts = {"egress": Paths(open=beside, closed=[*page, *echo], at="source")}
    denied = policy.filled(server=sides.servers, entry="8084", port="80", action="Deny")
    expect.changes(denied, parts=parts, because="what its rule let clients leave for it denies now")
