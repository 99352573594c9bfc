# SPDX-License-Identifier: Apache-2.0
"""A pod's address is its IPv4 address if it has one, wherever that is in the list."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.kube.fields import pod_address


@pytest.mark.parametrize(
    ("status", "address"),
    [
        ({"podIP": "10.0.0.7"}, "10.0.0.7"),
        ({"podIP": "fd00::7", "podIPs": [{"ip": "fd00::7"}, {"ip": "10.0.0.7"}]}, "10.0.0.7"),
        ({"podIP": "fd00::7", "podIPs": [{"ip": "fd00::7"}]}, "fd00::7"),
        ({"podIPs": None}, ""),
    ],
)
def test_a_pod_is_asked_by_its_ipv4_address(status: dict[str, Any], address: str) -> None:
    assert pod_address(status) == address
