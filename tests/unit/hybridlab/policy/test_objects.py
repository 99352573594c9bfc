# SPDX-License-Identifier: Apache-2.0
"""The data that Felix takes from objects other than policies."""

from __future__ import annotations

import pytest

from hybridlab.policy.objects import slice_members


@pytest.mark.parametrize(
    ("family", "address", "members"),
    [
        ("IPv4", "10.0.0.1", (("10.0.0.1",), ("10.0.0.1,tcp,80",))),
        ("IPv6", "fd00::1", ((), ())),
        ("FQDN", "web.example.org", ((), ())),
    ],
)
def test_members_of_a_service_are_addresses_of_ipv4(
    family: str, address: str, members: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    """Felix skips names (felix/serviceindex/serviceindex.go)."""
    found = {
        "addressType": family,
        "endpoints": [{"addresses": [address]}],
        "ports": [{"port": 80}],
    }
    assert slice_members(found) == members
