# SPDX-License-Identifier: Apache-2.0
"""A test needs the rights that its fixtures need: ``--plan`` names the missing rights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.plugin.marked import _uses


@pytest.mark.parametrize(
    ("fixture", "use"), [("own_pool", "pools"), ("own_node_status", "node-status")]
)
def test_a_test_of_the_whole_cluster_needs_the_role_of_its_name(fixture: str, use: str) -> None:
    def item(*names: str) -> Any:
        return SimpleNamespace(fixturenames=names, get_closest_marker=lambda name: None)

    assert use in _uses(item(fixture), [], catalog(), nodes=False)
    assert use not in _uses(item("deployer"), [], catalog(), nodes=False)
