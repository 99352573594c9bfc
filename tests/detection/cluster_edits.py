# SPDX-License-Identifier: Apache-2.0
"""Changes of a running lab through its API, as a careless administrator makes them; each change is
undone afterwards."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.detection.lab_api import ANSWER_WITHIN, Api, on_each

FINALIZER = "detection.example/never"


@contextmanager
def scheduler_on_windows(api: Api) -> Iterator[None]:
    """Run a pod of the control plane on a Windows node."""
    name = "kube-scheduler-windows-2022"
    container = {"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.34.1"}
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"tier": "control-plane"}},
        "spec": {"nodeName": "windows-2022", "containers": [container]},
    }  # fmt: skip
    api("POST", "/api/v1/namespaces/kube-system/pods", pod)
    yield
    api("DELETE", f"/api/v1/namespaces/kube-system/pods/{name}", {"gracePeriodSeconds": 0})


@contextmanager
def etcd_under_the_operator(api: Api) -> Iterator[None]:
    """Configure calico-node of an operator's installation to use etcd, while the operator is scaled
    down."""
    path = "/apis/apps/v1/namespaces/calico-system/daemonsets/calico-node"
    before = api("GET", path)["spec"]["template"]["spec"]["containers"]
    first = {
        **before[0],
        "env": [e for e in before[0].get("env") or [] if e["name"] != "DATASTORE_TYPE"],
    }
    first["env"] = [*first["env"], {"name": "DATASTORE_TYPE", "value": "etcdv3"}]
    with no_operator(api):
        api.merge(path, {"spec": {"template": {"spec": {"containers": [first, *before[1:]]}}}})
        yield
        api.merge(path, {"spec": {"template": {"spec": {"containers": before}}}})


@contextmanager
def no_operator(api: Api) -> Iterator[None]:
    """Scale Calico's operator down, because it reverts changes of the workloads that it
    installs."""
    path = "/apis/apps/v1/namespaces/tigera-operator/deployments/tigera-operator"
    api.merge(path, {"spec": {"replicas": 0}})
    deadline = time.monotonic() + ANSWER_WITHIN
    while api("GET", path).get("status", {}).get("readyReplicas"):
        if time.monotonic() > deadline:
            raise RuntimeError("tigera-operator does not go")
        time.sleep(0.1)
    yield
    api.merge(path, {"spec": {"replicas": 1}})


@contextmanager
def calico_node_on_the_control_plane_alone(api: Api) -> Iterator[None]:
    """Restrict calico-node to the control plane, so that no Linux worker has it."""
    path = "/apis/apps/v1/namespaces/calico-system/daemonsets/calico-node"
    pods = "/api/v1/namespaces/calico-system/pods?labelSelector=k8s-app%3Dcalico-node"
    selector = {"node-role.kubernetes.io/control-plane": ""}

    def settle(count: int) -> None:
        deadline = time.monotonic() + ANSWER_WITHIN
        while len(api("GET", pods)["items"]) != count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"calico-node does not get to {count} pods")
            time.sleep(0.1)

    before = len(api("GET", pods)["items"])
    with no_operator(api):
        api.merge(path, {"spec": {"template": {"spec": {"nodeSelector": selector}}}})
        settle(1)
        yield
        api.merge(path, {"spec": {"template": {"spec": {"nodeSelector": dict.fromkeys(selector)}}}})
        settle(before)


INSTALLATION = "/apis/operator.tigera.io/v1/installations/default"
POOL = "/apis/projectcalico.org/v3/ippools/default-ipv4-ippool"


def _encapsulation(api: Api, named: str, modes: dict[str, str]) -> Iterator[None]:
    """Declare another encapsulation, in the pool and in the Installation that names it, than
    packets really have."""
    pools, pool = (
        api("GET", INSTALLATION)["spec"]["calicoNetwork"]["ipPools"],
        api("GET", POOL)["spec"],
    )

    def write(pools: list[Any], modes: dict[str, str]) -> None:
        api.merge(INSTALLATION, {"spec": {"calicoNetwork": {"ipPools": pools}}})
        api.merge(POOL, {"spec": modes})

    write([{**pools[0], "encapsulation": named}], modes)
    yield
    write(pools, {field: pool[field] for field in modes})


@contextmanager
def pool_says_ipip(api: Api) -> Iterator[None]:
    """Declare the pool as a pool with IPIP."""
    yield from _encapsulation(api, "IPIP", {"ipipMode": "Always", "vxlanMode": "Never"})


@contextmanager
def pool_says_vxlan_between_subnets(api: Api) -> Iterator[None]:
    """Declare the pool as a pool with VXLAN only between subnets."""
    yield from _encapsulation(api, "VXLANCrossSubnet", {"vxlanMode": "CrossSubnet"})


@contextmanager
def bgp_under_vxlan(api: Api) -> Iterator[None]:
    """Enable BGP in the Installation; the operator then gives calico-node BGP's backend."""
    path = "/apis/apps/v1/namespaces/calico-system/daemonsets/calico-node-windows"

    def settle(backend: str) -> None:
        deadline = time.monotonic() + ANSWER_WITHIN
        while not _rolled_out(api("GET", path), backend):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"the operator does not get calico-node-windows to backend {backend}"
                )
            time.sleep(0.1)

    api.merge(INSTALLATION, {"spec": {"calicoNetwork": {"bgp": "Enabled"}}})
    settle("windows-bgp")
    yield
    api.merge(INSTALLATION, {"spec": {"calicoNetwork": {"bgp": "Disabled"}}})
    settle("vxlan")


