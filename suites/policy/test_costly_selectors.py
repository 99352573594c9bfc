"""Who may enter some pods can be said in a rule, or by whom a policy selects: on Windows the one costs far more."""

from conformance.fixtures import AclLists, Expect, Policy, Sides, WorkerPods
from conformance.marks import manifest, verifies

NOBODY = "app == 'nobody'"
ALL = "all()"
SERVERS = "app == 'windows-server'"
SAME = "either way the friend gets to the servers, and nobody else"
COST = "a policy is given to the pods that it selects, and a rule's destination to each of them with all addresses"


@manifest("policy/limits/destination_selector.yaml")
@verifies("PERF-2")
def test_servers_in_the_policys_own_selector_cost_windows_fewer_rules(
    pods: WorkerPods, policy: Policy, sides: Sides, acl_lists: AclLists, expect: Expect
) -> None:
    servers = sides.at("windows")
    strangers = sides.strangers
    friend = sides.friends
    opened = [
        *friend.to(servers).tcp(8080),
        *strangers.to(pods.elsewhere("linux").one_per_os()).tcp(8080),
    ]
    closed = strangers.to(servers).tcp(8080)
    others = friend.to(strangers).tcp(8080)
    by_rule = policy.filled(rule=ALL, selector=NOBODY)
    by_selector = policy.filled(rule=NOBODY, selector=SERVERS)
    expect.change(by_rule, open=opened, closed=[*closed, *others], because=SAME)
    acl_lists.remember(*servers, *strangers)
    expect.change(by_selector, open=[*opened, *others], closed=closed, because=SAME)
    acl_lists.shorter(because=COST)
