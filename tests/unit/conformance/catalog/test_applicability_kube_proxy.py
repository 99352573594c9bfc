# SPDX-License-Identifier: Apache-2.0
"""A claim about restarts of kube-proxy is about clusters whose Windows nodes run it in pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.catalog import Applies, NotApplicable, applicability, catalog
from conformance.model.facts import Fact
from conformance.qualify.sets import sets
from tests.plugin.stand_in_cluster import facts


@pytest.mark.parametrize(
    ("in_pods", "answer"), [(True, Applies), (None, Applies), (False, NotApplicable)]
)
def test_where_kube_proxy_is_a_service_its_restart_is_not_about_the_cluster(
    in_pods: bool | None, answer: type
) -> None:
    found = applicability(
        catalog()["XPOL-19"], replace(facts(), kube_proxy_pods=Fact(in_pods, "none on node win"))
    )
    assert isinstance(found, answer)
    if isinstance(found, NotApplicable):
        (demand,) = [one for one in sets()["provisional"].demands if one.claim == "XPOL-19"]
        assert demand.unless == (found.key,)
        assert found.fact == "kube-proxy in services of the hosts (none on node win)"
