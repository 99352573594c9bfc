# SPDX-License-Identifier: Apache-2.0
"""A run inside the cluster is not hit by its own tests, neither on its node nor on its path to
the API."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.catalog.claims import Needs
from conformance.errors import UsageProblem
from conformance.model.claim import ClaimVerdict
from conformance.run.provider import Inspection
from conformance.run.run import check_own_node, permitted
from conformance.schedule import plan
from conformance.schedule.plan import PlannedTest
from conformance.settings import Cover, OwnPod, Settings
from conformance.verdicts.prospect import ClaimPart, Prospect
from tests.plugin.stand_in_cluster import facts

VNI = PlannedTest(
    test="t::vni",
    parts=(ClaimPart(claim="VXLAN-9", active=True),),
    needs=Needs(vni_delivery=True),
)
PROCEDURE = PlannedTest(
    test="t::procedure", parts=(ClaimPart(claim="VXLAN-10"),), needs=Needs(vni_delivery=True)
)
READ = PlannedTest(test="t::read", parts=(ClaimPart(claim="VXLAN-9"),), needs=Needs())
LINUX_NODE = PlannedTest(
    test="t::linux", parts=(ClaimPart(claim="RST-3", alone_on="linux"),), needs=Needs()
)
WINDOWS_NODE = PlannedTest(test="t::windows", parts=(ClaimPart(claim="RST-3"),), needs=Needs())


def settings(own: OwnPod | None, **more: Any) -> Settings:
    return Settings(disruptive=True, cluster_disruptive=True, own_pod=own, **more)


def prospect(test: PlannedTest, chosen: Settings, **cluster: Any) -> Prospect:
    return plan.prospect_of(test, catalog(), facts(**cluster), chosen)


@pytest.mark.parametrize("test", [VNI, PROCEDURE], ids=["VXLAN-9", "VXLAN-10"])
def test_a_vni_is_changed_only_where_the_runs_own_path_was_shown_to_be_beside_it(
    test: PlannedTest,
) -> None:
    assert prospect(test, settings(None)).verdict is None, "a run from outside"
    assert prospect(test, settings(OwnPod(node="linux-1"))).verdict is None
    crossing = OwnPod(node="linux-1", overlay="IP pool pods has no natOutgoing")
    refused = prospect(test, settings(crossing))
    assert refused.verdict is ClaimVerdict.NOT_RUN
    assert "this run's own connection to the API server may use it: IP pool pods" in refused.reason
    assert "--kubeconfig=PATH" in refused.remedy
    assert prospect(READ, settings(crossing)).verdict is None, "reading takes nobody's network"


def test_tests_of_a_whole_node_leave_out_the_runs_own() -> None:
    tests = [LINUX_NODE] * 4
    outside = plan.assign_exclusivity(tests, catalog(), facts(), settings(None))
    assert {name for one in outside for name in (one.node, *one.also)} == {"linux-1", "linux-2"}
    inside = plan.assign_exclusivity(tests, catalog(), facts(), settings(OwnPod(node="linux-1")))
    assert {(one.kind, one.node, one.also) for one in inside} == {("node", "linux-2", ())}


def test_the_only_node_is_left_alone_and_another_system_is_not_concerned() -> None:
    alone = settings(OwnPod(node="linux-1"), cover=Cover(nodes=("linux-1",)))
    refused = prospect(LINUX_NODE, alone)
    assert refused.verdict is ClaimVerdict.NOT_RUN
    assert refused.reason == (
        "it changes a whole node, and this run's own pod is on the only node that it could "
        "change, linux-1"
    )
    assert prospect(WINDOWS_NODE, alone).verdict is None
    assert prospect(LINUX_NODE, settings(OwnPod(node="linux-2"))).verdict is None


def test_a_pod_that_does_not_know_its_node_takes_no_node() -> None:
    refused = prospect(WINDOWS_NODE, settings(OwnPod()))
    assert refused.verdict is ClaimVerdict.NOT_RUN
    assert "it is not known on which node this run's own pod is" in refused.reason


def test_a_named_node_is_not_the_runs_own() -> None:
    check_own_node("linux-2", OwnPod(node="linux-1"))
    check_own_node("", OwnPod(node=""))
    check_own_node("linux-1", None)
    with pytest.raises(UsageProblem, match="--disruptive-node linux-1: this run's own pod is on"):
        check_own_node("linux-1", OwnPod(node="linux-1"))


def test_each_process_of_the_run_knows_its_pod() -> None:
    own = OwnPod(node="linux-1", overlay="x")
    assert permitted(Settings(), Inspection(facts=facts(), own_pod=own)).own_pod == own
