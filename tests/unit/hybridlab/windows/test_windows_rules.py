# SPDX-License-Identifier: Apache-2.0
"""Decisions of a Windows node itself: DSR and reserved addresses."""

from __future__ import annotations

import pytest

from hybridlab.windows.dsr import supports_dsr, uses_dsr
from hybridlab.windows.reserved import gateway, reserved_addresses, source_vip


@pytest.mark.parametrize(
    ("build", "able"),
    [
        ("10.0.17763.1431", False),
        ("10.0.17763.1432", True),
        ("10.0.17763.6414", True),
        ("10.0.17134.2000", False),
        ("10.0.18316.1", False),
        ("10.0.18317.0", True),
        ("10.0.20348.169", True),
    ],
)
def test_dsr_takes_the_build_and_the_flag(build: str, able: bool) -> None:
    assert supports_dsr(build) is able
    assert uses_dsr(build, enable_dsr=True) is able
    assert not uses_dsr(build, enable_dsr=False)


@pytest.mark.parametrize("build", ["", "17763", "10.0.17763", "10.1.17763.1", "10.0.x.1"])
def test_a_build_of_another_shape_is_refused(build: str) -> None:
    with pytest.raises(ValueError, match=r"10\.0|invalid literal"):
        supports_dsr(build)


def test_the_reserved_addresses_of_a_block() -> None:
    reserved = ("192.168.4.64", "192.168.4.65", "192.168.4.66", "192.168.4.127")
    assert reserved_addresses("192.168.4.64/26") == reserved
    assert (gateway("192.168.4.64/26"), source_vip("192.168.4.64/26")) == reserved[1:3]
