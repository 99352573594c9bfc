"""What a Windows node decides by itself: DSR, service source, reserved addresses, MACs, MTU."""

from __future__ import annotations

from typing import Literal

import pytest

from hybridlab.windows.dsr import supports_dsr, uses_dsr
from hybridlab.windows.hns import pod_mac, pod_mtu, vtep_mac
from hybridlab.windows.reserved import gateway, reserved_addresses, source_vip
from hybridlab.windows.snat import service_source


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


@pytest.mark.parametrize(
    ("mode", "build", "flag", "source"),
    [
        ("overlay", "10.0.20348.1", True, None),
        ("l2bridge", "10.0.20348.1", True, None),
        ("overlay", "10.0.20348.1", False, "192.168.4.66"),
        ("overlay", "10.0.17763.1", True, "192.168.4.66"),
        ("l2bridge", "10.0.17763.1", True, "10.0.0.5"),
    ],
)
def test_service_traffic_keeps_its_source_with_dsr_and_else_has_the_one_of_its_mode(
    mode: Literal["overlay", "l2bridge"], build: str, flag: bool, source: str | None
) -> None:
    found = service_source(mode, build, enable_dsr=flag, block="192.168.4.64/26", node_address="10.0.0.5")
    assert found == source


def test_the_reserved_addresses_of_a_block() -> None:
    reserved = ("192.168.4.64", "192.168.4.65", "192.168.4.66", "192.168.4.127")
    assert reserved_addresses("192.168.4.64/26") == reserved
    assert (gateway("192.168.4.64/26"), source_vip("192.168.4.64/26")) == reserved[1:3]


def test_macs_and_mtu() -> None:
    assert pod_mac("192.168.40.166") == "0e:2a:c0:a8:28:a6"
    assert vtep_mac("win-1").startswith("00:15:5d:")
    assert vtep_mac("win-1") != vtep_mac("win-2")
    assert pod_mtu(1500) == 1450
    assert pod_mtu(1500, 1400) == 1400