@contextmanager
def vni_in_the_daemonset(api: Api) -> Iterator[None]:
    """Set the VNI in the environment of calico-node-windows, in an installation by manifests."""
    path = "/apis/apps/v1/namespaces/calico-system/daemonsets/calico-node-windows"
    before = api("GET", path)["spec"]["template"]["spec"]["containers"]
    vni = {"name": "VXLAN_VNI", "value": "4096"}
    with_vni = [{**container, "env": [*container["env"], vni]} for container in before]
    for containers, value in ((with_vni, "4096"), (before, "")):
        api.merge(path, {"spec": {"template": {"spec": {"containers": containers}}}})
        deadline = time.monotonic() + ANSWER_WITHIN
        while not _rolled_out(api("GET", path), value, "VXLAN_VNI"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"calico-node-windows does not get to VXLAN_VNI {value!r}")
            time.sleep(0.1)
        if value:
            yield


def _rolled_out(daemons: Any, value: str, name: str = "CALICO_NETWORKING_BACKEND") -> bool:
    """Return whether the template of all calico-node-windows pods has this value of the setting."""
    container, status = daemons["spec"]["template"]["spec"]["containers"][0], daemons["status"]
    told = next((item["value"] for item in container["env"] if item["name"] == name), "")
    current = status.get("observedGeneration") == daemons["metadata"]["generation"]
    wanted = status["desiredNumberScheduled"]
    ready = wanted == status.get("updatedNumberScheduled", 0) == status.get("numberReady", 0)
    return bool(told == value and current and ready)


def _felix(api: Api, spec: dict[str, Any]) -> Iterator[None]:
    """Set these fields of FelixConfiguration default."""
    path = "/apis/projectcalico.org/v3/felixconfigurations/default"
    before = api("GET", path)["spec"]
    api.merge(path, {"spec": spec})
    yield
    api.merge(path, {"spec": {name: before.get(name) for name in spec}})


@contextmanager
def another_vxlan_port(api: Api) -> Iterator[None]:
    """Configure VXLAN with a UDP port that Windows does not support."""
    yield from _felix(api, {"vxlanPort": 4790})


@contextmanager
def vni_below_4096(api: Api) -> Iterator[None]:
    """Set a VNI that Windows refuses."""
    yield from _felix(api, {"vxlanVNI": 4095})


@contextmanager
def announces_an_address_of_nobody(api: Api, node: str) -> Iterator[None]:
    """Make a node announce an address that neither it nor any other machine has."""
    path, name = f"/api/v1/nodes/{node}", "projectcalico.org/IPv4Address"
    before = api("GET", path)["metadata"]["annotations"][name]
    api.merge(path, {"metadata": {"annotations": {name: "10.0.0.99/24"}}})
    yield
    api.merge(path, {"metadata": {"annotations": {name: before}}})


@contextmanager
def tunnel_of_another_block(api: Api) -> Iterator[None]:
    """Make a Windows node announce a tunnel address outside its block."""
    path = "/api/v1/nodes/windows-2022"
    name = "projectcalico.org/IPv4VXLANTunnelAddr"
    before = api("GET", path)["metadata"]["annotations"][name]
    api.merge(path, {"metadata": {"annotations": {name: "192.168.0.77"}}})
    yield
    api.merge(path, {"metadata": {"annotations": {name: before}}})


