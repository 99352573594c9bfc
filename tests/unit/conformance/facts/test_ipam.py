# SPDX-License-Identifier: Apache-2.0
"""Facts from IPAM's objects about a Windows node: its blocks, their reserved addresses, and the
blocks of its pods' addresses."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.facts.ipam import IpamFacts
from conformance.facts.objects import CalicoObjects
from tests.unit.conformance.builders import Obj, a_pod, an_object
from tests.unit.conformance.facts.test_objects import CRD, V3, Objects, facts, values

CIDR = "192.168.7.64/26"
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
ALL = (0, 1, 2, 63)


def block(where: str = "win", reserved: tuple[int, ...] = ALL, cidr: str = CIDR) -> Obj:
    allocations = [
        0 if ordinal in reserved else (1 if ordinal == 5 else None) for ordinal in range(64)
    ]
    attributes = [{"handle_id": "windows-reserved-ipam-handle"}, {"handle_id": "Calico.abc"}]
    return an_object(
        cidr,
        cidr=cidr,
        affinity=f"host:{where}",
        allocations=allocations,
        attributes=attributes,
        unallocated=[at for at, index in enumerate(allocations) if index is None],
    )


def affinity(where: str = "win", cidr: str = CIDR, **more: Any) -> Obj:
    return an_object(
        cidr, **({"node": where, "cidr": cidr, "state": "confirmed", "deleted": "false"} | more)
    )


def pod(name: str, address: str, *, made: str = LATE, phase: str = "Running", **spec: Any) -> Obj:
    status = {"podIP": address, "phase": phase}
    return a_pod(name, "win", namespace="demo", creationTimestamp=made, spec=spec, status=status)


def reads(
    *there: Obj,
    affinities: tuple[Obj, ...] = (affinity(),),
    reserving: tuple[Obj, ...] = (),
    pools: tuple[Obj, ...] = (),
) -> IpamFacts:
    """Of blocks and pods."""
    served = {
        (V3, "BlockAffinity"): list(affinities),
        (V3, "IPReservation"): list(reserving),
        (V3, "IPPool"): list(pools),
        (CRD, "IPAMBlock"): [obj for obj in there if "cidr" in obj["spec"]],
        ("v1", "Pod"): [obj for obj in there if "nodeName" in obj["spec"]],
    }
    kube: Any = Objects(served)
    return IpamFacts(CalicoObjects(kube, facts()))


def test_a_node_without_pods_is_not_asked_about_its_pods() -> None:
    assert [node.name for node in reads(block(), pod("a", "192.168.7.70")).windows_with_pods] == [
        "win"
    ]
    assert reads(block(), pod("done", "192.168.7.70", phase="Succeeded")).windows_with_pods == ()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (reads(block()), "one block"),
        (reads(), "1 block: 192.168.7.64/26, which has no IPAMBlock"),
        (reads(block("lin")), "1 block: 192.168.7.64/26, whose IPAMBlock belongs to lin"),
        (
            reads(block(), affinities=(affinity(), affinity(cidr="192.168.9.0/26"))),
            "2 blocks: 192.168.7.64/26; 192.168.9.0/26, which has no IPAMBlock",
        ),
        (reads(block(), affinities=()), "no block"),
        (reads(block(), affinities=(affinity(state="pending"),)), "no block"),
        (reads(block(), affinities=(affinity(deleted="true"),)), "no block"),
        (
            reads(
                block(),
                block(cidr="192.168.9.0/26"),
                affinities=(affinity(), affinity(cidr="192.168.9.0/26")),
            ),
            "2 blocks: 192.168.7.64/26; 192.168.9.0/26",
        ),
        (
            reads(block(), affinities=(affinity(), affinity("lin"))),
            "1 block: 192.168.7.64/26, which node lin also has",
        ),
        (reads(block(), affinities=(affinity(), affinity("lin", state="pending"))), "one block"),
    ],
)
def test_a_block_is_a_node_s_where_its_affinity_and_the_block_say_so(
    found: IpamFacts, words: str
) -> None:
    assert values(found.blocks("win")) == {"blocks of node win": words}


def test_reservations_are_told_by_their_place_in_the_block() -> None:
    name = "reserved addresses in block 192.168.7.64/26 of node win"
    assert values(reads(block()).reserved("win")) == {name: ["first", "second", "third", "last"]}
    assert values(reads(block(reserved=(0, 1, 7))).reserved("win")) == {
        name: ["first", "second", "number 7"]
    }
    assert reads().reserved("win") == {}


def test_windows_reservations_in_blocks_of_others_are_told() -> None:
    blocks = [block(), block("lin", (), "192.168.8.0/26")]
    assert list(values(reads(*blocks).reserved_elsewhere()).values()) == [[]]
    found = reads(*blocks, block("lin", (0, 9), "192.168.9.0/26")).reserved_elsewhere()
    assert list(values(found).values()) == [["first, number 9 in 192.168.9.0/26 of lin"]]


def test_an_address_outside_its_nodes_block_is_told() -> None:
    pods = [
        pod("good", "192.168.7.70"),
        pod("stray", "192.168.9.9"),
        pod("over", "192.168.9.8", phase="Succeeded"),
    ]
    host = pod("host", "10.0.0.12", hostNetwork=True)
    assert values(reads(block(), *pods, host).places("win")) == {
        "address of pod demo/good on node win": "in a block of its node",
        "address of pod demo/stray on node win": "192.168.9.9, outside 192.168.7.64/26",
    }
    found = values(reads(pod("orphan", "192.168.7.70")).places("win"))
    assert list(found.values()) == ["192.168.7.70, outside the blocks of its node, which has none"]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("192.168.7.64", "192.168.7.64, first address of block 192.168.7.64/26"),
        ("192.168.7.65", "192.168.7.65, second address of block 192.168.7.64/26"),
        ("192.168.7.66", "192.168.7.66, third address of block 192.168.7.64/26"),
        ("192.168.7.127", "192.168.7.127, last address of block 192.168.7.64/26"),
        ("192.168.7.67", "not reserved"),
        ("192.168.7.126", "not reserved"),
    ],
)
def test_an_address_that_its_block_keeps_back_is_told(address: str, words: str) -> None:
    assert list(values(reads(block(), pod("one", address)).takings("win")).values()) == [words]


@pytest.mark.parametrize(
    ("reserved_at", "words"),
    [(EARLY, "192.168.7.70, reserved by IPReservation ours"), (LATE, "not reserved")],
)
def test_a_reservation_binds_pods_that_came_after_it(reserved_at: str, words: str) -> None:
    ours = an_object("ours", reservedCIDRs=["fd00::/64", "192.168.7.68/30"])
    ours["metadata"]["creationTimestamp"] = reserved_at
    found = reads(block(), pod("one", "192.168.7.70"), reserving=(ours,)).takings("win")
    assert list(values(found).values()) == [words]


def test_where_a_windows_node_has_ipv6_blocks_and_pods_too_its_ipv4_ones_are_read() -> None:
    other = "fd00:10::/122"
    found = reads(
        block(), block(cidr=other), pod("four", "192.168.7.70"), pod("six", "fd00:10::7"),
        affinities=(affinity(), affinity(cidr=other)),
    )  # fmt: skip
    four = "address of pod demo/four on node win"
    assert values(found.places("win")) == {four: "in a block of its node"}
    assert values(found.takings("win")) == {four: "not reserved"}
    assert list(values(found.reserved("win"))) == [
        "reserved addresses in block 192.168.7.64/26 of node win"
    ]


def test_a_block_leaves_to_pods_all_but_four_addresses_and_counts_who_has_one() -> None:
    assert reads(block()).own_block("win") == (CIDR, 60, 59)
    assert reads(block(reserved=())).own_block("win") == (CIDR, 60, 59)  # nothing is reserved
    with pytest.raises(MissingCapability, match="node win has 0 blocks"):
        reads().own_block("win")


def test_free_addresses_are_counted_by_the_node_that_has_them() -> None:
    pool = an_object("p", cidr="192.168.7.0/24")
    of_none = block("", reserved=(), cidr="192.168.7.128/26")
    found = reads(block(), of_none, pools=(pool, an_object("six", cidr="fd00::/64")))
    assert found.vacant() == {"": 256 - 64 - 1, "win": 59}
    assert (found.owner("192.168.7.70"), found.owner("192.168.7.130")) == ("win", "")
    assert found.owner("192.168.7.1") == ""
