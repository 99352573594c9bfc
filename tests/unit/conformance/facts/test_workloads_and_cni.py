# SPDX-License-Identifier: Apache-2.0
"""Environment variables, Calico's images and CNI network configurations are read as upstream writes them."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.facts.calico_nodes import image_version
from conformance.facts.calico_workloads import workloads
from conformance.facts.cni_config import CniConfig, read
from conformance.facts.detect import detect
from conformance.facts.reading import Reading
from conformance.facts.workloads import variable

MAP = "/api/v1/namespaces/calico-system/configmaps/calico-windows-config"


def workload(**container: Any) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": [{"name": "node", **container}]}}}
    return {"metadata": {"name": "calico-node-windows", "namespace": "calico-system"}, "spec": spec}


@pytest.mark.parametrize(
    ("name", "image", "found"),
    [
        ("canal-node", "quay.io/calico/node:v3.27.3", True),
        ("my-calico", "registry.example/tigera/cnx-node@sha256:00", True),
        ("csi-node-driver", "quay.io/calico/node-driver-registrar:v3.31.2", False),
        ("web", "docker.io/library/node:22", False),
    ],
)
def test_calico_on_linux_is_known_by_its_image_whatever_its_daemonset_is_called(
    kube: Any, world: Any, name: str, image: str, found: bool
) -> None:
    world.daemonset(f"kube-system/{name}", image=image)
    assert (workloads(Reading(kube)).linux is not None) is found


def test_a_variable_is_read_from_a_whole_config_map(kube: Any, world: Any) -> None:
    world.put(MAP, {"data": {"CALICO_NETWORKING_BACKEND": "vxlan"}})
    whole = workload(envFrom=[{"configMapRef": {"name": "calico-windows-config"}}])
    assert variable(Reading(kube), whole, "CALICO_NETWORKING_BACKEND") == "vxlan"
    assert variable(Reading(kube), whole, "KUBE_NETWORK") is None


def test_a_containers_own_variable_wins_over_a_whole_config_map(kube: Any, world: Any) -> None:
    world.put(MAP, {"data": {"BACKEND": "vxlan"}})
    own = [{"name": "BACKEND", "value": "none"}]
    whole = workload(env=own, envFrom=[{"configMapRef": {"name": "calico-windows-config"}}])
    assert variable(Reading(kube), whole, "BACKEND") == "none"


def test_a_prefix_of_a_whole_config_map_belongs_to_the_variables_name(
    kube: Any, world: Any
) -> None:
    world.put(MAP, {"data": {"BACKEND": "vxlan"}})
    whole = workload(
        envFrom=[{"prefix": "CALICO_", "configMapRef": {"name": "calico-windows-config"}}]
    )
    assert variable(Reading(kube), whole, "CALICO_BACKEND") == "vxlan"
    assert variable(Reading(kube), whole, "BACKEND") is None


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ([("felix_vxlanVNI", "5000")], "5000"),
        ([("FELIX_VXLANVNI", "5000"), ("Felix_VxlanVni", "6000")], "6000"),
        ([("VXLANVNI", "5000")], None),
    ],
)
def test_felix_reads_its_variables_in_any_case_and_the_last_of_several_counts(
    kube: Any, env: list[tuple[str, str]], found: str | None
) -> None:
    given = workload(env=[{"name": name, "value": value} for name, value in env])
    assert variable(Reading(kube), given, "FELIX_VXLANVNI") == found


def test_felix_reads_variables_of_a_config_map_in_any_case_and_others_by_their_letters(
    kube: Any, world: Any
) -> None:
    world.put(MAP, {"data": {"vxlanvni": "5000", "backend": "vxlan"}})
    whole = workload(
        envFrom=[{"prefix": "felix_", "configMapRef": {"name": "calico-windows-config"}}]
    )
    assert variable(Reading(kube), whole, "FELIX_VXLANVNI") == "5000"
    plain = workload(envFrom=[{"configMapRef": {"name": "calico-windows-config"}}])
    assert variable(Reading(kube), plain, "BACKEND") is None


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("quay.io/calico/node:v3.31.2", "v3.31.2"),
        ("quay.io/calico/node-windows:v3.31.2", "v3.31.2"),
        ("calico/windows:v3.25.2", "v3.25.2"),
        ("docker.io/rancher/mirrored-calico-node:v3.31.5", "v3.31.5"),
        ("registry.example:5000/tigera/cnx-node-windows:v3.20.2", "v3.20.2"),
        ("quay.io/calico/node:v3.31.2@sha256:00", "v3.31.2"),
        ("quay.io/calico/cni:v3.31.2", None),
        ("quay.io/calico/node@sha256:00", None),
        ("jsturtevant/calico-node:hostprocess", None),
        ("registry.k8s.io/node-problem-detector:v0.8.13", None),
    ],
)
def test_a_version_is_read_from_calicos_node_images_alone(image: str, version: str | None) -> None:
    assert image_version(image) == version


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ('{"plugins": [{"type": "calico", "mtu": __CNI_MTU__, "ipam": {"type": "calico-ipam"}}]}',
         CniConfig(plugin="calico", ipam="calico-ipam")),
        ('{"type": "calico", "nodename": "__KUBERNETES_NODE_NAME__", "ipam": {"type": "host-local"}}',
         CniConfig(plugin="calico", ipam="host-local")),
        ('{"plugins": [{"type": "flannel"}]}', CniConfig()),
        ("[]", CniConfig()),
        ("{", CniConfig()),
        (None, CniConfig()),
    ],
)  # fmt: skip
def test_calicos_entry_is_read_through_its_placeholders(
    text: str | None, config: CniConfig
) -> None:
    assert read(text) == config


def test_a_pod_whose_image_names_no_version_leaves_its_nodes_version_unknown(
    kube: Any, world: Any
) -> None:
    world.node("win", "windows", "10.0.20348.1")
    containers = [{"name": "node", "image": "jsturtevant/calico-node:hostprocess"}]
    path = "/api/v1/namespaces/kube-system/pods/calico-node-windows-a"
    world.put(path, {"spec": {"nodeName": "win", "containers": containers}})
    fact = detect(kube).calico_on_nodes["win"]
    assert (fact.value, fact.source) == (
        None,
        "not known: no image tag of pod kube-system/calico-node-windows-a names a version: "
        "jsturtevant/calico-node:hostprocess",
    )


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]}


@pytest.mark.parametrize(
    ("pod", "there"),
    [
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, True),
        ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}}}, True),
        ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM, {}]}}}}, False),
        ({"nodeSelector": {"kubernetes.io/os": "linux"}}, False),
        ({}, False),
    ],
)
def test_what_starts_felix_on_windows_nodes_alone_is_calicos_whatever_its_name(
    kube: Any, world: Any, pod: dict[str, Any], there: bool
) -> None:
    container = {
        "name": "f",
        "args": ["$env:CONTAINER_SANDBOX_MOUNT_POINT/calico/felix-service.ps1"],
    }
    spec = {"template": {"spec": {"containers": [container], **pod}}}
    world.put("/apis/apps/v1/namespaces/kube-system/daemonsets/felix-on-windows", {"spec": spec})
    assert (workloads(Reading(kube)).windows is not None) is there
