"""IPAM: which addresses a node's pods get, what Windows keeps back, and how it refuses."""

from __future__ import annotations

import pytest

from hybridlab.calico.ipam_objects import affinity_object, block_object, handle_object
from hybridlab.calico.resources import CalicoResources
from hybridlab.networks.ipam.ipam import BLOCK_LIMIT, EXHAUSTED, IPAM, NO_POOL, STRICT_AFFINITY, IPAMError, Pool
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import NodeGroup

POD = {"pod": "p", "namespace": "d", "node": "w"}


def machine(name: str, os: str) -> Machine:
    group = NodeGroup(name=name, os=os)  # type: ignore[arg-type]
    return Machine(name=name, index=0, group=group, address="10.0.0.1", prefix_length=24)


def ipam(cidr: str = "192.168.0.0/24", size: int = 26, **settings: object) -> IPAM:
    nodes = [machine("w", "windows"), machine("l", "linux"), machine("m", "linux")]
    pools = [Pool(name="default", cidr=cidr, block_size=size)]
    return IPAM(nodes, pools, **{"strict_affinity": True, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "pods"), [(24, 252), (25, 124), (26, 60), (27, 28), (28, 12), (29, 4)])
def test_windows_reserves_four_addresses_whatever_the_blocks_size(size: int, pods: int) -> None:
    subject = ipam("192.168.0.0/16", size)
    block = subject.ensure_block("w")
    assert sorted(block.used) == [0, 1, 2, block.size - 1]
    given = [subject.assign("w", f"h{number}", POD) for number in range(pods)]
    assert given == [str(block.cidr[ordinal]) for ordinal in range(3, block.size - 1)]
    with pytest.raises(IPAMError, match=BLOCK_LIMIT):
        subject.assign("w", "one-more", POD)


def test_a_full_windows_block_serves_again_once_a_pod_is_gone() -> None:
    subject = ipam(size=29)
    for number in range(4):
        subject.assign("w", f"h{number}", POD)
    assert subject.release("h2") == ("192.168.0.5",)
    assert subject.assign("w", "next", POD) == "192.168.0.5"
    assert len(subject.blocks_of("w")) == 1


def test_a_windows_node_has_its_block_before_its_first_pod_and_no_second_one() -> None:
    subject = ipam()
    block = subject.ensure_block("w")
    assert subject.ensure_block("w") is block
    assert subject.assign("w", "h", POD) == "192.168.0.3"


def test_linux_uses_every_address_and_takes_more_blocks() -> None:
    subject = ipam(size=29)
    given = [subject.assign("l", f"h{number}", POD) for number in range(9)]
    assert given[0] == "192.168.0.0"
    assert given[8] == "192.168.0.8"
    assert [str(block.cidr) for block in subject.blocks_of("l")] == ["192.168.0.0/29", "192.168.0.8/29"]


def test_max_blocks_per_host_limits_linux() -> None:
    subject = ipam(size=29, max_blocks_per_host=1)
    for number in range(8):
        subject.assign("l", f"h{number}", POD)
    with pytest.raises(IPAMError, match=BLOCK_LIMIT):
        subject.assign("l", "one-more", POD)


def test_the_address_that_was_freed_longest_ago_is_used_first() -> None:
    subject = ipam(size=29)
    for number in range(8):
        subject.assign("l", f"h{number}", POD)
    subject.release("h5")
    subject.release("h1")
    assert [subject.assign("l", f"n{number}", POD) for number in range(2)] == ["192.168.0.5", "192.168.0.1"]


def test_with_strict_affinity_nobody_borrows_from_windows() -> None:
    subject = ipam("192.168.0.0/28", 29)
    subject.ensure_block("w")
    for number in range(8):
        subject.assign("l", f"h{number}", POD)
    with pytest.raises(IPAMError) as refused:
        subject.assign("l", "one-more", POD)
    assert str(refused.value) == EXHAUSTED
    assert list(subject.blocks_of("w")[0].foreign()) == []


