# SPDX-License-Identifier: Apache-2.0
"""The oracle says what Calico's own code did, in both columns, wherever a document says anything at all.

``make check-oracle`` asks every probe, and which wrong readings of policy the tables show.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from conformance.policy.oracle.oracle import Oracle
from conformance.policy.oracle.panics import panics
from tests.unit.conformance.policy.oracle.tables import (
    DOCUMENTED,
    PROMISED,
    SHIPPED,
    TABLES,
    Column,
    answers,
    cases,
    oracle,
    panicking,
)
from tests.worlds import counts, edges
from tests.worlds.mutants import MUTANTS, Misread, Mutant

DEFECTS = {
    "d-tier-pass-ports-disjoint",
    "pass-9000",
    "d-staged-np",
    "d-staged-first",
    "d-staged-gnp",
    "d-svc-egress-source",
    "d-svc-egress-proto",
}
"""Cases in which these releases do what no document says: without their defects the oracle says otherwise."""
NOT_SAID = {"d-tie-np-gnp-alpha", "d-tie-np-gnp-gamma", "d-tie-k8s-np", "d-tie-np-names", "d-http"}
"""Cases in which something is not said: policies of one order, and HTTP."""
NOT_BY_TABLES = (
    counts.EDITS.keys()
    | {
        "names of accounts: first only",
        "names of accounts: last only",
        "names and selector of accounts: selector alone",
        "namespaceSelector of ends: first of && only",
        "namespaceSelector of ends: first of || only",
        "namespaceSelector of a peer: first expression only",
        "an empty value of matchLabels is nobody's",
        "projectcalico.org/namespace is no label",
        "accounts have no name for selectors",
        "== wants spaces",
        "Kubernetes' policies come last",
        "types not said are both",
        "types not said are ingress",
        "Kubernetes' types not said are ingress",
        "first of matchLabels only",
        "ends with as ==",
        "first net of a NetworkSet only",
        "ports' names are any protocol's",
        "nodes do not reach their own pods",
        "two ! are one",
        "! reaches over &&",
        "values compare without case",
        "values compare as numbers",
        "values are trimmed",
        "has: a part of a label",
        "in: values are one text",
        "contains, starts and ends with nothing: never",
        "|| of a policy reaches beyond its namespace",
        "|| of a global policy reaches beyond its namespaces",
        "notSelector: the negation is of the first of ||",
        "nobody has the default account",
        "the default tier is the last",
        "Kubernetes' ports with one between them are a range",
        "fifteen ports of a rule only",
        "first of notPorts only",
        "DoesNotExist of namespaces as Exists",
    }
    | edges.EDITS.keys()
    | edges.OF_ALL.keys()
)
"""Wrong readings of what no case of the tables says: the literal cases notice them."""


def held(version: str, column: Column, chosen: slice) -> tuple[dict[str, list[str]], Counter[str]]:
    """Return by case the probes whose answer differs from Calico's, and the number of probes
    without an answer."""
    different: dict[str, list[str]] = {}
    silent: Counter[str] = Counter()
    for case in cases(version):
        for probe, calico, said in answers(oracle(case), column, case, chosen):
            if said == "?":
                silent[case.id] += 1
            elif said != calico:
                different.setdefault(case.id, []).append(f"{probe}: Calico {calico}, oracle {said}")
    return different, silent


def test_the_promise_is_what_calicos_graph_gives_on_linux(chosen: slice) -> None:
    different, silent = held("v3.31.7", PROMISED, chosen)
    assert different == {}
    assert silent.keys() == NOT_SAID
    assert len(cases("v3.31.7")) == 250


@pytest.mark.parametrize("version", TABLES)
def test_windows_with_a_releases_defects_is_what_its_code_gives(
    version: Any, chosen: slice
) -> None:
    different, silent = held(version, SHIPPED[version], chosen)
    assert different == {}
    assert silent.keys() == {"d-http"}
    assert len(cases(version)) == {"v3.31.7": 250, "v3.32.1": 248}[version]


@pytest.mark.parametrize("version", TABLES)
def test_windows_as_documented_differs_from_it_by_the_defects_alone(
    version: Any, chosen: slice
) -> None:
    different, silent = held(version, DOCUMENTED, chosen)
    assert different.keys() <= DEFECTS
    if chosen == slice(None):
        assert different.keys() == DEFECTS
    assert silent.keys() == NOT_SAID


def test_what_two_releases_decide_differently_is_not_said(chosen: slice) -> None:
    newer = {case.id: case for case in cases("v3.32.1")}
    older = {case.id: case for case in cases("v3.31.7")}
    changed = {
        name
        for name, case in newer.items()
        if case.letters["windows"] != older[name].letters["windows"]
    }
    assert changed == {"d-tie-np-gnp-alpha", "d-tie-k8s-np"}
    for name in changed:
        column = DOCUMENTED
        assert {
            said for _, _, said in answers(oracle(newer[name]), column, newer[name], chosen)
        } >= {"?"}


@pytest.mark.parametrize("version", TABLES)
def test_what_ends_felix_is_known_beforehand(version: Any) -> None:
    assert [case.id for case in panicking(version) if not _ends_felix(oracle(case))] == []
    assert len(panicking(version)) == 2
    assert [case.id for case in cases(version) if _ends_felix(oracle(case))] == []


def _ends_felix(judge: Oracle) -> bool:
    return any(panics(judge, pod) for pod in judge.world.pods.values())


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in NOT_BY_TABLES])
def test_a_wrong_reading_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    columns = [*([PROMISED] if mutant.of_objects else []), SHIPPED["v3.31.7"]]
    # few probes first: they show most of them, and that is quick
    asked = ((column, probes) for probes in (slice(0, None, 9), slice(None)) for column in columns)
    assert any(noticed(mutant, column, probes) for column, probes in asked)


def noticed(mutant: Mutant, column: Column, probes: slice) -> str:
    """The first case of the table by which a wrong reading is noticed; empty: by none."""
    worlds = {case.network_sets: case.world for case in cases("v3.31.7")}
    read = {sets: Misread.of(mutant, world) for sets, world in worlds.items()}
    for case in cases("v3.31.7"):
        judge = read[case.network_sets].oracle(case.objects)
        if judge is not None:
            for _, calico, said in answers(judge, column, case, probes, mutant.switches):
                if said not in {"?", calico}:
                    return case.id
    return ""
