# SPDX-License-Identifier: Apache-2.0
"""Gates demand every claim with a test, and every part."""

from __future__ import annotations

import pytest

from conformance.catalog import catalog
from conformance.model.verdict import ClaimKind
from conformance.qualify.sets import sets
from tests.plugin import parts

pytestmark = pytest.mark.xdist_group("parts")
"""They read one collection of the suite."""


def test_the_gates_know_every_part_that_the_suite_decides() -> None:
    assert parts.FILE.read_text(encoding="utf-8") == parts.page(), (
        "write it anew: python -m tests.plugin.parts"
    )


def test_tests_of_one_part_that_do_not_agree_on_its_clusters_are_refused() -> None:
    told = [("DEMO-7", "p", "{}", False), ("DEMO-7", "p", '{"modes": ["bgp"]}', False)]
    with pytest.raises(ValueError, match="tests of DEMO-7, part 'p', differ"):
        parts.gathered(told)
    assert parts.gathered(told[1:]) == {"DEMO-7": {"p": {"applies": {"modes": ["bgp"]}}}}


def test_every_demand_asks_for_some_part() -> None:
    assert [
        demand.claim for each in sets().values() for demand in each.demands if not demand.parts
    ] == []


def demanded() -> set[str]:
    """Claims that some set demands."""
    return {demand.claim for each in sets().values() for demand in each.demands}


def test_every_claim_with_a_test_is_in_a_set_or_left_out_for_a_reason() -> None:
    tested, left_out = set(parts.collected()), dict(sets().excluded)
    missing = sorted(tested - demanded() - set(left_out))
    assert not missing, f"in no set of qualify/data/sets.yaml, and not left out there: {missing}"
    needless = sorted(set(left_out) - (tested - demanded()))
    assert not needless, f"left out in sets.yaml, but in a set or without a test: {needless}"
    assert all(len(reason.split()) > 4 for reason in left_out.values())


NOT_DEMANDED = ["XSVC-10", "XSVC-11", "IPAM-2"]
"""Capabilities that a run for a release cannot be asked about: XSVC-10 costs money, the others
would harm a cluster that is no lab."""


def test_a_capability_is_left_out_of_every_set_only_if_no_release_can_be_asked() -> None:
    """A capability that a release breaks is what a gate is for; a waiver accepts it, with an owner and an end."""
    assert [
        claim for claim in sets().excluded if catalog()[claim].kind is ClaimKind.CAPABILITY
    ] == NOT_DEMANDED


def test_sets_demand_only_claims_that_have_tests() -> None:
    assert demanded() - set(parts.collected()) == set()


@pytest.mark.parametrize("mode", ["vxlan", "bgp", "policy-only"])
def test_a_networking_mode_has_a_set_once_claims_about_it_alone_have_tests(mode: str) -> None:
    new = {demand.claim for demand in sets()["provisional"].demands}
    alone = {
        claim for claim in parts.collected() if catalog()[claim].applies.modes == (mode,)
    } - new
    assert (mode in sets()) is bool(alone), (
        f"claims about {mode} alone that have tests: {sorted(alone)}"
    )


CONDITIONS = {
    "mode": "modes", "platform": "platforms", "datastore": "datastores", "installation": "installs", "CNI": "cnis",
    "Calico": "calico", "Kubernetes": "kubernetes", "builds": "windows_builds", "DSR": "dsr",
    "IPAM": "ipam", "plane": "windows_plane", "single network": "single_network", "mesh": "mesh",
    "dual stack": "dual_stack", "nodes": "two_nodes", "kube-proxy in pods": "kube_proxy_pods",
}  # fmt: skip
"""Word of ``unless`` to the claim's condition that it speaks of."""


def test_a_set_excuses_a_claim_only_by_a_condition_that_the_claim_has() -> None:
    """Any other word would excuse nothing, and a reader would believe that it does."""
    vain = [
        (each.name, demand.claim, word)
        for each in sets().values()
        for demand in each.demands
        for word in demand.unless
        if getattr(catalog()[demand.claim].applies, CONDITIONS[word]) in (None, ())
    ]
    assert vain == []


def test_a_set_that_narrows_a_claim_names_parts_that_the_suite_has() -> None:
    known = parts.collected()
    chosen = [demand for each in sets().values() for demand in each.demands if demand.only]
    assert [
        demand.claim for demand in chosen if not set(demand.parts) <= set(known[demand.claim])
    ] == []
