# SPDX-License-Identifier: Apache-2.0
"""Policies that select the same pod add up, whatever their API: traffic that at least one policy
admits gets in, and no other traffic.

A policy without a list of directions, and without a rule for egress, leaves egress alone. Two
policies with the same name in two namespaces are independent.
"""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import either_policy_api, manifest, needs, verifies

LINUX = "linux server"
WINDOWS = "windows server"
ONE = "one of the two policies admits these pods"
NONE = "neither of the two policies admits these pods"
GONE = "the policy that admitted these pods is gone, and the other policy does not admit them"
LEFT = "the policy that admits these pods remains"
NOW = "one of the two policies was edited and now admits these pods"
NO_MORE = "both policies were edited, and neither admits these pods any longer"
SENT = "no policy applies to traffic from the servers"
OWN = "the policy of this namespace admits these pods"
OF_THE_OTHER = (
    "the policy with the same name in the other namespace admits these pods, and this namespace's "
    "policy does not"
)
NOT_SELECTED = "no policy selects clients of this namespace"
REMOVED = "without a policy everything is allowed"


@either_policy_api("ingress_by_two_policies")
@verifies("POL-1", part="{policy}: several policies, linux server")
@verifies("POL-1", part="{policy}: several policies, windows server")
def test_whom_one_of_two_policies_admits_enters_for_as_long_as_it_is_there(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_clients = pods.clients("linux")
    windows_clients = pods.clients("windows")
    clients = linux_clients + windows_clients
    expect.change(
        policy.filled(server=linux, friend=linux_clients, other_friend=windows_clients),
        policy.filled(server=windows, friend=windows_clients, other_friend=linux_clients),
        Case(clients, linux, tcp=8080, open=True, part=LINUX, because=ONE),
        Case(windows, linux, tcp=8080, open=False, part=LINUX, because=NONE),
        Case(clients, windows, tcp=8080, open=True, part=WINDOWS, because=ONE),
        Case(linux, windows, tcp=8080, open=False, part=WINDOWS, because=NONE),
        Case(linux + windows, clients, tcp=8080, open=True, because=SENT),
    )
    expect.change(
        policy.without("other-friends-enter-linux-server"),
        policy.without("other-friends-enter-windows-server"),
        Case(linux_clients, linux, tcp=8080, open=True, part=LINUX, because=LEFT),
        Case(windows_clients, linux, tcp=8080, open=False, part=LINUX, because=GONE),
        Case(windows, linux, tcp=8080, open=False, part=LINUX, because=NONE),
        Case(windows_clients, windows, tcp=8080, open=True, part=WINDOWS, because=LEFT),
        Case(linux_clients, windows, tcp=8080, open=False, part=WINDOWS, because=GONE),
        Case(linux, windows, tcp=8080, open=False, part=WINDOWS, because=NONE),
        Case(linux + windows, clients, tcp=8080, open=True, because=SENT),
    )
    expect.removed(policy, because=REMOVED)


@verifies("POL-1", part="kubernetes and calico: several policies, linux server")
@verifies("POL-1", part="kubernetes and calico: several policies, windows server")
@manifest("policy/several/of_both_apis.yaml")
@needs(calico_policy=True)
def test_whom_a_policy_of_either_api_admits_enters_once_it_is_edited_and_the_other_goes_too(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_clients = pods.clients("linux")
    windows_clients = pods.clients("windows")
    clients = linux_clients + windows_clients
    expect.base(
        policy.filled(server=linux, friend=linux_clients, other_friend=windows_clients),
        policy.filled(server=windows, friend=windows_clients, other_friend=linux_clients),
        Case(clients, linux, tcp=8080, open=True, part=LINUX, because=ONE),
        Case(windows, linux, tcp=8080, open=False, part=LINUX, because=NONE),
        Case(clients, windows, tcp=8080, open=True, part=WINDOWS, because=ONE),
        Case(linux, windows, tcp=8080, open=False, part=WINDOWS, because=NONE),
        Case(linux + windows, clients, tcp=8080, open=True, because=SENT),
    )
    expect.change(
        policy.filled(server=linux, friend=windows, other_friend=linux_clients),
        policy.filled(server=windows, friend=linux, other_friend=windows_clients),
        Case(linux_clients + windows, linux, tcp=8080, open=True, part=LINUX, because=NOW),
        Case(windows_clients, linux, tcp=8080, open=False, part=LINUX, because=NO_MORE),
        Case(windows_clients + linux, windows, tcp=8080, open=True, part=WINDOWS, because=NOW),
        Case(linux_clients, windows, tcp=8080, open=False, part=WINDOWS, because=NO_MORE),
        Case(linux + windows, clients, tcp=8080, open=True, because=SENT),
    )
    expect.change(
        policy.without("friends-enter-linux-server"),
        policy.without("friends-enter-windows-server"),
        Case(linux_clients, linux, tcp=8080, open=True, part=LINUX, because=LEFT),
        Case(windows, linux, tcp=8080, open=False, part=LINUX, because=GONE),
        Case(windows_clients, linux, tcp=8080, open=False, part=LINUX, because=NO_MORE),
        Case(windows_clients, windows, tcp=8080, open=True, part=WINDOWS, because=LEFT),
        Case(linux, windows, tcp=8080, open=False, part=WINDOWS, because=GONE),
        Case(linux_clients, windows, tcp=8080, open=False, part=WINDOWS, because=NO_MORE),
        Case(linux + windows, clients, tcp=8080, open=True, because=SENT),
    )


@verifies("POL-1", part="kubernetes: one name in two namespaces, linux server")
@verifies("POL-1", part="kubernetes: one name in two namespaces, windows server")
@manifest("policy/several/of_one_name.yaml")
def test_a_policy_holds_beside_one_of_its_name_in_another_namespace(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    linux_here = pods.clients("linux")
    windows_here = pods.clients("windows")
    linux_there = pods.elsewhere("linux")
    windows_there = pods.elsewhere("windows")
    there = pods.namespace_elsewhere
    linux_sources = linux_here + windows_there
    windows_sources = windows_here + linux_there
    expect.change(
        policy.filled(system="linux", server=linux, friend=linux_here),
        policy.filled(system="linux", into=there, server=linux_there, friend=windows_there),
        policy.filled(system="windows", server=windows, friend=windows_here),
        policy.filled(system="windows", into=there, server=windows_there, friend=linux_there),
        Case(linux_here, linux, tcp=8080, open=True, part=LINUX, because=OWN),
        Case(windows_there, linux, tcp=8080, open=False, part=LINUX, because=OF_THE_OTHER),
        Case(windows_there, linux_there, tcp=8080, open=True, part=LINUX, because=OWN),
        Case(linux_here, linux_there, tcp=8080, open=False, part=LINUX, because=OF_THE_OTHER),
        Case(linux_sources, windows_here, tcp=8080, open=True, part=LINUX, because=NOT_SELECTED),
        Case(windows_here, windows, tcp=8080, open=True, part=WINDOWS, because=OWN),
        Case(linux_there, windows, tcp=8080, open=False, part=WINDOWS, because=OF_THE_OTHER),
        Case(linux_there, windows_there, tcp=8080, open=True, part=WINDOWS, because=OWN),
        Case(windows_here, windows_there, tcp=8080, open=False, part=WINDOWS, because=OF_THE_OTHER),
        Case(windows_sources, linux_here, tcp=8080, open=True, part=WINDOWS, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)
