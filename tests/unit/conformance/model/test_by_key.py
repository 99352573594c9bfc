# SPDX-License-Identifier: Apache-2.0
"""Values are grouped by their key, in the order in which they come."""

from __future__ import annotations

from conformance.model.by_key import by_key


def test_keys_and_values_keep_their_order() -> None:
    found = by_key([("b", 2), ("a", 3), ("b", 1)])
    assert list(found.items()) == [("b", [2, 1]), ("a", [3])]
    assert by_key([]) == {}
