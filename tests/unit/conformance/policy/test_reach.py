# SPDX-License-Identifier: Apache-2.0
"""Who reaches whom at which ports, per column, and which input is refused."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from benchmarks.policy_size import objects as size_objects
from conformance.errors import UsageProblem
from conformance.policy.oracle.oracle import Verdict, of_way
from conformance.policy.oracle.switches import Switch
from conformance.policy.reach import Answer, End, Reach, Way, is_pair
from conformance.policy.unread import passed_over
from tests.unit.conformance.builders import Obj, a_pod, an_object

TCP, UDP = 6, 17
OPEN, CLOSED = Verdict.ALLOWED, Verdict.DENIED
PROMISE, WINDOWS = 0, 1
SERVER, CLIENT = "shop/web", "shop/client"


def pod(name: str, address: str, *, os: str = "linux") -> Obj:
    labels, spec = {"app": name}, {"os": {"name": os}, "containers": [{"name": "c", "image": "i"}]}
    made = a_pod(name, namespace="shop", labels=labels, spec=spec, status={"podIP": address})
    return {"apiVersion": "v1", "kind": "Pod", **made}


def calico(**spec: Any) -> Obj:
    policy = an_object("p", namespace="shop", **spec)
    return {"apiVersion": "projectcalico.org/v3", "kind": "NetworkPolicy", **policy}


def kubernetes(**spec: Any) -> Obj:
    policy = an_object("p", namespace="shop", **spec)
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", **policy}


def pods(os: str = "linux") -> list[Obj]:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {}}}
    return [space, pod("web", "10.0.0.1", os=os), pod("client", "10.0.0.2")]


def to_server(reach: Reach, protocol: int = TCP) -> list[Way]:
    """The ways from the client to the server by one protocol."""
    return [
        way
        for way in reach.ways()
        if (way.source.name, way.destination.name, way.protocol) == (CLIENT, SERVER, protocol)
    ]


def answers(
    reach: Reach, column: int, protocol: int = TCP
) -> dict[tuple[tuple[int, int], ...], Verdict]:
    """Ranges of ports to the verdict of one column."""
    return {way.ports: way.verdicts[column] for way in to_server(reach, protocol)}


INGRESS: Obj = {"selector": "app == 'web'", "types": ["Ingress"]}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param(None, {((1, 65535),): OPEN}, id="no policy"),
        pytest.param([], {((1, 65535),): CLOSED}, id="no rule"),
        pytest.param(
            [{"action": "Allow", "protocol": "TCP", "destination": {"ports": [80]}}],
            {((80, 80),): OPEN, ((1, 79), (81, 65535)): CLOSED},
            id="one port",
        ),
        pytest.param(
            [{"action": "Allow", "protocol": "TCP", "destination": {"ports": ["80:90", 91]}}],
            {((80, 91),): OPEN, ((1, 79), (92, 65535)): CLOSED},
            id="ranges that touch are joined",
        ),
        pytest.param(
            [{"action": "Allow", "protocol": "TCP", "destination": {"ports": [1, 65535]}}],
            {((1, 1), (65535, 65535)): OPEN, ((2, 65534),): CLOSED},
            id="the first and the last port",
        ),
        pytest.param(
            [
                {"action": "Deny", "protocol": "TCP", "destination": {"ports": [85]}},
                {"action": "Allow", "protocol": "TCP", "destination": {"ports": ["80:90"]}},
            ],
            {((80, 84), (86, 90)): OPEN, ((1, 79), (85, 85), (91, 65535)): CLOSED},
            id="a rule inside another's range",
        ),
    ],
)
def test_ports_are_grouped_by_their_answer(
    rules: list[Obj] | None, expected: dict[Any, Verdict]
) -> None:
    policies = [] if rules is None else [calico(**INGRESS, ingress=rules)]
    assert answers(Reach([*pods(), *policies]), PROMISE) == expected


def test_a_rule_for_one_protocol_leaves_the_other_as_it_is() -> None:
    rules = [{"action": "Allow", "protocol": "UDP", "destination": {"ports": [53]}}]
    reach = Reach([*pods(), calico(**INGRESS, ingress=rules)])
    assert answers(reach, PROMISE, TCP) == {((1, 65535),): CLOSED}
    assert answers(reach, PROMISE, UDP)[((53, 53),)] is OPEN


def test_a_way_is_open_only_where_both_ends_allow_it() -> None:
    egress = {"selector": "app == 'client'", "types": ["Egress"], "egress": []}
    assert answers(Reach([*pods(), calico(**egress)]), PROMISE) == {((1, 65535),): CLOSED}


NOT_NETS = [{"action": "Allow", "source": {"nets": ["10.0.0.0/24"], "notNets": ["10.0.0.9/32"]}}]


@pytest.mark.parametrize(
    ("os", "on_windows", "departures"),
    [
        pytest.param(
            "windows", CLOSED, [(Switch.NEGATIONS,)], id="a Windows server skips the rule"
        ),
        pytest.param("linux", OPEN, [], id="a Linux server reads it in every column"),
    ],
)
def test_the_windows_column_differs_for_windows_pods_alone(
    os: str, on_windows: Verdict, departures: list[tuple[Switch, ...]]
) -> None:
    (way,) = to_server(Reach([*pods(os), calico(**INGRESS, ingress=NOT_NETS)]))
    assert (way.verdicts[PROMISE], way.verdicts[WINDOWS]) == (OPEN, on_windows)
    assert [each.departures for each in way.differences if each.column == "WINDOWS"] == departures


def test_an_address_that_is_no_pod_is_an_end_beside_the_pods() -> None:
    reach = Reach(pods(), addresses=["10.9.9.9", "10.9.9.8"])
    ends = {(way.source.name, way.destination.name) for way in reach.ways()}
    assert {("10.9.9.9", SERVER), (SERVER, "10.9.9.9"), (CLIENT, SERVER)} <= ends
    assert ("10.9.9.9", "10.9.9.8") not in ends, (
        "nothing is said between two addresses that are no pods"
    )
    assert (SERVER, SERVER) not in ends, "nothing is said of a pod and itself"


def test_an_object_that_is_neither_pod_nor_policy_is_named() -> None:
    entry = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "web", "namespace": "shop"},
    }
    reach = Reach([*pods(), calico(**INGRESS), entry])
    assert passed_over(reach.world) == ["Ingress shop/web"]


PORTS = {"ports": [80]}
BLOCK = {"cidr": "10.0.0.0/24"}


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        pytest.param(
            [
                *pods(),
                {
                    "apiVersion": "policy.networking.k8s.io/v1alpha1",
                    "kind": "AdminNetworkPolicy",
                    "metadata": {"name": "a"},
                    "spec": {},
                },
            ],
            "AdminNetworkPolicy a priority: a number is expected, not None",
            id="an administrator's policy without a priority",
        ),
        pytest.param([], "these files contain no pod", id="nobody to reach"),
        pytest.param([*pods(), pod("web", "10.0.0.7")], "appears twice", id="the same pod twice"),
        pytest.param(
            [*pods(), calico(**INGRESS, tier="sec", ingress=[])],
            "is in tier sec, which no file",
            id="unknown tier",
        ),
        pytest.param(
            [*pods(), calico(**INGRESS, ingress=[{"action": "Allow", "destination": PORTS}])],
            "ports need protocol TCP, UDP or SCTP",
            id="ports without a protocol",
        ),
        pytest.param(
            [
                *pods(),
                calico(
                    **INGRESS,
                    ingress=[{"action": "Allow", "protocol": "ICMP", "destination": PORTS}],
                ),
            ],
            "ports need protocol TCP, UDP or SCTP",
            id="ports of a protocol that has none",
        ),
        pytest.param(
            [
                *pods(),
                kubernetes(
                    podSelector={},
                    ingress=[{"from": [{"ipBlock": {**BLOCK, "except": ["10.0.0.0/24"]}}]}],
                ),
            ],
            "an except entry must be a smaller part",
            id="an exception as large as its block",
        ),
        pytest.param(
            [
                *pods(),
                kubernetes(
                    podSelector={},
                    ingress=[{"from": [{"ipBlock": {**BLOCK, "except": ["10.1.0.0/25"]}}]}],
                ),
            ],
            "an except entry must be a smaller part",
            id="an exception outside its block",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_line(objects: list[Obj], words: str) -> None:
    with pytest.raises(UsageProblem, match=words) as caught:
        Reach(objects)
    assert "\n" not in str(caught.value)


def test_an_exception_inside_its_block_is_judged() -> None:
    rules = [{"from": [{"ipBlock": {**BLOCK, "except": ["10.0.0.2/32"]}}]}]
    assert answers(Reach([*pods(), kubernetes(podSelector={}, ingress=rules)]), PROMISE) == {
        ((1, 65535),): CLOSED
    }


@pytest.mark.parametrize("reverse", [False, True])
def test_a_path_beside_an_address_has_the_answer_that_its_own_policies_give(reverse: bool) -> None:
    """Addresses have no decisions of their own: those of a pod must not be taken for them."""
    for seed in range(60):
        reach = Reach(_some_policies(random.Random(seed)), ["203.0.113.1", "203.0.113.9"])
        pairs = list(product(reach.ends, reach.ends))
        for pair in pairs[::-1] if reverse else pairs:
            if is_pair(*pair):
                for answer in reach.between(*pair):
                    assert answer.verdicts == _asked_alone(reach, pair, answer), (seed, pair)


def _some_policies(chance: random.Random) -> list[Obj]:
    """Six pods, and policies about a single direction each."""
    found = size_objects(6, 0)
    for number in range(4):
        way = chance.choice(("ingress", "egress"))
        peer = {"namespaceSelector": {"matchLabels": {"env": chance.choice(("prod", "test"))}}}
        spec: Obj = {
            "podSelector": {},
            "policyTypes": [way.capitalize()],
            way: [{"from" if way == "ingress" else "to": [peer]}],
        }
        space = f"team-{chance.randrange(10)}"
        policy = an_object(f"p{number}", namespace=space, **spec)
        found.append({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", **policy})
    return found


def _asked_alone(reach: Reach, pair: tuple[End, End], answer: Answer) -> tuple[Verdict, ...]:
    port = answer.ports[0][0] if answer.ports else 0
    packet = reach.packet(pair, answer.family, answer.protocol, port)
    asked = [
        (
            reach.decision(pair[0], "egress", packet, column),
            reach.decision(pair[1], "ingress", packet, column),
        )
        for column in reach.columns
    ]
    return tuple(of_way(filter(None, each)) for each in asked)
