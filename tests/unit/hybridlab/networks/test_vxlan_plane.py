# SPDX-License-Identifier: Apache-2.0
"""What VXLAN makes of a pod, a Windows node and the source that Services show."""

from __future__ import annotations

import pytest

from hybridlab.networks.vxlan.plane import Vxlan, pod_mac, vtep_mac
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines

BLOCK = "192.168.4.64/26"


def plane(*overrides: str) -> Vxlan:
    return Vxlan(load("default", overrides))


@pytest.mark.parametrize(
    ("build", "flag", "source"),
    [
        ("10.0.20348.1", True, None),
        ("10.0.20348.1", False, "192.168.4.66"),
        ("10.0.17763.1", True, "192.168.4.66"),
    ],
)
def test_service_traffic_keeps_its_source_with_dsr_and_else_has_the_host_endpoint_s(
    build: str, flag: bool, source: str | None
) -> None:
    made = plane(f"nodes.windows-2022.windows_build={build}")
    machine = next(machine for machine in machines(made.profile) if machine.name == "windows-2022")
    assert made.service_source(machine, BLOCK, enable_dsr=flag) == source


def test_macs_and_mtu() -> None:
    assert pod_mac("192.168.40.166") == "0e:2a:c0:a8:28:a6"
    assert vtep_mac("win-1").startswith("00:15:5d:")
    assert vtep_mac("win-1") != vtep_mac("win-2")
    assert (plane().mtu(None), plane().mtu(1400)) == (1450, 1400)


def test_windows_takes_no_vni_below_4096() -> None:
    made = plane("network.plane.vni=4095")
    machine = next(machine for machine in machines(made.profile) if machine.os == "windows")
    node = made.windows_node(machine, "10-calico.conf")
    assert made.refusal(node, {}) == "Windows does not support VXLANVNI < 4096"
    with pytest.raises(ValueError, match="Windows does not support VXLANVNI < 4096"):
        made.started_network(node, BLOCK)
