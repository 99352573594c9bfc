# SPDX-License-Identifier: Apache-2.0
"""A case names its paths, its reason and its part; a case that cannot be asked is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.errors import MissingCapability, UsageProblem
from conformance.expect.case import Case, Nodes, rows_of
from conformance.expect.context import Context, Sink
from conformance.expect.figures import PolicyChange
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Pair, Workload
from conformance.pods.groups import Group
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import target

NEAR = a_workload("near", node="linux-1")
FAR = a_workload("far", "windows", node="windows-1")
SERVER = a_workload("server", node="linux-1")
CLIENTS = Group([NEAR, FAR])
SERVICE = target("10.96.0.9")


def shown(pairs: list[Pair]) -> list[str]:
    return [f"{client.pod} {aim.host} {aim.port}/{aim.protocol}" for client, aim in pairs]


def test_each_client_is_asked_by_each_protocol_that_the_case_names() -> None:
    case = Case(CLIENTS, SERVER, tcp=80, udp=53, open=True, because="nothing closes it")
    at = SERVER.address
    assert shown(case.pairs) == [
        f"near {at} 80/tcp",
        f"far {at} 80/tcp",
        f"near {at} 53/udp",
        f"far {at} 53/udp",
    ]


def test_a_pod_is_not_asked_whether_it_reaches_itself() -> None:
    assert Case(CLIENTS, [NEAR], tcp=80, open=True, because="it listens").pairs == [
        (FAR, NEAR.tcp(80))
    ]


def test_servers_may_be_asked_through_what_stands_before_them() -> None:
    case = Case(CLIENTS, SERVER, through=lambda pod: SERVICE, open=True, because="it is a backend")
    assert case.pairs == [(NEAR, SERVICE), (FAR, SERVICE)]
    assert Case(NEAR, [SERVICE], open=True, because="it has a backend").pairs == [(NEAR, SERVICE)]


@pytest.mark.parametrize(("on", "client"), [("same node", NEAR), ("other nodes", FAR)])
def test_clients_may_be_those_of_the_servers_own_node_or_of_others(
    on: Nodes, client: Workload
) -> None:
    case = Case(CLIENTS, [SERVER], tcp=80, open=True, because="it listens", on=on)
    assert case.pairs == [(client, SERVER.tcp(80))]


def test_a_case_without_a_port_or_a_reason_is_refused_by_its_name() -> None:
    with pytest.raises(
        UsageProblem, match=r"Case\(ns/near .* open=True\): for pods, name tcp=, udp= or through="
    ):
        Case(NEAR, SERVER, open=True, because="it listens")
    with pytest.raises(UsageProblem, match=r"open=False\): give the reason"):
        Case(NEAR, SERVER, tcp=80, open=False, because="")
    with pytest.raises(UsageProblem, match="for targets with a port, name none of them"):
        Case(NEAR, SERVICE, tcp=80, open=True, because="it has a backend")


EMPTY = Group()


@pytest.mark.parametrize(
    ("clients", "servers", "row"),
    [
        (EMPTY, SERVER, r"Case\(nobody -> ns/server .* open=False\)"),
        (CLIENTS, EMPTY, r"Case\(ns/far .*, ns/near .* -> nobody, open=False\)"),
        (CLIENTS, [], r"Case\(ns/far .*, ns/near .* -> nobody, open=False\)"),
    ],
)
def test_a_case_of_an_empty_group_is_refused(clients: Group, servers: Group, row: str) -> None:
    with pytest.raises(
        UsageProblem, match=f"{row}: it has no path, since one of its groups is empty"
    ):
        Case(clients, servers, tcp=80, open=False, because="no rule admits it")


def test_a_case_may_be_without_a_server_where_it_says_so() -> None:
    outside = Case(CLIENTS, [], optional=True, open=False, because="no rule lets it out")
    inside = Case(CLIENTS, SERVER, tcp=80, open=False, because="no rule admits it")
    assert (outside.pairs, list(rows_of([outside, inside]))) == ([], inside.pairs)
    with pytest.raises(UsageProblem, match="has no path: name a case that has a path"):
        rows_of([outside])
    with pytest.raises(UsageProblem, match="one of its groups is empty"):
        Case(EMPTY, [], optional=True, open=False, because="no rule lets it out")


@pytest.mark.parametrize(
    ("on", "needs"),
    [
        ("any nodes", "the test needs two pods, but has only: "),
        ("same node", "the test needs a pair of pods on one node, but has only: "),
        ("other nodes", "the test needs a pair of pods on two nodes, but has only: "),
    ],
)
def test_nodes_that_lack_are_the_clusters_and_not_the_authors_matter(on: Nodes, needs: str) -> None:
    case = Case(NEAR, NEAR, tcp=80, on=on, open=True, because="it listens")
    with pytest.raises(MissingCapability, match=f"^{needs}client on linux-1; cover more nodes"):
        _ = case.pairs


def test_pods_may_be_asked_whether_they_reach_themselves() -> None:
    case = Case(CLIENTS, CLIENTS, on="itself", tcp=80, open=True, because="it is its own")
    assert case.pairs == [(NEAR, NEAR.tcp(80)), (FAR, FAR.tcp(80))]
    with pytest.raises(UsageProblem, match="no pod is in both groups"):
        _ = replace(case, servers=SERVER).pairs


def test_two_cases_that_contradict_each_other_are_refused_with_both_reasons() -> None:
    opened = Case(CLIENTS, SERVER, tcp=80, open=True, because="a rule admits all")
    assert list(rows_of([opened, replace(opened, clients=NEAR)])) == opened.pairs
    with pytest.raises(UsageProblem, match="'a rule admits all' and 'no rule admits it'"):
        rows_of([opened, replace(opened, clients=NEAR, open=False, because="no rule admits it")])


def test_what_is_decided_of_a_case_with_a_part_is_decided_of_that_part_of_each_claim() -> None:
    kept: list[Decision] = []
    change = PolicyChange(what="NetworkPolicy", at=0.0, enforced_at="both")
    context = Context(
        claims=("POL-1", "XPOL-15"), sink=Sink(kept), world=StandInWorld(change=lambda: change)
    )
    case = Case(FAR, SERVER, tcp=80, open=True, because="x", part="linux server", at="target")
    case.of_part(context).decided(FAR, SERVER, ClaimVerdict.CONFIRMED, "so it is")
    assert [(one.claim, one.part) for one in kept] == [
        ("POL-1", "linux server"),
        ("XPOL-15", "linux server"),
    ]
    assert {one.enforced for one in kept} == {("linux-1",)}
