# SPDX-License-Identifier: Apache-2.0
"""``--plan`` on the recorded clusters says what the committed table has, by the code that a run plans with."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from conformance.catalog import catalog
from tests.plugin import plans
from tests.unit.conformance.facts.platforms.served import clusters

WRITTEN: dict[str, dict[str, str]] = yaml.safe_load(plans.FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def planned() -> dict[str, dict[str, str]]:
    """Each cluster's plan, from one collection of the suite."""
    return plans.planned()


@pytest.mark.parametrize("cluster", [item.name for item in clusters()])
def test_the_plan_of_a_recorded_cluster_is_what_the_table_has(cluster: str, planned: Any) -> None:
    assert planned[cluster] == WRITTEN[cluster], "python -m tests.plugin.plans writes it anew"


@pytest.mark.parametrize("cluster", WRITTEN)
def test_each_claim_stands_in_a_plan_once(cluster: str) -> None:
    told = [
        word for claims in WRITTEN[cluster].values() for word in claims.split() if word in catalog()
    ]
    assert sorted(told) == sorted(catalog())
