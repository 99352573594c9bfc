# SPDX-License-Identifier: Apache-2.0
"""What the golden tables do not say, literally; and the wrong readings that only these cases notice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.policy.oracle import fields
from conformance.policy.oracle.oracle import Oracle
from conformance.policy.oracle.policies import Direction
from conformance.policy.oracle.rules import Packet
from conformance.policy.oracle.switches import PROMISE, WINDOWS, Switch
from conformance.policy.oracle.world import World
from tests import fast_yaml
from tests.unit.conformance.policy.oracle import (
    cases_of_forms,
    cases_of_identities,
    cases_of_policies,
    cases_of_rules,
)
from tests.unit.conformance.policy.oracle.literal import WORLD, Case, calico
from tests.unit.conformance.policy.oracle.test_golden_tables import NOT_BY_TABLES
from tests.worlds.mutants import MUTANTS, Misread, Mutant

CASES = (
    *cases_of_policies.CASES,
    *cases_of_rules.CASES,
    *cases_of_forms.CASES,
    *cases_of_identities.CASES,
)
OBJECTS = fast_yaml.load(WORLD)


def differing(judge: Oracle, case: Case, mutant: Mutant | None = None) -> Iterator[str]:
    """The rows of a case that the oracle does not agree with."""
    for row in case.rows:
        asked, _, said = row.partition(": ")
        direction, end, _, other, protocol, port = asked.split()
        pod = judge.world.pods[end]
        way: Direction = "ingress" if direction == "ingress" else "egress"
        ends = (
            (fields.address(other), pod.address)
            if way == "ingress"
            else (pod.address, fields.address(other))
        )
        packet = Packet(*ends, fields.PROTOCOLS[protocol.lower()], int(port), 40000)
        promised, _, windows = said.partition(", ")
        for switches, expected in ((PROMISE, promised), (WINDOWS, windows or promised)):
            chosen = mutant.switches(switches) if mutant else switches
            decision = judge.explain(pod, way, packet, chosen)
            if decision.verdict.value != expected:
                yield f"{row}: {decision}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_literal_case(case: Case) -> None:
    assert list(differing(Oracle(World(case.world), case.objects), case)) == []


def test_combined_ports_do_not_open_what_is_named_or_negated() -> None:
    for ports in ("ports: [http]", "notPorts: ['1:65535']"):
        policy = calico(
            "p", f"ingress: [{{action: Allow, protocol: TCP, destination: {{{ports}}}}}]"
        )
        judge = Oracle(World(OBJECTS), fast_yaml.load(policy))
        packet = Packet(fields.address("10.1.0.2"), fields.address("10.1.0.1"), 6, 80, 40000)
        said = judge.verdict(
            judge.world.pods["shop/web"], "ingress", packet, frozenset({Switch.COMBINED_PORTS})
        )
        assert said.value == "denied"


@pytest.mark.parametrize("name", sorted(NOT_BY_TABLES))
def test_a_wrong_reading_that_the_tables_do_not_show_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    judges = ((case, Misread.of(mutant, case.world).oracle(case.objects)) for case in CASES)
    assert [
        case.name for case, judge in judges if judge and list(differing(judge, case, mutant))
    ] != []
