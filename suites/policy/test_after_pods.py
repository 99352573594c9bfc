# SPDX-License-Identifier: Apache-2.0
"""A policy applies to every pod with the labels that it selects: to a pod that replaces another, to
a pod with the address of a deleted pod, and to all pods of a node when the policy is deleted."""

from conformance.fixtures import Case, Expect, Newcomers, Policy, Relabel, WorkerPods
from conformance.marks import manifest, needs, verifies

IN = "one rule lets this client in to the servers, which are all pods with the servers' label"
NOT_IN = "no rule lets these clients in"
OUT = "one rule lets the servers out to this client"
NOT_OUT = "no rule lets the servers out to these clients"
NOT_SELECTED = "no policy selects these clients"
# TCP alone: Linux remembers a guest's UDP flow for two minutes. The remembered flow would let
# datagrams of the next pod with this address pass.
GUESTS = "the one rule lets guests in"
NO_GUESTS = "these pods do not have the label of guests"
HEIRS = (
    "a guest was deleted, and the pod that now has its address does not have the label of guests"
)


@needs(calico_policy=True)
@manifest("policy/over-time/in_and_out.yaml", otherwise="policy/over-time/only_the_friend.yaml")
@verifies(
    "POL-1",
    part="after an event: pods that are replaced, and the end of their policy",
    provisional=True,
)
def test_who_takes_a_selected_pods_place_is_closed_and_all_are_open_when_the_policy_goes(
    pods: WorkerPods, policy: Policy, newcomers: Newcomers, expect: Expect
) -> None:
    servers = pods.servers("linux") + pods.servers("windows")
    allowed = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    came = newcomers.twins(servers + pods.clients("linux") + pods.clients("windows"))
    twins = servers + came.playing("server")
    expect.base(
        policy.filled(server=servers, friend=allowed),
        Case(allowed, twins, tcp=8080, udp=8080, open=True, because=IN),
        Case(others, twins, tcp=8080, udp=8080, open=False, because=NOT_IN),
        Case(twins, allowed, tcp=8080, udp=8080, open=True, because=OUT),
        Case(twins, others, tcp=8080, udp=8080, open=False, because=NOT_OUT),
        Case(others, allowed, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    )
    new = newcomers.replaced(came)
    clients = new.playing("client")
    twins = servers + new.playing("server")
    expect.matrix(
        Case(allowed, twins, tcp=8080, udp=8080, open=True, because=IN),
        Case(others, twins, tcp=8080, udp=8080, open=False, because=NOT_IN),
        Case(twins, allowed, tcp=8080, udp=8080, open=True, because=OUT),
        Case(twins, others, tcp=8080, udp=8080, open=False, because=NOT_OUT),
        Case(others, allowed, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
        Case(clients, others, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
        new=new,
        gone=came,
    )
    expect.removed(policy, because="without a policy, both pods of each node are open to everybody")


@manifest("policy/over-time/only_guests.yaml")
@verifies(
    "POL-1",
    part="after an event: a member that goes",
    provisional=True,
    applies={"ipam": ["calico-ipam"]},
)
def test_who_gets_the_address_of_a_member_that_went_is_none(
    pods: WorkerPods, policy: Policy, newcomers: Newcomers, relabel: Relabel, expect: Expect
) -> None:
    servers = pods.servers("linux") + pods.servers("windows")
    client = pods.clients("linux").one_per_os()
    guests, others = newcomers.beside(client)
    expect.base(
        policy.filled(server=servers),
        Case(guests, servers, tcp=8080, open=True, because=GUESTS),
        Case(others, servers, tcp=8080, udp=8080, open=False, because=NO_GUESTS),
        Case(others, guests, tcp=8080, udp=8080, open=True, because="no policy selects guests"),
    )
    relabel.label_as_guest(*client)
    heirs = newcomers.heirs(guests)
    expect.matrix(
        Case(client, servers, tcp=8080, udp=8080, open=True, because=GUESTS),
        Case(heirs, servers, tcp=8080, udp=8080, open=False, because=HEIRS),
        Case(heirs, client, tcp=8080, udp=8080, open=True, because="no policy selects guests"),
        new=heirs + client,
    )
    expect.removed(policy, because="without a policy everything is allowed")
