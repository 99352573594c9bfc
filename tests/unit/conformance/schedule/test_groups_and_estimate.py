# SPDX-License-Identifier: Apache-2.0
"""The header lists undecidable claims by reason, and a plan estimates its cost, both before
anything is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.catalog.claims import Needs
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import OS
from conformance.pods.coverage import Covered
from conformance.schedule import groups, plan
from conformance.schedule.estimate import (
    estimate,
    lines_of_many_nodes,
    packaged,
    span,
    token_line,
)
from conformance.schedule.order import order
from conformance.schedule.plan import PlannedTest
from conformance.schedule.scheduler_lock import Exclusivity
from conformance.settings import Settings, Workers
from conformance.verdicts.prospect import ClaimPart
from tests.plugin.stand_in_cluster import facts, node

CRD_ONLY = ["crd.projectcalico.org/v1"]
DEMO = PlannedTest(
    test="t::a", parts=(ClaimPart(claim="DEMO-6"),), needs=Needs(calico_policy=True), otherwise=True
)


def test_claims_that_lack_the_same_thing_are_one_line_with_how_to_get_it() -> None:
    found = list(groups.lines(catalog(), facts(calico_apis=CRD_ONLY), Settings(disruptive=True)))
    (line,) = [item for item in found if "it writes Calico policies" in item]
    assert line.startswith("not here: ")
    assert "10 claims (Calico demo, Network policy, " in line
    assert "projectcalico.org/v3 is not served" in line
    assert "--calicoctl=PATH" in line


def test_claims_about_other_clusters_are_one_line_in_all() -> None:
    found = list(groups.lines(catalog(), facts(), Settings(disruptive=True)))
    (line,) = [item for item in found if item.startswith("not about this cluster")]
    assert "about mode bgp" in line
    assert not any("it is about" in item for item in found)


def test_every_claim_is_in_the_group_that_a_test_of_it_would_meet() -> None:
    cluster, settings = facts(calico_apis=CRD_ONLY, mode="policy-only"), Settings()
    found = {
        claim: group
        for group in groups.groups(catalog(), cluster, settings)
        for claim in group.claims
    }
    assert found["VXLAN-1"].elsewhere
    assert not found["DEMO-5"].elsewhere
    assert "DEMO-6" not in found
    assert "CONN-1" not in found


def test_a_policy_that_kubernetes_can_write_too_needs_no_calico_api() -> None:
    cluster = facts(calico_apis=CRD_ONLY)
    assert plan.prospect_of(DEMO, catalog(), cluster, Settings()).verdict is None
    alone = PlannedTest(test="t::a", parts=DEMO.parts, needs=DEMO.needs)
    assert plan.prospect_of(alone, catalog(), cluster, Settings()).verdict is ClaimVerdict.NOT_RUN


def test_calicoctl_that_may_not_write_costs_what_calico_policies_decide_and_names_its_role() -> (
    None
):
    cluster = facts(calico_apis=CRD_ONLY)
    lacking = {"calicoctl": ("create networkpolicies.crd.projectcalico.org (needed to write)",)}
    settings = Settings(calicoctl=Path("/bin/true"), lacking=lacking)
    prospect = plan.prospect_of(DEMO, catalog(), cluster, settings)
    assert (
        prospect.reason
        == "the run's user may not create networkpolicies.crd.projectcalico.org (needed to write)"
    )
    assert prospect.remedy == "bind the role of manifests/rbac/calicoctl.yaml"
    other = PlannedTest(
        test="t::b", parts=(ClaimPart(claim="CONN-1"),), needs=Needs(), uses=("policies",)
    )
    assert plan.prospect_of(other, catalog(), cluster, settings).verdict is None


@pytest.mark.parametrize(
    ("ends", "said"), [(None, False), (9_000.0, False), (4_000.0, True), (900.0, True)]
)
def test_a_token_that_ends_before_the_run_may_is_announced(
    *, ends: float | None, said: bool
) -> None:
    line = token_line(ends, 60, now=1_000.0)
    assert bool(line) == said
    if ends == 4_000.0:
        begins = "the user's credentials end at 1970-01-01 01:06 UTC, in 50 min, and this run may take 60: "
        assert line.startswith(begins)
        assert "calico-conformance kubeconfig --hours N" in line


def test_a_vni_that_nothing_carries_to_windows_nodes_is_said_before_the_run() -> None:
    test = PlannedTest(
        test="t::a", parts=(ClaimPart(claim="VXLAN-10"),), needs=Needs(vni_delivery=True)
    )
    settings = Settings(disruptive=True, cluster_disruptive=True)
    assert plan.prospect_of(test, catalog(), facts(), settings).verdict is None
    by_hand = plan.prospect_of(test, catalog(), facts(install="manual"), settings)
    assert by_hand.verdict is ClaimVerdict.NOT_RUN
    assert by_hand.reason.startswith("nothing in the cluster delivers a VNI to Windows nodes")
    assert "must be repeated" in by_hand.remedy


def test_it_is_said_which_claims_kubernetes_policies_decided() -> None:
    said = plan.by_kubernetes([DEMO], ["t::a"], facts(calico_apis=CRD_ONLY), Settings())
    assert said.startswith(
        "projectcalico.org/v3 is not served: DEMO-6 decided with the equivalent NetworkPolicy of "
        "Kubernetes"
    )
    assert plan.by_kubernetes([DEMO], [], facts(calico_apis=CRD_ONLY), Settings()) == ""
    assert plan.by_kubernetes([DEMO], ["t::a"], facts(), Settings()) == ""


def planned(kind: str, count: int) -> list[PlannedTest]:
    exclusivity = Exclusivity(kind=kind)  # type: ignore[arg-type]
    return [
        PlannedTest(test=f"{kind}{number}", parts=(), needs=Needs(), exclusivity=exclusivity)
        for number in range(count)
    ]


def test_an_estimate_shares_what_can_be_shared_and_adds_the_rest() -> None:
    coverage = [Covered(node("l", "linux"), ""), Covered(node("w", "windows", (20348, 1)), "")]
    tests = planned("shared", 60) + planned("node", 1) + planned("cluster", 1)
    found = replace(estimate(tests, coverage, 2, Workers()), seconds=(1200.0, 30.0))
    assert (found.shared, found.on_a_node, found.on_the_cluster) == (60, 1, 1)
    assert found.minutes(1) == (23, 85)
    assert found.minutes(2) == (18, 65)
    assert found.pods == {"linux": 8, "windows": 18}
    assert found.agents == 16
    assert found.lines()[0].startswith(
        "estimate: 60 tests in parallel, 1 that use a node alone, 1 that use the cluster alone: "
        "23 to 85 min by one worker, 18 to 65 min by 2 (-n auto)"
    )
    assert "server core" in found.lines()[0]


def test_on_a_lab_the_packaged_seconds_of_every_test_count_alone() -> None:
    coverage = [Covered(node("l", "linux"), ""), Covered(node("w", "windows", (20348, 1)), "")]
    tests = planned("shared", 60) + planned("cluster", 1)
    found = replace(estimate(tests, coverage, 2, Workers(), lab=True), seconds=(600.0, 120.0))
    assert found.minutes(1) == (6, 13)
    assert found.minutes(6) == (2, 5)
    assert "server core" not in found.lines()[0]
    assert found.lines()[-1] == "estimate: computed from the durations of the tests on a lab"


def test_a_run_spans_its_packaged_seconds_shared_among_workers_and_none_of_what_is_exclusive() -> (
    None
):
    tests = planned("shared", 4) + planned("cluster", 1)
    each = order().seconds("unknown", lab=True)
    assert packaged(tests, lab=True) == pytest.approx((4 * each, each))
    assert span(tests, 1, lab=True) == pytest.approx((2.5 * each, 5 * each))
    assert span(tests, 4, lab=True) == pytest.approx((each, 2 * each))
    assert span([], 0, lab=True) == (0.0, 0.0)


def exclusive(alone_on: OS | None, **settings: Any) -> Exclusivity:
    """The turn of a part of XOP-3 on a cluster of two Linux and two Windows nodes."""
    part = ClaimPart(claim="XOP-3", part=f"{alone_on} nodes", alone_on=alone_on)
    test = PlannedTest(test="t::felix", parts=(part,), needs=Needs(linux=1, windows=1))
    (turn,) = plan.assign_exclusivity(
        [test], catalog(), facts(), Settings(disruptive=True, **settings)
    )
    return turn


def test_a_part_may_have_linux_nodes_to_itself_where_the_catalog_says_windows() -> None:
    linux, windows = exclusive("linux"), exclusive("windows")
    assert (linux.kind, linux.nodes) == ("node", ("linux-1", "linux-2"))
    assert set(windows.nodes) <= {"win-0", "win-1"}
    assert exclusive(None) == windows


def test_tests_that_one_node_is_enough_for_are_dealt_out_so_that_they_run_side_by_side() -> None:
    part = ClaimPart(claim="XOP-3", part="windows nodes", alone_on="windows")
    one = PlannedTest(test="t::one", parts=(part,), needs=Needs(linux=1, windows=1), one_node=True)
    tests = [one, replace(one, one_node=False), one]
    turns = plan.assign_exclusivity(tests, catalog(), facts(), Settings(disruptive=True))
    assert [set(turn.nodes) for turn in turns] == [{"win-0"}, {"win-0"}, {"win-1"}]
    two_builds = replace(facts(), nodes=(*facts().nodes, node("win-2", "windows", (17763, 6414))))
    turns = plan.assign_exclusivity(tests, catalog(), two_builds, Settings(disruptive=True))
    assert [len(turn.nodes) for turn in turns] == [1, 2, 1]
    assert turns[0].nodes != turns[2].nodes


def test_no_more_linux_nodes_are_disrupted_than_are_allowed() -> None:
    assert exclusive("linux", max_disrupted_nodes=1).nodes == ("linux-1",)
    assert exclusive("linux", disruptive_node="linux-2").nodes == ("linux-2",)


def test_what_many_nodes_cost_is_said_first_and_nothing_of_few() -> None:
    assert lines_of_many_nodes(200, 16, 256) == []
    assert lines_of_many_nodes(200, 50, 256) == [
        "estimate: 50 covered nodes are 2,500 ordered pairs of nodes: a test with denials "
        "probes 768 paths, each test a different part, and a test of open paths probes all 7,500",
        "estimate: 153,600 to 1,500,000 paths, 44 to 425 min of one worker and "
        "1,229 to 12,000 MB of reports for the tests in parallel; "
        "--max-nodes-per-os and -k reduce this",
    ]
