# SPDX-License-Identifier: Apache-2.0
"""Policies that select the same pod add up: what any of them admits enters, and nobody else, whichever API they are of.

A policy that does not say which directions it is about, and has no rule for egress, leaves egress alone.  Two policies
of one name in two namespaces have nothing to do with each other.
"""

from conformance.fixtures import OS, Case, Expect, Policy, WorkerPods
from conformance.marks import each_os, either_policy_api, manifest, needs, other, verifies

LINUX = "linux server"
WINDOWS = "windows server"
ONE = "one of the two policies admits these pods"
NONE = "neither of the two policies admits these pods"
GONE = "the policy that admitted these pods is gone, and the other one does not admit them"
LEFT = "the policy that admits these pods is left"
NOW = "one of the two policies was edited and admits these pods now"
NO_MORE = "both policies were edited, and neither admits these pods any more"
SENT = "no policy is about what servers send"
OWN = "the policy of this namespace admits these pods"
OF_THE_OTHER = (
    "the policy of that name in the other namespace admits these pods, and this one does not"
)
NOT_SELECTED = "no policy selects these servers"
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


@each_os("server_os")
@verifies("POL-1", part="kubernetes: one name in two namespaces, {server_os} server")
@manifest("policy/several/of_one_name.yaml")
def test_a_policy_holds_beside_one_of_its_name_in_another_namespace(
    pods: WorkerPods, policy: Policy, expect: Expect, server_os: OS
) -> None:
    servers = pods.servers(server_os)
    clients = pods.clients(server_os)
    not_selected = pods.servers(other(server_os))
    servers_there = pods.elsewhere(server_os)
    clients_there = pods.elsewhere(other(server_os))
    both = clients + clients_there
    expect.change(
        policy.filled(server=servers, friend=clients),
        policy.filled(into=pods.namespace_elsewhere, server=servers_there, friend=clients_there),
        Case(clients, servers, tcp=8080, open=True, because=OWN),
        Case(clients_there, servers, tcp=8080, open=False, because=OF_THE_OTHER),
        Case(clients_there, servers_there, tcp=8080, open=True, because=OWN),
        Case(clients, servers_there, tcp=8080, open=False, because=OF_THE_OTHER),
        Case(both, not_selected, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.removed(policy, because=REMOVED)
