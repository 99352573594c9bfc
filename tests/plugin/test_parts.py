"""What gates demand is what the suite has: no claim with a test is forgotten, and no part."""

from __future__ import annotations

from conformance.catalog import catalog
from conformance.model.verdict import ClaimKind
from conformance.qualify.sets import sets
from tests.plugin import parts


def test_the_gates_know_every_part_that_the_suite_decides() -> None:
    assert parts.FILE.read_text(encoding="utf-8") == parts.page(), "write it anew: python -m tests.plugin.parts"


def test_every_capability_with_a_test_is_in_a_set_or_left_out_for_a_reason() -> None:
    demanded = {demand.claim for gate_set in sets().values() for demand in gate_set.demands}
    tested = set(parts.collected())
    capabilities = {claim for claim in tested if catalog()[claim].kind is ClaimKind.CAPABILITY}
    assert capabilities - demanded - set(sets().excluded) == set()


def test_sets_demand_only_claims_that_have_tests() -> None:
    demanded = {demand.claim for gate_set in sets().values() for demand in gate_set.demands}
    assert demanded - set(parts.collected()) == set()
