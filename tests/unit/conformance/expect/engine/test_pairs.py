# SPDX-License-Identifier: Apache-2.0
"""Paths may be named as products, singly, or by anything that yields them."""

from __future__ import annotations

from conformance.expect.engine.pairs import each, pairs_of
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import target

A, B = a_workload("a"), a_workload("b")
X, Y = target("192.168.0.1"), target("192.168.0.2")


def test_a_pair_is_a_product_of_its_halves() -> None:
    assert each([(A, X)]) == [(A, X)]
    assert each([([A, B], [X, Y])]) == [(A, X), (A, Y), (B, X), (B, Y)]
    assert each([((A, B), (X, Y))]) == [(A, X), (A, Y), (B, X), (B, Y)]


def test_anything_else_yields_single_routes() -> None:
    assert each([((item, X) for item in (A, B)), (B, Y)]) == [(A, X), (B, X), (B, Y)]
    assert each([((A, X), (B, Y))]) == [(A, X), (B, Y)]
    assert each(iter([(A, X), (B, Y)])) == [(A, X), (B, Y)]


def test_a_route_that_is_named_twice_is_one_route() -> None:
    assert each([(A, X), ([A, B], X)]) == [(A, X), (B, X)]


def test_sources_without_targets_are_routes() -> None:
    assert pairs_of([(A, X), (B, Y)], None) == [(A, X), (B, Y)]
    assert pairs_of((item for item in (A, B)), X) == [(A, X), (B, X)]
    assert pairs_of(A, [X, Y]) == [(A, X), (A, Y)]
