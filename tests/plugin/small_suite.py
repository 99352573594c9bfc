# SPDX-License-Identifier: Apache-2.0
"""A suite with one small test for each kind of choice that a run makes."""

from __future__ import annotations

SUITE = """
@verifies("VXLAN-1")
def test_overlay(): pass
@verifies("CONN-6")
def test_names(): pass
@verifies("ENC-3")
def test_modes(): pass
@verifies("RST-3")
def test_felix(): pass
@verifies("VXLAN-9", active=True)
def test_vni(): pass
@smoke()
def test_agents(): pass
"""
