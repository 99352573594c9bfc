# SPDX-License-Identifier: Apache-2.0
"""A policy can name its servers in a rule, or select them itself. Both forms admit the same
clients, but on Windows the rule needs far more resources."""

from conformance.fixtures import AclLists, Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, verifies

NOBODY = "app == 'nobody'"
ALL = "all()"
SERVERS = "app == 'windows-server'"
IN = "in both forms the policy allows this client to reach the servers"
NOT_IN = "in both forms the policy allows no other client to reach the servers"
SELECTED = "the policy selects all pods of its namespace, and its rule allows only the servers"
NOT_SELECTED = "the policy selects only the servers"
ELSEWHERE = "no policy selects pods of another namespace"
COST = "Felix programs a policy only for the pods that it selects, but each of them gets all addresses of a rule's destination"


@manifest("policy/limits/destination_selector.yaml")
@verifies("PERF-2")
def test_servers_in_the_policys_own_selector_cost_windows_fewer_rules(
    pods: WorkerPods, policy: Policy, acl_lists: AclLists, expect: Expect
) -> None:
    servers = pods.servers("windows")
    allowed = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    elsewhere = pods.elsewhere("linux").one_per_os()
    expect.change(
        policy.filled(rule=ALL, selector=NOBODY),
        Case(allowed, servers, tcp=8080, open=True, because=IN),
        Case(others, servers, tcp=8080, open=False, because=NOT_IN),
        Case(allowed, others, tcp=8080, open=False, because=SELECTED),
        Case(others, elsewhere, tcp=8080, open=True, because=ELSEWHERE),
    )
    acl_lists.remember(*servers, *others)
    expect.change(
        policy.filled(rule=NOBODY, selector=SERVERS),
        Case(allowed, servers, tcp=8080, open=True, because=IN),
        Case(others, servers, tcp=8080, open=False, because=NOT_IN),
        Case(allowed, others, tcp=8080, open=True, because=NOT_SELECTED),
        Case(others, elsewhere, tcp=8080, open=True, because=ELSEWHERE),
    )
    acl_lists.shorter(because=COST)
