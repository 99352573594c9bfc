# SPDX-License-Identifier: Apache-2.0
"""What the data plane is told about a machine."""

from __future__ import annotations

import pytest

from hybridlab.cluster.installs.installed import Installed
from hybridlab.controllers.manager import _node_spec
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines


@pytest.mark.parametrize("reset", ["remote", "both"])
def test_who_is_reset_is_the_profiles_choice(reset: str) -> None:
    profile = load("default", [f"windows.reset={reset}"])
    specs = {
        machine.os: _node_spec(machine, profile, Installed(profile, plane_of(profile)))
        for machine in machines(profile)
    }
    assert specs["windows"].reset == reset


def test_the_peer_alone_is_reset_unless_a_profile_says_otherwise() -> None:
    assert load("default", []).windows.reset == "remote"
