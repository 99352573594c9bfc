# SPDX-License-Identifier: Apache-2.0
"""The committed worlds show misreadings that were not used to choose them."""

from __future__ import annotations

from tests.worlds import planted


def test_at_least_four_in_five_are_seen() -> None:
    found = planted.seen()
    assert sum(map(bool, found.values())) >= planted.LEAST * len(found)
    assert len(found) >= 51
    # these two were seen by no world before a seat had the other namespace's label, and two
    # policies of two namespaces the same text
    assert found["shared_sets"]
    assert found["pods_for_namespaces"]
