# SPDX-License-Identifier: Apache-2.0
"""ICMP echo of the ping commands."""

from __future__ import annotations

from hybridlab.runtime.applets import icmp


def test_ping_commands_after_each_other_are_flows_of_their_own_to_the_kernel() -> None:
    assert len({icmp.new_identity() for _ in range(0x10000)}) == 0x10000