@contextmanager
def tunnel_without_mac(api: Api) -> Iterator[None]:
    """Remove the announced MAC address of a Windows node's tunnel."""
    path = "/api/v1/nodes/windows-2022"
    name = "projectcalico.org/VXLANTunnelMACAddr"
    before = api("GET", path)["metadata"]["annotations"][name]
    api.merge(path, {"metadata": {"annotations": {name: None}}})
    yield
    api.merge(path, {"metadata": {"annotations": {name: before}}})


@contextmanager
def pods_never_go(api: Api) -> Iterator[None]:
    """Give every pod of the namespace that the run will delete a finalizer that nobody removes."""
    held = []

    def hold(pod: Any) -> None:
        meta = pod["metadata"]
        if meta["namespace"].endswith("-temporary"):
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            api.merge(path, {"metadata": {"finalizers": [FINALIZER]}})
            held.append(path)

    with on_each(api, "/api/v1/pods", hold):
        yield
    for path in held:
        # the pod is gone if the run never deleted the namespace
        with contextlib.suppress(Exception):
            api.merge(path, {"metadata": {"finalizers": None}})


@contextmanager
def services_end_with_a_policy(api: Api) -> Iterator[None]:
    """Take the backends of all Services of a namespace away as soon as a policy of the services
    tests is created there."""

    def end(policy: Any) -> None:
        meta = policy["metadata"]
        if not meta["name"].startswith("only-the-client-enters"):
            return
        services = f"/api/v1/namespaces/{meta['namespace']}/services"
        for item in api("GET", services)["items"]:
            api.merge(
                f"{services}/{item['metadata']['name']}", {"spec": {"selector": {"nobody": "here"}}}
            )

    with on_each(api, "/apis/networking.k8s.io/v1/networkpolicies", end):
        yield


@contextmanager
def faults_until_a_policy(api: Api) -> Iterator[None]:
    """End the row's faults as soon as any NetworkPolicy is created."""
    command = [
        sys.executable,
        "-m",
        "hybridlab",
        "faults",
        "--kubeconfig",
        str(api.kubeconfig),
        "heal",
    ]
    with on_each(
        api, "/apis/networking.k8s.io/v1/networkpolicies",
        lambda policy: subprocess.run(command, check=True, capture_output=True, timeout=ANSWER_WITHIN),
    ):  # fmt: skip
        yield


@contextmanager
def comings_and_goings(api: Api) -> Iterator[None]:
    """Create and delete namespaces of another owner all the time, each with a Service, a pod and a
    policy."""
    stop = threading.Event()

    def work() -> None:
        for number in range(1000):
            name = f"somebodys-{number}"
            meta, within = {"name": name}, f"namespaces/{name}"
            pod = {
                "nodeSelector": {"no": "node"},
                "containers": [{"name": "one", "image": "example.org/one:1"}],
            }
            policies = f"/apis/networking.k8s.io/v1/{within}/networkpolicies"
            api(
                "POST",
                "/api/v1/namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": meta},
            )
            for path, version, kind, spec in (
                (f"/api/v1/{within}/services", "v1", "Service", {"ports": [{"port": 80}]}),
                (f"/api/v1/{within}/pods", "v1", "Pod", pod),
                (policies, "networking.k8s.io/v1", "NetworkPolicy", {"podSelector": {}}),
            ):
                api(
                    "POST",
                    path,
                    {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec},
                )
            over = stop.wait(2)
            api("DELETE", f"/api/v1/namespaces/{name}")
            if over:
                return

    thread = threading.Thread(target=work, name="comings and goings")
    thread.start()
    yield
    stop.set()
    thread.join(30)


EDITS: dict[str, Callable[..., contextlib.AbstractContextManager[None]]] = {
    item.__name__: item
    for item in (
        faults_until_a_policy,
        calico_node_on_the_control_plane_alone,
        scheduler_on_windows,
        etcd_under_the_operator,
        pool_says_ipip,
        pool_says_vxlan_between_subnets,
        bgp_under_vxlan,
        vni_in_the_daemonset,
        another_vxlan_port,
        vni_below_4096,
        announces_an_address_of_nobody,
        tunnel_of_another_block,
        tunnel_without_mac,
        pods_never_go,
        services_end_with_a_policy,
        comings_and_goings,
    )
}
