# SPDX-License-Identifier: Apache-2.0
"""Known faults of Windows are told for the builds and planes that have them."""

from __future__ import annotations

import pytest

from conformance.facts.windows_troubles import windows_troubles
from conformance.model.facts import Fact, NodeFacts
from tests.unit.conformance.builders import a_node, a_windows_node


def on(name: str, build: int, revision: int, plane: str | None = "overlay") -> NodeFacts:
    return a_windows_node(name, build, windows_build=(build, revision), plane=Fact(plane, "a test"))


OLD = "overlay networks of pods do not work before the update of October 2025 (rancher#50915)"


@pytest.mark.parametrize(
    ("nodes", "named"),
    [
        ([on("w1", 26100, 6898)], "w1 (26100.6898)"),
        ([on("w1", 26100, 6899)], ""),
        ([on("w1", 26100, 1, None)], "w1 (26100.1)"),
        ([on("w1", 26100, 1, "l2bridge")], ""),
        ([on("w1", 20348, 1)], ""),
        ([a_node("l1"), a_windows_node("w1", windows_build=None)], ""),
        ([on("w1", 26100, 1), on("w2", 26100, 2)], "w1 (26100.1), w2 (26100.2)"),
    ],
)
def test_a_build_before_its_mending_revision_is_named_where_pods_have_an_overlay(
    nodes: list[NodeFacts], named: str
) -> None:
    expected = [f"known defect of Windows on {named}: {OLD}"] if named else []
    assert windows_troubles(nodes) == expected
