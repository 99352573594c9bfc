# SPDX-License-Identifier: Apache-2.0
"""Each claim that is decided by reading has a row in which it holds and a row in which it does
not; claims about nodes have them for each node. Claims that once were green by mistake are red."""

from __future__ import annotations

import pytest

from tests.detection.table import RED, Row, shipped

TABLE = shipped()
WINDOWS = frozenset({"windows-2019", "windows-2022"})
LINUX = frozenset({"linux-1", "linux-2", "linux-3"})
HOLDS = ("CONFIRMED", "NOT_OBSERVED")
OF_THE_CLUSTER = (
    "PLAT-1", "PLAT-2", "PLAT-3", "PLAT-4", "PLAT-5", "PLAT-7", "PLAT-10", "AKS-2", "INST-2", "XOP-1", "XOP-2", "ENC-1",
    "ENC-2", "ENC-4", "ENC-6", "IPAM-5", "XPOL-15", "BGP-5", "EKS-1", "FL-2", "FL-3",
)  # fmt: skip
OF_WINDOWS_NODES = (
    "DS-1", "INST-3", "XIPAM-2", "XIPAM-3", "VXLAN-5", "UNSUP-3", "UNSUP-5", "XSTAT-1", "XLC-1", "SVC-3", "BGP-1",
    "BGP-4", "BGP-6", "XBGP-1", "PLAT-12",
)  # fmt: skip
OF_LINUX_NODES = ("BGP-3",)
OTHERWISE = {
    "PLAT-11": "the clusters that it is about are those of its table, so that nothing makes it red",
    "XLC-3": "of one build: it is there in build-breaks-the-network, and not in build-without-network",
}
"""Claims that are decided by reading and have not both rows, and why."""


def holding(claim: str) -> list[str]:
    """Return the profiles on whose healthy lab a claim holds, and the rows on which it holds."""
    profiles = [
        name for name in ("default", *TABLE.profiles) if TABLE.clean_of(name).get(claim) in HOLDS
    ]
    return [*profiles, *(row.name for row in TABLE.rows if row.expect.get(claim) in HOLDS)]


def red(claim: str) -> list[Row]:
    """Rows in which a claim does not hold; a known issue that can happen is red where it is there."""
    found = [row for row in TABLE.rows if {row.expect.get(claim), row.on_node.get(claim)} & {*RED}]
    return found or [row for row in TABLE.rows if row.expect.get(claim) == "CONFIRMED"]


def nodes(claim: str) -> set[str]:
    """The nodes of rows in which a claim does not hold on one node."""
    told = [" ".join((row.name, row.edit, *row.faults)) for row in red(claim)]
    return {one for one in (*WINDOWS, *LINUX) for text in told if one in text}


@pytest.mark.parametrize("claim", [*OF_THE_CLUSTER, *OF_WINDOWS_NODES, *OF_LINUX_NODES])
def test_what_is_read_holds_in_one_row_and_not_in_another(claim: str) -> None:
    assert holding(claim)
    assert red(claim)


@pytest.mark.parametrize(
    ("claim", "each"),
    [
        *((claim, WINDOWS) for claim in OF_WINDOWS_NODES),
        *((claim, LINUX) for claim in OF_LINUX_NODES),
    ],
)
def test_what_is_read_of_nodes_is_red_on_each(claim: str, each: frozenset[str]) -> None:
    assert each <= nodes(claim)


@pytest.mark.parametrize("claim", ["INST-2", "INST-3", "XSTAT-1", "UNSUP-5", "SVC-3"])
def test_what_calico_itself_made_lifts_a_limitation_and_never_violates_it(claim: str) -> None:
    assert {row.expect.get(claim) for row in red(claim)} | {
        row.on_node.get(claim) for row in red(claim)
    } >= {"LIFTED"}
    assert not [
        row.name
        for row in TABLE.rows
        if "VIOLATED" in (row.expect.get(claim), row.on_node.get(claim))
    ]


@pytest.mark.parametrize(
    ("claim", "row"),
    [("PLAT-1", "cluster-dns-on-windows"), ("PLAT-4", "no-kube-controllers"), ("PLAT-7", "docker")],
)
def test_what_was_green_on_a_wrong_cluster_is_red_there(claim: str, row: str) -> None:
    assert next(one for one in TABLE.rows if one.name == row).expect[claim] == "UNMET"


@pytest.mark.parametrize("claim", OTHERWISE)
def test_what_has_not_both_rows_says_why(claim: str) -> None:
    assert not holding(claim) or not any(row.expect.get(claim) in RED for row in TABLE.rows)
