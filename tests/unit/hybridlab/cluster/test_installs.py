# SPDX-License-Identifier: Apache-2.0
"""The objects of Calico by each way of installing it: operator, manifests, an agent."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.cluster.installs import calico, operator
from hybridlab.cluster.installs.installed import Installed
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.load import load


def made(name: str, *settings: str) -> dict[tuple[str, str], Any]:
    """Kind and name to the object, of all that a profile's Calico consists of."""
    profile = load(name, settings)
    plane = plane_of(profile)
    found = calico.objects(profile, plane, plane.declared())
    return {(obj["kind"], obj["metadata"]["name"]): obj for _, obj in found}


def windows(objects: dict[tuple[str, str], Any]) -> Any:
    return objects["DaemonSet", "calico-node-windows"]


def test_manifests_have_the_settings_of_both_systems_in_config_maps() -> None:
    objects = made("manifest")
    settings = objects["ConfigMap", "calico-windows-config"]
    assert settings["metadata"]["namespace"] == "calico-system"
    assert settings["data"]["CALICO_NETWORKING_BACKEND"] == "vxlan"
    assert settings["data"]["CNI_CONF_DIR"] == "c:\\etc\\cni\\net.d"
    assert settings["data"]["DNS_NAME_SERVERS"] == "10.96.0.10"
    on_linux = objects["ConfigMap", "calico-config"]["data"]
    assert on_linux["calico_backend"] == "vxlan"
    assert '"mtu": __CNI_MTU__' in on_linux["cni_network_config"]
    spec = objects["DaemonSet", "calico-node"]["spec"]["template"]["spec"]
    environment = {item["name"]: item for item in spec["containers"][0]["env"]}
    assert environment["CALICO_NETWORKING_BACKEND"]["valueFrom"]["configMapKeyRef"] == {
        "name": "calico-config",
        "key": "calico_backend",
    }


def test_the_manifest_for_windows_runs_the_scripts_of_one_image() -> None:
    daemons = windows(made("manifest"))
    assert daemons["metadata"]["namespace"] == "calico-system"
    spec = daemons["spec"]["template"]["spec"]
    containers = {item["name"]: item for item in (*spec["initContainers"], *spec["containers"])}
    assert {name: item["args"] for name, item in containers.items()} == {
        "install": [".\\host-process-install.ps1"],
        "node": [".\\node\\node-service.ps1"],
        "felix": [".\\felix\\felix-service.ps1"],
    }
    assert {item["image"] for item in containers.values()} == {"calico/windows:v3.26.4"}
    assert all("envFrom" in item for item in containers.values())


def test_the_manifest_for_bgp_has_confd_beside_them() -> None:
    spec = windows(made("bgp", "calico.install=manifest", "calico.version=v3.26.4"))["spec"]
    containers = {item["name"]: item for item in spec["template"]["spec"]["containers"]}
    assert containers["confd"]["args"] == [".\\confd\\confd-service.ps1"]


def test_the_operator_knows_nothing_of_windows_where_an_agent_runs_calico_there() -> None:
    objects = made("rke2")
    assert ("DaemonSet", "calico-node-windows") not in objects
    assert ("DaemonSet", "calico-node") in objects
    profile = load("rke2")
    plane = plane_of(profile)
    installation = operator.installation(profile, plane)
    assert installation["spec"]["calicoNetwork"]["windowsDataplane"] == "Disabled"
    assert installation["spec"]["kubernetesProvider"] == ""
    assert "windowsNodes" not in installation["spec"]
    names = {obj["metadata"]["name"] for _, obj in Installed(profile, plane).operator_objects()}
    assert not names & {"calico-windows", "cni-config-windows"}


@pytest.mark.parametrize(
    ("profile", "image"),
    [
        ("rke2", "docker.io/rancher/mirrored-calico-node:v3.31.5"),
        ("bgp", "quay.io/calico/node:v3.31.7"),
    ],
)
def test_images_are_named_as_the_distribution_names_them(profile: str, image: str) -> None:
    spec = made(profile)["DaemonSet", "calico-node"]["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == image
