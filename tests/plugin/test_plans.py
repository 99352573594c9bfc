# SPDX-License-Identifier: Apache-2.0
"""``--plan`` on the recorded clusters prints the committed table, by the code with which a run
plans."""

from __future__ import annotations

import pytest

from conformance.catalog import catalog
from tests import fast_yaml
from tests.plugin import plans
from tests.unit.conformance.facts.platforms.served import clusters

WRITTEN: dict[str, dict[str, str]] = fast_yaml.load(plans.FILE.read_text(encoding="utf-8"))


REFUSED = {name for name, said in WRITTEN.items() if set(said) == {"exit 7"}}
BEGINS = ("runs", "after a look")
"""Words of a plan for claims of which the run begins a test."""


@pytest.fixture(scope="module")
def planned() -> plans.Plans:
    """Each cluster's plan, from one collection of the suite."""
    return plans.planned()


@pytest.mark.parametrize("cluster", [item.name for item in clusters()])
def test_the_plan_of_a_recorded_cluster_is_what_the_table_has(
    cluster: str, planned: plans.Plans
) -> None:
    assert planned.told[cluster] == WRITTEN[cluster], "python -m tests.plugin.plans writes it anew"


@pytest.mark.parametrize("cluster", sorted(set(WRITTEN) - REFUSED))
def test_each_claim_stands_in_a_plan_once(cluster: str) -> None:
    told = [
        word for claims in WRITTEN[cluster].values() for word in claims.split() if word in catalog()
    ]
    assert sorted(told) == sorted(catalog())


@pytest.mark.parametrize("cluster", [item.name for item in clusters()])
def test_plan_and_run_agree_on_what_a_run_begins(cluster: str, planned: plans.Plans) -> None:
    expected = next(item for item in clusters() if item.name == cluster).outcome
    assert (cluster in REFUSED) == ("exit" in expected)
    told = planned.told[cluster]
    begun = [
        claim
        for word, claims in told.items()
        if word.startswith(BEGINS)
        for claim in claims.split()
    ]
    assert sorted(begun) == sorted(planned.begun.get(cluster, []))


def test_a_plan_has_a_word_of_its_own_where_a_look_at_the_nodes_decides() -> None:
    by_look = {
        name
        for name, said in WRITTEN.items()
        if "XSVC-1"
        in " ".join(claims for word, claims in said.items() if word.startswith("after a look"))
    }
    assert {"aks", "rke2", "manual-services"} <= by_look
    assert "kubeadm-operator" not in by_look
