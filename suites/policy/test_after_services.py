# SPDX-License-Identifier: Apache-2.0
"""A denial does not depend on Services, nor on labels that no policy selects.

The denial stays in force after pods, namespaces, accounts and policies get labels, and after
unrelated objects are created. It also stays in force after Services in front of the denied pods are
created, changed and deleted.
"""

from conformance.fixtures import (
    Case,
    Expect,
    PassingServices,
    Policy,
    RelabelNamespaces,
    WorkerPods,
)
from conformance.marks import about, manifest, needs, verifies

IN = "one rule lets this client in, whatever other labels and Services there are"
NOT_IN = "no rule lets these clients in, whatever other labels and Services there are"
OUT = "one rule lets the servers out to this client"
NOT_OUT = "no rule lets the servers out to these clients"
NOT_SELECTED = "no policy selects this client"
CAME = "a Service was created, and its backends let this client in"
MOVED = "the Service has other backends and another type, and its backends let this client in"
BACKENDS = "the one rule names the Service, and these are its backends"
NO_BACKENDS = "the one rule names the Service, and these are not its backends"


@about("clusterip")
@manifest("policy/over-time/only_the_friend.yaml")
@verifies(
    "POL-1", part="after an event: labels that no policy selects, and Services", provisional=True
)
def test_who_is_kept_out_stays_out_whatever_pods_are_called_and_services_do(
    pods: WorkerPods,
    policy: Policy,
    relabel_namespaces: RelabelNamespaces,
    passing_services: PassingServices,
    expect: Expect,
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    servers = linux + windows
    allowed = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    elsewhere = pods.elsewhere("linux")
    cases = [
        Case(allowed, servers, tcp=8080, udp=8080, open=True, because=IN),
        Case(allowed, servers, tcp=8081, udp=8081, open=True, because=IN),
        Case(others, servers, tcp=8080, udp=8080, open=False, because=NOT_IN),
        Case(elsewhere, servers, tcp=8081, udp=8081, open=False, because=NOT_IN),
        Case(servers, allowed, tcp=8080, udp=8080, open=True, because=OUT),
        Case(servers, others + elsewhere, tcp=8080, udp=8080, open=False, because=NOT_OUT),
        Case(others + elsewhere, allowed, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    ]
    expect.base(policy.filled(server=servers, friend=allowed), *cases)
    relabel_namespaces.add_irrelevant_labels(*servers, *others, *elsewhere, after=policy.stir)
    expect.matrix(*cases, lasts=False)
    came = passing_services.come(linux, windows)
    expect.matrix(*cases, Case(allowed, came, open=True, because=CAME), lasts=False)
    moved = passing_services.come(windows, linux, at_nodes=True)
    expect.matrix(*cases, Case(allowed, moved, open=True, because=MOVED), lasts=False)
    passing_services.remove()
    expect.matrix(*cases)


@about("clusterip")
@needs(calico_policy=True)
@manifest("policy/limits/egress_to_a_service.yaml")
@verifies("XPOL-7", part="backends that change", provisional=True)
def test_who_may_leave_for_a_service_reaches_its_backends_of_now_and_those_of_before_no_more(
    pods: WorkerPods, policy: Policy, passing_services: PassingServices, expect: Expect
) -> None:
    clients = pods.clients("linux").one_per_os() + pods.clients("windows")
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    passing_services.come(linux)
    expect.base(
        policy.filled(service="passing-1"),
        Case(clients, linux, tcp=8080, open=True, because=BACKENDS),
        Case(clients, windows, tcp=8080, open=False, because=NO_BACKENDS),
    )
    passing_services.come(windows)
    expect.matrix(
        Case(clients, windows, tcp=8080, open=True, because=BACKENDS),
        Case(clients, linux, tcp=8080, open=False, because=NO_BACKENDS),
    )
