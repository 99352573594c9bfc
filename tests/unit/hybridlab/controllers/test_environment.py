# SPDX-License-Identifier: Apache-2.0
"""Environment, arguments and volumes as a kubelet works them out."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from hybridlab.api.contract import Obj
from hybridlab.controllers.environment import (
    ConfigError,
    PodFields,
    Sources,
    command_line,
    environment,
)
from hybridlab.controllers.volumes import MountError, container_path, load, mounts
from tests.unit.hybridlab.builders import a_pod

CONFIG: Obj = {"kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "1", "dir/b": "2"}}
SECRET: Obj = {
    "kind": "Secret",
    "metadata": {"name": "s"},
    "data": {"key": base64.b64encode(b"hidden").decode()},
}
WEB: Obj = {
    "metadata": {"name": "my-web", "namespace": "default"},
    "spec": {"clusterIP": "10.96.0.9", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
}
KUBERNETES: Obj = {
    "metadata": {"name": "kubernetes", "namespace": "default"},
    "spec": {
        "clusterIP": "10.96.0.1",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP"}],
    },
}
CLAIM: Obj = {"metadata": {"name": "kept", "namespace": "default", "uid": "uid-9"}}
SOURCES = Sources(
    named={
        "configmaps": lambda namespace, name: CONFIG if name == "conf" else None,
        "secrets": lambda namespace, name: SECRET if name == "s" else None,
        "persistentvolumeclaims": lambda namespace, name: CLAIM if name == "kept" else None,
    },
    services=lambda namespace: [KUBERNETES, WEB] if namespace == "default" else [],
    allocatable={"cpu": "8", "memory": "1Gi"},
)


def facts(**spec: Any) -> PodFields:
    made = a_pod(**spec)
    made["metadata"]["uid"] = "uid-1"
    made["spec"]["nodeName"] = "linux-1"
    return PodFields(pod=made, addresses=("192.168.0.5",), host_address="10.0.0.11")


def variables(*entries: Obj, **more: Any) -> dict[str, str]:
    return environment(facts(), {"name": "main", "env": list(entries), **more}, SOURCES)


def test_services_of_the_namespace_and_the_api_server_are_announced() -> None:
    found = variables()
    assert found["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert found["MY_WEB_SERVICE_PORT_HTTP"] == "80"
    assert found["MY_WEB_PORT_80_TCP_ADDR"] == "10.96.0.9"
    unlinked = environment(facts(enableServiceLinks=False), {"name": "main"}, SOURCES)
    assert "KUBERNETES_SERVICE_PORT" in unlinked
    assert "MY_WEB_SERVICE_HOST" not in unlinked


def test_references_see_earlier_variables_and_services_only() -> None:
    found = variables(
        {"name": "A", "value": "x"},
        {"name": "B", "value": "$(A)-$(LATER)-$$(A)-$(MY_WEB_SERVICE_HOST)"},
        {"name": "LATER", "value": "y"},
    )
    assert found["B"] == "x-$(LATER)-$(A)-10.96.0.9"
    assert command_line({"command": ["run", "$(A)"], "args": ["$(NO)"]}, found) == (
        ("run", "x"),
        ("$(NO)",),
    )


def test_fields_and_keys_are_read_from_their_objects() -> None:
    limits = {"limits": {"cpu": "250m"}}
    found = variables(
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "a"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
        {
            "name": "CPU",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}},
        },
        {
            "name": "MEM",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
        {
            "name": "GONE",
            "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a", "optional": True}},
        },
        resources=limits,
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "conf"}}],
    )
    wanted = {
        "IP": "192.168.0.5",
        "HOST": "10.0.0.11",
        "APP": "web",
        "C": "1",
        "S": "hidden",
        "CPU": "250",
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found["MEM"] == "1024"
    assert found["P_a"] == "1"
    assert "GONE" not in found


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "a"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "s", "key": "no"}}, "couldn't find key no in Secret default/s"),
        ({"fieldRef": {"fieldPath": "spec.nothing"}}, "unsupported fieldPath: spec.nothing"),
    ],
)
def test_what_is_missing_is_named(entry: Obj, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        variables({"name": "X", "valueFrom": entry})


def mounted(volume: Obj, os: Any = "linux", **mount: Any) -> Any:
    where = facts(volumes=[{"name": "v", **volume}])
    volumes = asyncio.run(load(where, SOURCES, None))
    container = {"volumeMounts": [{"name": "v", "mountPath": "/m", **mount}]}
    return mounts(container, volumes, os)


def test_a_config_map_becomes_files_on_both_systems() -> None:
    assert base64.b64decode(mounted({"configMap": {"name": "conf"}}).files["/m/a"]) == b"1"
    assert set(mounted({"configMap": {"name": "conf"}}, "windows").files) == {
        "C:\\m\\a",
        "C:\\m\\dir\\b",
    }


def test_items_and_sub_paths_choose_and_rename() -> None:
    items = [{"key": "a", "path": "deep/x"}]
    assert set(mounted({"configMap": {"name": "conf", "items": items}}).files) == {"/m/deep/x"}
    assert set(
        mounted({"configMap": {"name": "conf"}}, subPath="a", mountPath="/etc/one").files
    ) == {"/etc/one"}
    assert set(mounted({"configMap": {"name": "conf"}}, subPath="dir").files) == {"/m/b"}


def test_an_empty_dir_is_the_pods_own_and_a_claim_is_not() -> None:
    assert mounted({"emptyDir": {}}).empty_dirs == {"/m": "v"}
    claim = {"persistentVolumeClaim": {"claimName": "kept"}}
    assert mounted(claim).empty_dirs == {"/m": "claim/uid-9"}
    with pytest.raises(MountError, match="not emulated: subPath of a PersistentVolumeClaim"):
        mounted(claim, subPath="a")
    with pytest.raises(MountError, match='persistentvolumeclaim "none" not found'):
        mounted({"persistentVolumeClaim": {"claimName": "none"}})


def test_a_volume_of_an_absent_object_or_an_unknown_kind_cannot_be_mounted() -> None:
    with pytest.raises(
        MountError, match=r'MountVolume.SetUp failed for volume "v" : configmap "none" not found'
    ):
        mounted({"configMap": {"name": "none"}})
    with pytest.raises(MountError, match="not emulated: volume of kind nfs"):
        mounted({"nfs": {"server": "x"}})
    with pytest.raises(MountError, match="not emulated: volume of kind hostPath"):
        mounted({"hostPath": {"path": "/"}})


@pytest.mark.parametrize(
    ("base", "inside", "path"),
    [
        ("C:\\probe", "x.ps1", "C:\\probe\\x.ps1"),
        ("/probe", "a/b", "C:\\probe\\a\\b"),
        ("c:/p", "", "c:\\p"),
    ],
)
def test_windows_paths_have_a_drive_and_back_slashes(base: str, inside: str, path: str) -> None:
    assert container_path(base, inside, "windows") == path
