"""Rules that are edited in place are in force as they are now: their ports, at those who enter and those who leave.

Servers are entered by other ports than pods leave for, so that a change is of both; in the end what a rule for egress
does is edited, too.  It is for clients and servers, so that of several pods of a node none keeps what it had before.
"""

from conformance.fixtures import Expect, Paths, Policy, Sides, WorkerPods
from conformance.marks import manifest, needs, verifies

PORT = "port"
EGRESS = "egress"
FIRST = {"entry": "8083", "port": "8080", "action": "Allow"}
EDITED = {"entry": "8084", "port": "80", "action": "Allow"}
DENIED = {**EDITED, "action": "Deny"}
NAMED = "the rules name ports 8083 and 8080"
NOW = "they name ports 8084 and 80 now, and nothing else of them"
NO_MORE = "what its rule let clients leave for it denies now"


@needs(calico_policy=True)
@manifest("policy/over-time/edited_ports.yaml")
@verifies("XPOL-12", part=PORT, provisional=True)
@verifies("XPOL-12", part=EGRESS, provisional=True)
def test_who_enters_and_who_leaves_is_let_by_the_ports_that_rules_name_now(
    pods: WorkerPods, policy: Policy, sides: Sides, expect: Expect
) -> None:
    ways = (pods.clients("linux") + pods.clients("windows") + sides.servers).to(sides.servers)
    low = ways.tcp_and_udp(8083)
    high = ways.tcp_and_udp(8084)
    echo = ways.tcp(8080)
    page = ways.tcp(80)
    parts = {
        PORT: Paths(open=low, closed=high, at="target"),
        EGRESS: Paths(open=echo, closed=page, at="source"),
    }
    expect.changes(
        policy.filled(server=sides.servers, **FIRST), parts=parts, because=NAMED, base=True
    )
    parts = {
        PORT: Paths(open=high, closed=low, at="target"),
        EGRESS: Paths(open=page, closed=echo, at="source"),
    }
    expect.changes(policy.filled(server=sides.servers, **EDITED), parts=parts, because=NOW)
    parts = {EGRESS: Paths(open=high, closed=[*page, *echo], at="source")}
    expect.changes(policy.filled(server=sides.servers, **DENIED), parts=parts, because=NO_MORE)
