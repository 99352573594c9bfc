# SPDX-License-Identifier: Apache-2.0
"""Profiles are loaded with their types, and an impossible value is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybridlab.networks.vxlan.settings import VxlanSettings
from hybridlab.profiles.check import MOST_NODES, ProfileError, node_names
from hybridlab.profiles.load import load, names

MINIMAL = """\
description: for a test
nodes:
  - name: one
    os: linux
    control_plane: true
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", names())
def test_every_profile_that_comes_with_the_lab_loads(name: str) -> None:
    profile = load(name)
    assert profile.name == name
    assert {group.os for group in profile.nodes} == {"linux", "windows"}


DOCKER = {"blog-kdd", "docker", "windows-1903"}


@pytest.mark.parametrize("name", names())
def test_docker_is_on_nodes_of_its_time_alone(name: str) -> None:
    """Kubernetes v1.23 was the last with dockershim, and Docker has no HostProcess containers
    (kubernetes CHANGELOG-1.24; kubernetes.io: create-hostprocess-pod)."""
    profile = load(name)
    by_docker = {group.container_runtime.startswith("docker://") for group in profile.nodes}
    assert by_docker == {name in DOCKER}, "nodes of one cluster run one kind of runtime"
    release = tuple(int(part) for part in profile.kubernetes.version[1:].split(".")[:2])
    outside_of_pods = (profile.calico.install, profile.kube_proxy.windows) == (
        "services",
        "service",
    )
    assert name not in DOCKER or (release < (1, 24) and outside_of_pods)


def test_the_default_profile_is_the_documented_cluster() -> None:
    profile = load("default")
    nodes = [name for group in profile.nodes for name in node_names(group)]
    assert nodes == [
        "control-plane",
        "linux-1",
        "linux-2",
        "linux-3",
        "windows-2022",
        "windows-2019",
    ]
    assert profile.network.plane == VxlanSettings(vni=4096, port=4789)
    assert (profile.network.block_size, profile.kube_proxy.windows_dsr) == (26, True)


def test_an_override_reaches_a_nested_key_and_a_named_list_entry() -> None:
    profile = load(
        "default",
        ["network.strict_affinity=false", "nodes.linux.count=1", "network.plane.vni=4097"],
    )
    assert profile.network.plane == VxlanSettings(vni=4097)
    assert profile.network.strict_affinity is False
    assert profile.nodes[1].count == 1


def test_a_lab_has_at_most_as_many_nodes_as_it_was_tried_with() -> None:
    room = [
        "network.pod_cidr=10.0.0.0/12",
        "network.node_cidr=10.64.0.0/20",
        "network.service_cidr=10.96.0.0/16",
    ]
    assert (
        sum(
            group.count
            for group in load("default", [*room, f"nodes.linux.count={MOST_NODES - 3}"]).nodes
        )
        == 250
    )
    with pytest.raises(
        ProfileError,
        match=r"^--set nodes.linux.count=248: the profile has 251 nodes, expected at most 250$",
    ):
        load("default", [*room, "nodes.linux.count=248"])


def test_a_profile_in_a_file_is_named_after_the_file(tmp_path: Path) -> None:
    assert load(written(tmp_path, MINIMAL)).name == "mine"


