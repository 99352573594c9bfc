# SPDX-License-Identifier: Apache-2.0
"""IPAM: which addresses a node's pods get, what Windows keeps back, and how it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hybridlab.calico.address_wishes import wish_of
from hybridlab.calico.ipam_objects import affinity_object, block_object, handle_object
from hybridlab.calico.resources import CalicoResources
from hybridlab.networks.contract.addresses import AddressError, Wish
from hybridlab.networks.ipam.ipam import (
    BLOCK_LIMIT,
    EXHAUSTED,
    IPAM,
    NO_POOL,
    STRICT_AFFINITY,
    IPAMError,
    Pool,
)
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


@pytest.mark.parametrize(
    ("size", "pods"), [(24, 252), (25, 124), (26, 60), (27, 28), (28, 12), (29, 4)]
)
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
    assert [str(block.cidr) for block in subject.blocks_of("l")] == [
        "192.168.0.0/29",
        "192.168.0.8/29",
    ]


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
    assert [subject.assign("l", f"n{number}", POD) for number in range(2)] == [
        "192.168.0.5",
        "192.168.0.1",
    ]


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


def test_unreserved_the_next_windows_pod_gets_the_host_endpoints_address_and_reserving_again_waits_for_it() -> (
    None
):
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
    assert handle["spec"] == {
        "handleID": "Calico.ABC",
        "block": {"192.168.0.0/29": 1},
        "deleted": False,
    }
    affinity = affinity_object(subject.blocks_of("l")[0], CalicoResources(load("default")))
    assert affinity["metadata"]["name"] == "l-192-168-0-0-29"
    assert affinity["spec"] == {
        "cidr": "192.168.0.0/29",
        "node": "l",
        "state": "confirmed",
        "type": "host",
        "deleted": False,
    }


def two_pools(**first: object) -> IPAM:
    nodes = [machine("w", "windows"), machine("l", "linux")]
    own = Pool(name="default", cidr="192.168.0.0/24", **first)  # type: ignore[arg-type]
    return IPAM(nodes, [own, Pool(name="second", cidr="10.9.0.0/24")], strict_affinity=True)


def networks(subject: IPAM, node: str) -> list[str]:
    return [str(block.cidr) for block in subject.blocks_of(node)]


@pytest.mark.parametrize("named", ["second", "10.9.0.0/24"])
def test_a_wish_for_another_pool_gets_a_windows_node_a_second_block(named: str) -> None:
    subject = two_pools()
    assert subject.assign("w", "h1", POD) == "192.168.0.3"
    assert subject.assign("w", "h2", POD, Wish(pools=(named,))) == "10.9.0.3"
    assert networks(subject, "w") == ["192.168.0.0/26", "10.9.0.0/26"]
    assert subject.assign("w", "h3", POD, Wish(pools=(named,))) == "10.9.0.4"


def test_a_windows_node_whose_pool_is_disabled_gets_a_block_of_the_next() -> None:
    subject = two_pools()
    subject.assign("w", "h1", POD)
    subject.pools = (replace(subject.pools[0], disabled=True), subject.pools[1])
    assert subject.assign("w", "h2", POD) == "10.9.0.3"
    assert networks(subject, "w") == ["192.168.0.0/26", "10.9.0.0/26"]


def test_within_the_pools_of_a_request_windows_has_one_block() -> None:
    subject = two_pools(block_size=29)
    for number in range(4):
        subject.assign("w", f"h{number}", POD, Wish(pools=("default",)))
    with pytest.raises(IPAMError, match=BLOCK_LIMIT):
        subject.assign("w", "one-more", POD, Wish(pools=("default",)))


@pytest.mark.parametrize(
    ("pools", "refusal"),
    [
        (("nowhere",), 'error parsing pool "nowhere": invalid CIDR address: nowhere'),
        (("40.0.0.0/24",), r"the given pool \(40\.0\.0\.0/24\) does not exist, or is not enabled"),
        (
            ("second", "default"),
            r"the given pool \(192\.168\.0\.0/24\) does not exist, or is not enabled",
        ),
    ],
)
def test_a_pool_that_is_not_there_or_disabled_is_refused(
    pools: tuple[str, ...], refusal: str
) -> None:
    with pytest.raises(IPAMError, match=refusal):
        two_pools(disabled=True).assign("w", "h", POD, Wish(pools=pools))


def test_an_address_that_is_asked_for_is_given_once_with_a_block_of_its_own() -> None:
    subject = two_pools()
    subject.assign("w", "h1", POD)
    assert subject.assign("w", "h2", POD, Wish(address="10.9.0.70")) == "10.9.0.70"
    assert networks(subject, "w") == ["192.168.0.0/26", "10.9.0.64/26"]
    with pytest.raises(IPAMError, match="address already assigned in block"):
        subject.assign("w", "h3", POD, Wish(address="10.9.0.70"))
    with pytest.raises(IPAMError, match="address already assigned in block"):
        subject.assign("w", "h4", POD, Wish(address="10.9.0.65"))  # the gateway's
    with pytest.raises(
        IPAMError, match=r"Block affinity \(host:w\) does not match provided \(l:host\)"
    ):
        subject.assign("l", "h5", POD, Wish(address="10.9.0.80"))
    with pytest.raises(IPAMError, match=r"172\.16\.0\.1 is not in a configured pool"):
        subject.assign("l", "h6", POD, Wish(address="172.16.0.1"))
    assert subject.release("h2") == ("10.9.0.70",)


def test_annotations_are_wishes_and_a_pods_go_before_its_namespaces() -> None:
    pools = "cni.projectcalico.org/ipv4pools"
    assert wish_of({}, {}) == Wish()
    assert wish_of({}, {pools: '["a"]'}) == Wish(pools=("a",))
    assert wish_of({pools: '["b", "c"]'}, {pools: '["a"]'}) == Wish(pools=("b", "c"))
    assert wish_of({"cni.projectcalico.org/ipAddrs": '["10.9.0.9"]'}, {}) == Wish(
        address="10.9.0.9"
    )


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("ipv4pools", "second", "cni.projectcalico.org/ipv4pools: Expecting value"),
        ("ipv4pools", '{"a": 1}', "is not a list of strings"),
        ("ipAddrs", '["x"]', "cni.projectcalico.org/ipAddrs: Expected 4 octets"),
        (
            "ipAddrs",
            '["10.9.0.9", "10.9.0.10"]',
            "not emulated: cni.projectcalico.org/ipAddrs with 2 addresses",
        ),
        ("ipAddrsNoIpam", '["10.9.0.9"]', "requested feature is not enabled: ip_addrs_no_ipam"),
    ],
)
def test_annotations_that_cannot_be_read_are_refused(name: str, text: str, refusal: str) -> None:
    with pytest.raises(AddressError, match=refusal):
        wish_of({f"cni.projectcalico.org/{name}": text}, {})
