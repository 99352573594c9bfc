# SPDX-License-Identifier: Apache-2.0
"""What birdcl of a Linux node lists follows the sessions of the cluster."""

from __future__ import annotations

import pytest

from hybridlab.networks.l2bridge.bgp import Wrong
from hybridlab.windows.host import HostRefused
from tests.unit.hybridlab.networks.test_bgp import L1, L2, W1, Town


def told(town: Town, node: str) -> dict[str, tuple[str, str]]:
    """Name of each protocol to its state and what is said of it."""
    return {
        str(row["name"]): (str(row["state"]), str(row["info"]))
        for row in town.listed(node, "show protocols")
    }


def name(town: Town, node: str) -> str:
    return f"Mesh_{town.machines[node].address.replace('.', '_')}"


def test_a_healthy_mesh_is_established() -> None:
    town = Town()
    seen = told(town, L1)
    assert set(seen) == {"static1", "kernel1", "device1", "direct1"} | {
        name(town, n) for n in town.machines if n != L1
    }
    assert {seen[name(town, node)] for node in (L2, W1)} == {("up", "Established")}


@pytest.mark.parametrize(
    ("what", "where"),
    [("down", frozenset((L1, W1))), ("unrendered", W1), ("stopped", (W1, "RemoteAccess"))],
)
def test_a_session_that_is_not_up_waits_at_the_end_that_others_come_to(
    what: Wrong, where: object
) -> None:
    town = Town()
    town.bgp.faults["f"] = (what, where)
    assert told(town, L1)[name(town, W1)] == ("start", "Passive"), (
        "as was seen where Windows has no BGP (calico#11714)"
    )
    assert told(town, L1)[name(town, L2)] == ("up", "Established")


def test_the_end_with_the_higher_address_asks() -> None:
    town = Town()
    town.bgp.faults["f"] = ("down", frozenset((L1, L2)))
    assert told(town, L1)[name(town, L2)] == ("start", "Passive")
    assert told(town, L2)[name(town, L1)][1].startswith("Active")


def test_without_bird_there_is_nobody_to_ask() -> None:
    town = Town()
    town.bgp.faults["f"] = ("stopped", (L1, "bird"))
    with pytest.raises(HostRefused, match="Unable to connect to server control socket"):
        town.listed(L1, "show protocols")
