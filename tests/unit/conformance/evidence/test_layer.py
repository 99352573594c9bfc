# SPDX-License-Identifier: Apache-2.0
"""The evidence about a path leads to the layer that failed, with a row for each conclusion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.evidence.layer import End, PathEvidence, conclude
from conformance.evidence.path_reading import packet_at
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target
from conformance.model.explanation import UNKNOWN
from conformance.policy.acl_answer import Packet, answer
from conformance.policy.acl_list import HnsRule
from tests.unit.conformance.builders import a_workload

LACKS = "HNS lacks Allow In tcp of NetworkPolicy shop/web, ingress rule 1"
DEFECT = "XPOL-14, a staged policy denies"
SOUND = End(pod="a", node="win-1", promised="Block", held="Block")
OPEN = End(pod="a", node="win-1", promised="Allow", held="Allow")
UNREAD = replace(SOUND, held="", unread="HNS did not answer")

ROWS: dict[str, tuple[PathEvidence, str]] = {
    "leak: HNS lacks a rule and lets the packet through": (
        PathEvidence(should_be_open=False, ends=[replace(SOUND, held="Allow", difference=LACKS)]),
        f"{LACKS} on win-1: Felix did not program it",
    ),
    "leak: the list blocks the packet, as it should": (
        PathEvidence(should_be_open=False, ends=[SOUND], arrives=True),
        "the list of win-1 is as it should be and blocks the packet, yet the packet arrives: the "
        "fault is below HNS' list",
    ),
    "leak: the list blocks the packet, as it should, and the packet arrives no more": (
        PathEvidence(should_be_open=False, ends=[SOUND]),
        f"{UNKNOWN}: the list of win-1 is as it should be, and now blocks the packet, which "
        "no longer arrives; either Felix programmed the list late, or the fault is below the list",
    ),
    "leak: the list differs and blocks the packet all the same": (
        PathEvidence(should_be_open=False, ends=[replace(SOUND, difference=LACKS)]),
        f"{UNKNOWN}: the list of win-1 differs ({LACKS}), and now blocks the packet, which "
        "no longer arrives; either Felix programmed the list late, or the fault is below the list",
    ),
    "leak: the list differs, blocks the packet, and it arrives": (
        PathEvidence(should_be_open=False, ends=[replace(SOUND, difference=LACKS)], arrives=True),
        f"the list of win-1 differs ({LACKS}) and blocks the packet, yet the packet arrives: the "
        "fault is below HNS' list",
    ),
    "leak: the release renders rules that allow the packet": (
        PathEvidence(should_be_open=False, ends=[OPEN]),
        f"{UNKNOWN}: Felix' rules, or what is below them; the list of win-1 is as this release "
        "renders it: Allow for the packet",
    ),
    "leak: a known defect of the release opens the list": (
        PathEvidence(should_be_open=False, ends=[replace(OPEN, defects=DEFECT)]),
        f"the list of win-1 allows the packet because of a known defect of this release "
        f"({DEFECT}), with which Felix renders the policies",
    ),
    "leak: a list is not read": (
        PathEvidence(should_be_open=False, ends=[UNREAD]),
        f"{UNKNOWN}: Felix' rules, or what is below them; not read: the list of win-1: HNS did not "
        "answer",
    ),
    "leak: between Linux nodes": (
        PathEvidence(should_be_open=False, linux=["lin-1"]),
        f"{UNKNOWN}: Felix' rules, or what is below them; not read: the rules of Linux node lin-1",
    ),
    "closed: a backend is not ready": (
        PathEvidence(
            should_be_open=True, unready="pod web on win-1 is not Ready since T", overlay="no route"
        ),
        "pod web on win-1 is not Ready since T: the backend is at fault, not the network",
    ),
    "closed: a route is missing": (
        PathEvidence(should_be_open=True, ends=[OPEN], overlay="route of node a: no route"),
        "route of node a: no route: the routes between nodes",
    ),
    "closed: HNS has a rule that blocks the packet": (
        PathEvidence(
            should_be_open=True, ends=[replace(OPEN, held="Block", difference="HNS has Block")]
        ),
        "HNS has Block on win-1: Felix did not program it",
    ),
    "closed: the release renders rules that block the packet": (
        PathEvidence(should_be_open=True, ends=[SOUND]),
        f"{UNKNOWN}: a firewall, or packet loss between the nodes; the list of win-1 is as this "
        "release renders it: Block for the packet",
    ),
    "closed: a known defect of the release closes the list": (
        PathEvidence(should_be_open=True, ends=[OPEN, replace(SOUND, defects=DEFECT)]),
        f"the list of win-1 blocks the packet because of a known defect of this release "
        f"({DEFECT}), with which Felix renders the policies",
    ),
    "closed: the Service has no load balancer": (
        PathEvidence(
            should_be_open=True,
            backends_answer=True,
            balancer="no load balancer",
            balancer_node="w",
        ),
        "HNS on w differs from the EndpointSlices (no load balancer): "
        "kube-proxy did not program it",
    ),
    "closed: the Service's load balancer is right": (
        PathEvidence(should_be_open=True, backends_answer=True, balancer_node="w"),
        "the load balancer on w matches the EndpointSlices, and the backends answer at their own "
        "addresses: the fault is below kube-proxy, in HNS",
    ),
    "closed: a Service by a Linux node": (
        PathEvidence(should_be_open=True, backends_answer=True),
        f"{UNKNOWN}: the backends answer at their own addresses; either kube-proxy did not program "
        "the Service, or what it programmed does not work",
    ),
    "closed: a Service refuses": (
        PathEvidence(should_be_open=True, refused=True, by_service=True),
        f"{UNKNOWN}: kube-proxy has no backend for it, or nothing listens at the port",
    ),
    "closed: a pod refuses": (
        PathEvidence(should_be_open=True, refused=True, ends=[OPEN]),
        f"{UNKNOWN}: nothing listens at the port, or a firewall refuses it",
    ),
    "closed: nothing of it is wrong": (
        PathEvidence(should_be_open=True, ends=[OPEN]),
        f"{UNKNOWN}: a firewall, or packet loss between the nodes; the list of win-1 is as this "
        "release renders it: Allow for the packet",
    ),
}


NETWORKS = "HNS network Calico of win-1 unchanged since T"


@pytest.mark.parametrize("row", ["closed: a route is missing", "closed: nothing of it is wrong"])
def test_a_closed_path_has_since_when_the_hns_networks_of_its_ends_are_as_they_are(
    row: str,
) -> None:
    evidence, conclusion = ROWS[row]
    assert conclude(replace(evidence, networks=NETWORKS)) == f"{conclusion}; {NETWORKS}"


@pytest.mark.parametrize("row", ROWS)
def test_each_sort_of_evidence_has_its_conclusion(row: str) -> None:
    evidence, conclusion = ROWS[row]
    assert conclude(evidence) == conclusion


@pytest.mark.parametrize("should_be_open", [True, False])
def test_a_known_defect_that_acts_the_other_way_is_not_the_cause(should_be_open: bool) -> None:
    end = replace(OPEN if should_be_open else SOUND, defects=DEFECT)
    assert DEFECT not in conclude(PathEvidence(should_be_open=should_be_open, ends=[end]))


def test_no_two_sorts_of_evidence_have_one_conclusion() -> None:
    assert len({conclusion for _, conclusion in ROWS.values()}) == len(ROWS)


def test_a_list_that_blocks_the_packet_is_enough_whatever_the_other_end_has() -> None:
    other = (replace(UNREAD, node="win-2"), replace(OPEN, node="win-2"))
    for ends in ([SOUND, other[0]], [other[1], SOUND]):
        evidence = PathEvidence(should_be_open=False, ends=ends, linux=["lin-1"], arrives=True)
        assert conclude(evidence).startswith("the list of win-1 is as it should be")


RULES = (
    HnsRule("Allow", "In", 6, remote=((10, 19),), local_ports=((80, 80),)),
    HnsRule("Block", "In"),
    HnsRule("Allow", "Out", 17, remote_ports=((53, 53),)),
    HnsRule("Allow", "Out", 6, local_ports=((1000, 2000),)),
)


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (Packet("In", 6, 1, 10, 80), "Allow"),
        (Packet("In", 6, 1, 20, 80), "Block"),
        (Packet("In", 6, 1, 10, 81), "Block"),
        (Packet("In", 17, 1, 10, 80), "Block"),
        (Packet("Out", 17, 1, 10, 53), "Allow"),
        (Packet("Out", 17, 1, 10, 54), ""),
        (Packet("Out", 6, 1, 10, 80), ""),
    ],
)
def test_the_first_rule_for_a_packet_answers_unless_the_clients_port_decides(
    packet: Packet, expected: str
) -> None:
    assert answer(RULES, packet) == expected


def test_a_packet_enters_at_the_server_and_leaves_at_the_client() -> None:
    client = a_workload("client", "windows")
    server = replace(a_workload("server", "windows"), address="10.0.0.2", uid="other")
    client = replace(client, address="10.0.0.1")
    target = Target(
        host="10.0.0.2", port=80, protocol="tcp", path=Addressing.POD_IP, backends=(server,)
    )
    path = Attempt(source=client, kind=Kind.TCP, give_up_after=1.0, target=target)
    here, there = 10 << 24 | 1, 10 << 24 | 2
    assert packet_at(server, path) == Packet("In", 6, there, here, 80)
    assert packet_at(client, path) == Packet("Out", 6, here, there, 80)
    service = replace(path, target=replace(target, path=Addressing.CLUSTER_IP))
    assert packet_at(server, service) is None, "kube-proxy may have changed both addresses"