REFUSED = [
    pytest.param(
        "netwrok:\n  vxlan_vni: 4096\n", "mine.yaml:6: unknown key 'netwrok'", id="unknown key"
    ),
    pytest.param(
        "network:\n  vni: 4096\n", "mine.yaml:7: unknown key 'network.vni'", id="unknown nested key"
    ),
    pytest.param(
        "network:\n  block_size: many\n", "mine.yaml:7: network.block_size is text", id="wrong type"
    ),
    pytest.param(
        "network:\n  block_size: true\n",
        "network.block_size is true or false",
        id="truth for a number",
    ),
    pytest.param(
        "network:\n  plane: {kind: vxlan, vni: many}\n",
        "mine.yaml:7: network.plane.vni is text",
        id="plane's field",
    ),
    pytest.param(
        "network:\n  plane:\n    kind: vxlan\n    vni: 0\n",
        "mine.yaml:9: network.plane.vni is 0, expected 1 to 16777215",
        id="plane's range",
    ),
    pytest.param(
        "network:\n  plane: {vni: 4097}\n",
        "mine.yaml:7: network.plane has no kind, expected one of",
        id="no kind",
    ),
    pytest.param(
        "network:\n  plane: vxlan\n",
        "network.plane has no kind, expected one of",
        id="scalar for a plane",
    ),
    pytest.param(
        "network:\n  plane: {kind: carrier-pigeon}\n",
        "mine.yaml:7: network.plane.kind is 'carrier-pigeon', expected one of vxlan",
        id="plane that is not built",
    ),
    pytest.param(
        "network:\n  bgp: Enabled\n",
        "mine.yaml:7: unknown key 'network.bgp'",
        id="what objects say",
    ),
    pytest.param(
        "network:\n  pod_cidr: 10.0.0.0/16\n", "overlaps network.node_cidr", id="overlapping CIDRs"
    ),
    pytest.param("network:\n  pod_cidr: 192.168.0.1/16\n", "has host bits set", id="host bits"),
    pytest.param("network:\n  block_size: 8\n", "expected 20 to 32", id="block size out of range"),
    pytest.param(
        "network:\n  pod_cidr: 192.168.0.0/27\n",
        "larger than network.pod_cidr",
        id="block over pool",
    ),
    pytest.param(
        "network: 5\n",
        "mine.yaml:6: network is a whole number, expected a mapping",
        id="scalar for a mapping",
    ),
    pytest.param(
        "calico: {install: helm}\n", "expected one of operator, manifest", id="not a choice"
    ),
    pytest.param(
        "timing: {exec_cost_ms: -1}\n", "timing.exec_cost_ms is negative", id="negative time"
    ),
    pytest.param(
        "kube_proxy: {node_port_range: '1'}\n",
        "expected a range such as 30000-32767",
        id="port range",
    ),
    pytest.param("a: [\n", "mine.yaml:7: the profile is not valid YAML", id="not YAML"),
]


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ProfileError) as refused:
        load(written(tmp_path, MINIMAL + text))
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("network.block_size=30", "--set network.block_size=30: a block of /30 has 4 addresses"),
        ("network.block_size=17", "expected 20 to 32"),
        ("nodes.nobody.count=1", "the list has no entry 'nobody'; its entries are control-plane"),
        (
            "nodes.windows-2019.windows_build=1809",
            "expected a build with UBR such as 10.0.20348.2762",
        ),
        ("nodes.windows-2019.control_plane=true", "Windows nodes cannot be control planes"),
        ("nodes.linux.taints=[bad]", "taint is 'bad', expected key=value:Effect"),
        ("nodes.linux.count=0", "--set nodes.linux.count=0: node group 'linux': count is 0"),
        ("nodes.linux.count=few", "--set nodes.linux.count=few: nodes.linux.count is text"),
        (
            "calico.v3_api=false calico.crd_v1_api=false",
            "both false, expected at least one of them",
        ),
        ("network.service_cidr=10.96.0.0/30", "has 4 addresses, expected 32 or more"),
        (
            "network.dns_domain=..",
            "network.dns_domain is '..', expected a name such as cluster.local",
        ),
        (
            "kubernetes.version=banana",
            "kubernetes.version is 'banana', expected a version such as v1.34.1",
        ),
        ("calico.version=3", "calico.version is '3', expected a version such as"),
        ("nodes.linux.count=240", "has room for 236 nodes"),
        ("nodes.linux.cuont=3", "unknown key 'nodes.linux.cuont'; possible here: name, "),
        ("nodes.0.name=windows-2019", "two nodes are named 'windows-2019'"),
        ("network", "expected KEY=VALUE"),
        (
            "network.plane.kind=azure",
            "=azure: network.plane.kind is 'azure', expected one of",
        ),
        (
            "network.plane.colour=red",
            "--set network.plane.colour=red: unknown key 'network.plane.colour'",
        ),
        ("network.bgp=Enabled network.encapsulation=None", "unknown key 'network.bgp'"),
        ("network.plane.port=70000", "--set network.plane.port=70000: network.plane.port is 70000"),
        ("name=x name.part=1", "'name' is a single value"),
    ],
)
def test_an_impossible_override_is_refused_and_named(override: str, expected: str) -> None:
    with pytest.raises(ProfileError) as refused:
        load("default", override.split())
    assert expected in str(refused.value)


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ProfileError,
        match=r"'defualt'\. Did you mean default\? "
        r"The profiles are aks-.*, bgp, .*, docker, dual-subnet, eks",
    ):
        load("defualt")
    with pytest.raises(ProfileError, match=r"no profile 'Windows2025'\. Did you mean windows-2025"):
        load("Windows2025")


def test_a_profile_is_known_in_any_case() -> None:
    assert load("BGP") == load("bgp")


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"nothing\.yaml: cannot read the profile: No such file"):
        load(str(tmp_path / "nothing.yaml"))


def test_a_cluster_without_control_plane_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="no node group has control_plane: true"):
        load(written(tmp_path, MINIMAL.replace("    control_plane: true\n", "")))


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("10.0.0.200", "lies in network.node_cidr"),
        ("192.168.3.4", "lies in network.pod_cidr"),
        ("x", "is 'x'"),
    ],
)
def test_the_host_outside_is_outside(address: str, words: str) -> None:
    with pytest.raises(ProfileError, match=words):
        load("default", [f"network.outside_address={address}"])


def test_there_may_be_no_host_outside() -> None:
    assert load("default", ['network.outside_address=""']).network.outside_address == ""