def test_without_strict_affinity_linux_borrows_when_no_block_is_left() -> None:
    subject = ipam("192.168.0.0/28", 29, strict_affinity=False)
    subject.assign("m", "m0", {"node": "m"})
    for number in range(8):
        subject.assign("l", f"h{number}", {"node": "l"})
    assert subject.assign("l", "borrowed", {"node": "l"}) == "192.168.0.1"
    assert list(subject.blocks_of("m")[0].foreign()) == [("192.168.0.1", "l")]
    assert len(subject.blocks_of("l")) == 1
    subject.release("borrowed")
    assert list(subject.blocks_of("m")[0].foreign()) == []


def test_without_strict_affinity_windows_gets_nothing_and_keeps_what_it_has() -> None:
    subject = ipam()
    assert subject.assign("w", "before", POD) == "192.168.0.3"
    subject.strict_affinity = False
    with pytest.raises(IPAMError, match=STRICT_AFFINITY):
        subject.assign("w", "h", POD)
    subject.strict_affinity = True
    assert subject.assign("w", "h", POD) == "192.168.0.4"


def test_windows_cannot_use_blocks_smaller_than_29_and_linux_can() -> None:
    subject = ipam(size=30)
    with pytest.raises(IPAMError, match=NO_POOL):
        subject.assign("w", "h", POD)
    assert subject.assign("l", "h", POD) == "192.168.0.0"


def test_pools_that_are_disabled_or_not_for_the_node_are_not_used() -> None:
    subject = ipam()
    subject.pools = (
        Pool(name="off", cidr="10.1.0.0/24", disabled=True),
        Pool(name="gpu", cidr="10.2.0.0/24", selects=lambda labels: "gpu" in labels),
        Pool(name="rest", cidr="10.3.0.0/24"),
    )
    subject.node_labels["l"] = {"gpu": "yes"}
    assert subject.assign("l", "a", POD) == "10.2.0.0"
    assert subject.assign("m", "b", POD) == "10.3.0.0"


def test_unreserved_the_next_windows_pod_gets_the_host_endpoints_address_and_reserving_again_waits_for_it() -> None:
    subject = ipam()
    subject.ensure_block("w")
    subject.unreserve("w")
    assert subject.assign("w", "thief", POD) == "192.168.0.2"
    assert subject.assign("w", "honest", POD) == "192.168.0.3"
    assert subject.reserve("w") == ("192.168.0.2",)
    block = subject.blocks_of("w")[0]
    assert {0, 1, 63} <= set(block.used)
    subject.release("thief")
    assert block.used[2].handle == "windows-reserved-ipam-handle"
    assert 2 not in block.free


def test_the_block_object_says_what_the_block_is() -> None:
    subject = ipam(size=29)
    subject.ensure_block("w")
    subject.assign("w", "Calico.abc", POD)
    block = subject.blocks_of("w")[0]
    obj = block_object(block)
    assert obj["metadata"]["name"] == "192-168-0-0-29"
    assert obj["spec"]["affinity"] == "host:w"
    assert obj["spec"]["allocations"] == [0, 0, 0, 1, None, None, None, 0]
    assert obj["spec"]["attributes"] == [
        {"handle_id": "windows-reserved-ipam-handle", "secondary": {"note": "windows host rsvd"}},
        {"handle_id": "Calico.abc", "secondary": POD},
    ]
    assert obj["spec"]["unallocated"] == [4, 5, 6]
    assert obj["spec"]["sequenceNumberForAllocation"]["3"] == obj["spec"]["sequenceNumber"]


def test_handles_and_affinities() -> None:
    subject = ipam(size=29)
    subject.assign("l", "Calico.ABC", POD)
    handle = handle_object("Calico.ABC", subject.of_handle("Calico.ABC"))
    assert handle["metadata"]["name"] == "calico.abc"
    assert handle["spec"] == {"handleID": "Calico.ABC", "block": {"192.168.0.0/29": 1}, "deleted": False}
    affinity = affinity_object(subject.blocks_of("l")[0], CalicoResources(load("default")))
    assert affinity["metadata"]["name"] == "l-192-168-0-0-29"
    assert affinity["spec"] == {
        "cidr": "192.168.0.0/29",
        "node": "l",
        "state": "confirmed",
        "type": "host",
        "deleted": False,
    }
