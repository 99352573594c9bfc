"""Who may enter some pods can be said in a rule, or by whom a policy selects: on Windows the one costs far more."""

from conformance.fixtures import AclLists, Expect, Policy, WorkerPods
from conformance.marks import manifest, verifies

NOBODY, EVERYBODY = "app == 'nobody'", "all()"
SAME = "either way the friend gets to the servers, and nobody else"
COST = "a policy is given to the pods that it selects, and a rule's destination to each of them with all addresses"


@manifest("policy/limits/destination_selector.yaml")
@verifies("PERF-2")
def test_servers_in_the_policys_own_selector_cost_windows_fewer_rules(
    pods: WorkerPods, policy: Policy, acl_lists: AclLists, expect: Expect
) -> None:
    servers, strangers, friend = pods.servers("windows"), pods.clients("windows"), pods.clients("linux").one_per_os()
    nobody = {"server": servers, "friend": friend, "in_the_selector": NOBODY, "in_the_rule": NOBODY}
    opened = [*friend.to(servers).tcp(8080), *strangers.to(pods.elsewhere("linux").one_per_os()).tcp(8080)]
    closed, others = strangers.to(servers).tcp(8080), friend.to(strangers).tcp(8080)
    in_the_rule = policy.filled(**{**nobody, "in_the_rule": EVERYBODY})
    in_the_selector = policy.filled(**{**nobody, "in_the_selector": f"app == '{servers.first.role}'"})
    expect.change(in_the_rule, open=opened, closed=[*closed, *others], because=SAME)
    acl_lists.remember(*servers, *strangers)
    expect.change(in_the_selector, open=[*opened, *others], closed=closed, because=SAME)
    acl_lists.shorter(because=COST)
