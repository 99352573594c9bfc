# SPDX-License-Identifier: Apache-2.0
"""The first line begins with the common cause of all wrong paths, and names the node on which it
may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.expect.explain import cause
from conformance.expect.explain.advice import Side
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import observation


def path(source: str, target: str, **of_target: object) -> Attempt:
    client, server = (
        a_workload("client", node=source, uid=f"client-{source}"),
        a_workload("server", node=target, uid=f"server-{target}"),
    )
    goal: Target = replace(server.tcp(80), **of_target)  # type: ignore[arg-type]
    return Attempt(source=client, target=goal, kind=Kind.TCP, give_up_after=1.0)


def seen(attempt: Attempt, verdict: Verdict = Verdict.TIMED_OUT) -> list[Observation]:
    return [observation(attempt, verdict)]


MANY = [*(path("w", other) for other in "abcd"), *(path(other, "w") for other in "abcd")]
"""All that begins or ends on one node."""


@pytest.mark.parametrize(
    ("paths", "side", "told"),
    [
        ([path("a", "w"), path("b", "w")], "target", "w does not enforce the policy"),
        ([path("w", "a"), path("w", "b")], "source", "w does not enforce the policy"),
        ([path("a", "w")], "both", "a or w does not enforce the policy"),
        (MANY, "both", "w does not enforce the policy"),
        ([path("a", "w"), path("b", "x")], "target", "w and x do not enforce the policy"),
        ([path("a", node) for node in "bcde"], "target", "4 nodes do not enforce the policy"),
    ],
)
def test_who_does_not_enforce_a_policy(paths: list[Attempt], side: Side, told: str) -> None:
    assert cause.passes(paths, side) == told


def test_the_end_is_named_whose_pods_differ_from_their_peers() -> None:
    leaks = [path("w", other) for other in "abw"]
    closed = [path(one, other) for one in "ab" for other in "abw"]
    assert cause.differs_at(leaks, closed) == "source"
    others = [path("a", "b"), path("b", "a")]
    assert cause.differs_at([path(one, "w") for one in "ab"], others) == "target"
    assert cause.differs_at(leaks, []) == "both"
    assert cause.differs_at(leaks, leaks) == "both"
    other_port = [path("w", "a", port=8080), path("b", "a"), path("c", "a")]
    assert cause.differs_at([path("w", "a")], other_port) == "source"
    assert cause.withholds(leaks, "source") == "w closes what the policy allows"


def test_a_policy_that_stays_and_one_that_refuses_name_the_node_too() -> None:
    assert (
        cause.stays([path("a", "w"), path("b", "w")], "target")
        == "w enforces a policy that was removed"
    )
    assert (
        cause.refuses([path("a", "w")], "target")
        == "connections to pods on w are refused, not dropped"
    )


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ([path("a", "w")], "clients on a do not reach pods on w"),
        ([path("a", "w"), path("b", "w")], "clients on a and b do not reach pods on w"),
        ([path("w", "w")], "pods on w do not reach each other"),
        (MANY, "pods on w and those on other nodes do not reach each other"),
        (
            [path("a", "b"), path("c", "d"), path("b", "a")],
            "pods on 4 nodes do not reach each other",
        ),
        (
            [path(one, other) for one in "abc" for other in "xy"],
            "clients on a, b and c do not reach pods on x and y",
        ),
        ([path("a", "w", backends=())], "clients on a do not reach 192.168.0.5"),
        (
            [path("a", "w", path=Addressing.CLUSTER_IP)],
            "clients on a do not reach pods on w through Services",
        ),
        ([path("a", "w", path=Addressing.NODE_PORT)], "NodePorts of w do not reach their pods"),
    ],
)
def test_who_does_not_reach_whom(paths: list[Attempt], told: str) -> None:
    assert cause.closed(paths, seen(paths[0])) == told


def test_what_is_refused_and_what_does_not_resolve_is_said_so() -> None:
    one = path("a", "w")
    assert (
        cause.closed([one], seen(one, Verdict.REFUSED)) == "clients on a are refused by pods on w"
    )
    assert cause.closed([one], seen(one, Verdict.DNS_FAILED)) == "names do not resolve on a"


def test_of_a_node_port_the_node_counts_that_was_called() -> None:
    called = path("a", "w", path=Addressing.NODE_PORT, at=a_workload("there", node="x"))
    assert cause.closed([called], seen(called)) == "NodePorts of x do not reach their pods"


def test_with_a_single_wrong_path_and_few_good_ones_it_may_be_either_end() -> None:
    """The server's node is asked by nobody else: that its pods have no good path shows nothing."""
    wrong = [path("a", "w")]
    few = [path("a", "b")]
    assert cause.differs_at(wrong, few) == "both"
    assert cause.withholds(wrong, "both") == "a or w closes what the policy allows"
    assert cause.differs_at(wrong, [*few, path("a", "c")]) == "target"
    assert cause.differs_at([path("a", "w"), path("b", "w")], [*few, path("b", "a")]) == "target"


def test_of_two_nodes_that_all_wrong_paths_share_both_are_named() -> None:
    wrong = [path("a", "w"), path("w", "a")]
    assert cause.withholds(wrong, "both") == "a or w closes what the policy allows"
    assert cause.passes([*wrong, path("w", "w")], "both") == "w does not enforce the policy"


def test_where_either_of_two_groups_may_be_wrong_both_are_named() -> None:
    wrong = [path("a", "w"), path("a", "x")]
    assert cause.passes(wrong, "both") == "a, or w and x, do not enforce the policy"
    everywhere = [path(one, other) for one in "abc" for other in "abc"]
    assert cause.passes(everywhere, "both") == "a, b and c do not enforce the policy"
