# SPDX-License-Identifier: Apache-2.0
"""Rules select by labels that some pods lack. A missing label differs from every value. An account
belongs to the policy's own namespace. A port's name means, for each Linux pod, the pod's own port
number.

Each case has ports of its own on the same servers, so that all are tested under a single change.
"""

from conformance.fixtures import Case, Expect, Policy, Relabel, WorkerPods
from conformance.marks import about, manifest, needs, verifies

LACKING = "a label that some pods lack"
CALLED = "ingress by a port's name of two numbers, linux servers"
ACCOUNT = "accounts of one name in two namespaces"
NO_LABEL = "one rule opens 8081 to all but guests, and these pods do not have the label of guests"
GUESTS = "one rule opens 8081 to all but guests, and these pods have the label of guests"
NAMED = "one rule opens, in each pod, the port that has the rule's port name"
NOT_NAMED = "in this pod another port has the rule's port name, or the UDP port has no name"
OWN = "one rule opens 8082 to an account of the policy's namespace, which these pods have"
FOREIGN = "these pods have an account of that name in another namespace"
REMOVED = "without a policy everything is allowed"


@about("tcp", "udp")
@manifest("policy/members/all_but_guests.kubernetes.yaml")
@verifies("POL-1", part=f"kubernetes: {LACKING}", provisional=True)
@verifies("POL-1", part=f"kubernetes: {CALLED}", provisional=True)
def test_who_lacks_the_label_differs_from_who_has_it_and_a_name_is_each_pods_own_port(
    pods: WorkerPods, policy: Policy, relabel: Relabel, expect: Expect
) -> None:
    client = pods.clients("linux").one_per_os()
    guests = pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    clients = pods.clients("linux")
    linux = pods.servers("linux")
    relabel.label_as_guest(*guests)
    expect.change(
        policy,
        Case(client, servers, tcp=8081, udp=8081, open=True, part=LACKING, because=NO_LABEL),
        Case(guests, servers, tcp=8081, udp=8081, open=False, part=LACKING, because=GUESTS),
        Case(guests, clients, tcp=8080, open=True, part=CALLED, because=NAMED),
        Case(guests, linux, tcp=80, open=True, part=CALLED, because=NAMED),
        Case(guests, linux, tcp=8080, open=False, part=CALLED, because=NOT_NAMED),
        Case(guests, clients, udp=8080, open=False, part=CALLED, because=NOT_NAMED),
    )
    expect.removed(policy, because=REMOVED)


@about("tcp", "udp")
@needs(calico_policy=True)
@manifest("policy/members/all_but_guests.yaml")
@verifies("POL-1", part=f"calico: {LACKING}", provisional=True)
@verifies("POL-1", part=f"calico: {CALLED}", provisional=True)
@verifies("POL-1", part=f"calico: {ACCOUNT}", provisional=True)
def test_who_lacks_the_label_differs_by_calico_too_and_an_account_of_another_namespace_is_another(
    pods: WorkerPods, policy: Policy, relabel: Relabel, expect: Expect
) -> None:
    client = pods.clients("linux").one_per_os()
    guests = pods.clients("windows")
    elsewhere = pods.elsewhere("windows")
    both = guests + elsewhere
    servers = pods.servers("linux") + pods.servers("windows")
    clients = pods.clients("linux")
    linux = pods.servers("linux")
    relabel.label_as_guest(*guests)
    expect.change(
        policy,
        Case(client, servers, tcp=8081, udp=8081, open=True, part=LACKING, because=NO_LABEL),
        Case(guests, servers, tcp=8081, udp=8081, open=False, part=LACKING, because=GUESTS),
        Case(both, clients, tcp=8080, open=True, part=CALLED, because=NAMED),
        Case(guests, linux, tcp=80, open=True, part=CALLED, because=NAMED),
        Case(guests, linux, tcp=8080, open=False, part=CALLED, because=NOT_NAMED),
        Case(both, clients, udp=8080, open=False, part=CALLED, because=NOT_NAMED),
        Case(client, servers, tcp=8082, udp=8082, open=True, part=ACCOUNT, because=OWN),
        Case(elsewhere, servers, tcp=8082, udp=8082, open=False, part=ACCOUNT, because=FOREIGN),
    )
    expect.removed(policy, because=REMOVED)
