# SPDX-License-Identifier: Apache-2.0
"""host-local: which addresses of its podCIDR a node's pods get, and what the cluster's objects say of it."""

from __future__ import annotations

import json

import pytest

from hybridlab.cluster.installs import calico, operator
from hybridlab.networks.contract.addresses import AddressError, Wish
from hybridlab.networks.contract.routing import BlockFacts, pod_cidr_facts
from hybridlab.networks.ipam.host_local import HostLocal
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.check import ProfileError
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines

SETTINGS = ("network.ipam=host-local",)


@pytest.fixture
def source() -> HostLocal:
    profile = load("bgp", SETTINGS)
    return HostLocal(profile, machines(profile))


@pytest.mark.parametrize(
    ("node", "first", "count"),
    [("linux-1", "192.168.1.2", 253), ("windows-2022", "192.168.4.3", 252)],
)
def test_a_nodes_pods_have_its_pod_cidr_but_for_what_is_kept(
    source: HostLocal, node: str, first: str, count: int
) -> None:
    network = first.rpartition(".")[0]
    given = [source.assign(node, f"h{number}", {}) for number in range(count)]
    assert (given[0], given[-1], len(set(given))) == (first, f"{network}.254", count)
    with pytest.raises(
        AddressError, match=rf"no IP addresses available in range set: {first}-{network}\.254"
    ):
        source.assign(node, "one more", {})


def test_what_was_freed_comes_last(source: HostLocal) -> None:
    assert [source.assign("linux-1", name, {}) for name in "abc"] == [
        f"192.168.1.{tail}" for tail in (2, 3, 4)
    ]
    assert (source.release("b"), source.release("b")) == (("192.168.1.3",), ())
    assert source.assign("linux-1", "d", {}) == "192.168.1.5"
    for tail in range(6, 255):
        assert source.assign("linux-1", f"h{tail}", {}) == f"192.168.1.{tail}"
    assert source.assign("linux-1", "last", {}) == "192.168.1.3"


def test_a_pod_may_name_a_free_address_of_its_node(source: HostLocal) -> None:
    assert source.assign("windows-2022", "a", {}, Wish(address="192.168.4.77")) == "192.168.4.77"
    with pytest.raises(
        AddressError, match=r"requested IP address 192\.168\.4\.77 is not available in range set"
    ):
        source.assign("windows-2022", "b", {}, Wish(address="192.168.4.77"))
    for kept in ("192.168.4.2", "192.168.1.9"):
        with pytest.raises(AddressError, match="failed to allocate all requested IPs"):
            source.assign("windows-2022", "c", {}, Wish(address=kept))
    assert (
        source.network_of("192.168.4.77") == source.own_network("windows-2022") == "192.168.4.0/24"
    )


def test_objects_and_files_say_host_local() -> None:
    profile = load("bgp", SETTINGS)
    plane = plane_of(profile)
    assert operator.installation(profile, plane)["spec"]["cni"] == {
        "type": "Calico",
        "ipam": {"type": "HostLocal"},
    }
    for config in operator.cni_config_maps(profile, plane, plane.declared()):
        plugin = json.loads(config["data"]["config"])["plugins"][0]
        assert plugin["ipam"] == {"type": "host-local", "subnet": "usePodCidr"}
    for name, obj in calico.objects(profile, plane, plane.declared()):
        if name == "daemonsets.apps":
            for container in obj["spec"]["template"]["spec"]["containers"]:
                told = {entry["name"]: entry.get("value") for entry in container["env"]}
                assert (told["USE_POD_CIDR"], "CNI_IPAM_TYPE" in told) == ("true", False)
    assert "Degraded" not in str(
        [each for each in operator.windows_status(profile, strict_affinity=False)["status"]["conditions"]
         if each["status"] == "True"]
    )  # fmt: skip


def test_a_nodes_pod_cidr_is_routed_as_a_block() -> None:
    node = {"metadata": {"name": "w"}, "spec": {"podCIDR": "192.168.4.0/24"}}
    assert pod_cidr_facts(node) == BlockFacts(cidr="192.168.4.0/24", node="w")
    assert pod_cidr_facts({"metadata": {"name": "w"}, "spec": {}}) is None


@pytest.mark.parametrize(
    ("profile", "more", "said"),
    [
        ("default", (), "network.plane is vxlan, which Calico supports only with its own IPAM"),
        (
            "bgp",
            ("network.pod_cidr=192.168.0.0/22",),
            "192.168.0.0/22 does not have a /24 for each of 6 nodes",
        ),
    ],
)
def test_where_it_cannot_be_it_is_refused(profile: str, more: tuple[str, ...], said: str) -> None:
    with pytest.raises(ProfileError) as refused:
        load(profile, (*SETTINGS, *more))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("profile", "claims", "starts"), [("bgp", True, True), ("manual-bgp", False, False)]
)
def test_as_shipped_startup_on_windows_claims_a_block_or_by_hand_never_ends(
    profile: str, *, claims: bool, starts: bool
) -> None:
    as_shipped = load(profile, (*SETTINGS, "network.plane.as_shipped=true"))
    plane = plane_of(as_shipped)
    for machine in machines(as_shipped):
        windows = machine.os == "windows"
        assert (plane.claims_blocks(machine), plane.starts(machine)) == (
            (claims, starts) if windows else (False, True)
        ), machine.name
