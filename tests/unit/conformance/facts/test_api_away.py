# SPDX-License-Identifier: Apache-2.0
"""If a group of Calico's API is listed and answers 503, every output says that it is not served
now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.catalog.claims import Needs
from conformance.errors import MissingCapability
from conformance.facts.calico_api import CalicoApi
from conformance.facts.detect import detect
from conformance.kube.changes import Changes
from conformance.kube.ownership import Ownership
from conformance.plugin import header
from conformance.schedule.plan import PlannedTest, prospect_of
from conformance.settings import Settings
from conformance.verdicts.prospect import ClaimPart
from tests.unit.conformance.facts.platforms.served import clusters, served

V3 = "projectcalico.org/v3"
SAID = "503 the server is currently unable to handle the request"
ADVICE = "kubectl describe apiservice v3.projectcalico.org"


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Any]:
    """A client of such a cluster."""
    cluster = next(one for one in clusters() if one.name == "api-server-away")
    with served(cluster, tmp_path) as kube:
        yield kube


def test_the_group_is_not_among_those_that_are_served_and_the_reason_is_told(away: Any) -> None:
    facts = detect(away)
    assert facts.calico_apis.value == ("crd.projectcalico.org/v1", "operator.tigera.io/v1")
    assert facts.calico_apis.source == f"/apis; {V3} is listed but not served now: {SAID}"
    assert f"{V3} is listed but not served now: {SAID}" in header.assumptions(facts)


def test_the_plan_takes_kubernetes_twin_and_advises_to_mend_the_server(away: Any) -> None:
    facts = detect(away)
    parts = (ClaimPart(claim="DEMO-6"),)
    twin = PlannedTest(test="t", parts=parts, needs=Needs(calico_policy=True), otherwise=True)
    assert prospect_of(twin, catalog(), facts, Settings()).verdict is None
    alone = PlannedTest(test="t", parts=parts, needs=Needs(calico_policy=True))
    found = prospect_of(alone, catalog(), facts, Settings())
    assert f"{V3} is not served (/apis; {V3} is listed but not served now: 503" in found.reason
    assert ADVICE in found.remedy
    assert "install" not in found.remedy


def test_a_policy_that_cannot_be_written_names_the_server_that_is_away(away: Any) -> None:
    calico = CalicoApi(away, Changes(away, Ownership("r1", "gw0")))
    with pytest.raises(MissingCapability) as caught:
        calico.require()
    assert f"does not serve {V3} now ({SAID})" in str(caught.value)
    assert ADVICE in str(caught.value)
