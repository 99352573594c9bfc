# SPDX-License-Identifier: Apache-2.0
"""Changes of a running lab through its API that claims decided by reading must notice; each change
is undone afterwards."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.detection.cluster_edits import no_operator
from tests.detection.lab_api import ANSWER_WITHIN, Api

ENDPOINT = "/api/v1/namespaces/tigera-operator/configmaps"
POOLS = "/apis/projectcalico.org/v3/ippools"
DEPLOYMENTS = "/apis/apps/v1/namespaces/calico-system/deployments"
ON_WINDOWS = "/apis/apps/v1/namespaces/calico-system/daemonsets/calico-node-windows"
ADDRESS = "projectcalico.org/IPv4Address"
LINUX_NODES = ("linux-1", "linux-2", "linux-3")
NANOSERVER = {"windows-2019": "1809", "windows-2022": "ltsc2022"}


def _until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ANSWER_WITHIN
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {ANSWER_WITHIN:.0f} s")
        time.sleep(0.1)


@contextmanager
def _windows_pod(
    api: Api, node: str, name: str, namespace: str, labels: dict[str, str]
) -> Iterator[None]:
    """Create a running pod on a Windows node, with this name and these labels."""
    container = {
        "name": "main",
        "image": f"mcr.microsoft.com/windows/nanoserver:{NANOSERVER[node]}",
        "command": ["ping", "-t", "127.0.0.1"],
    }
    pods = f"/api/v1/namespaces/{namespace}/pods"
    meta = {"name": name, "namespace": namespace, "labels": labels}
    spec = {"nodeName": node, "containers": [container]}
    api("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    _until(f"{name} runs", lambda: api("GET", f"{pods}/{name}")["status"].get("phase") == "Running")
    yield
    api("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})


@contextmanager
def cluster_dns_on(api: Api, node: str) -> Iterator[None]:
    """Run a cluster DNS pod, with the name that its distribution uses, on a Windows node."""
    name = "rke2-coredns-rke2-coredns-7c9f6d9b4-x2x7k"
    with _windows_pod(api, node, name, "kube-system", {"k8s-app": "kube-dns"}):
        yield


@contextmanager
def typha_on(api: Api, node: str) -> Iterator[None]:
    """Run a pod of Typha on a Windows node."""
    with _windows_pod(
        api, node, "calico-typha-windows", "calico-system", {"k8s-app": "calico-typha"}
    ):
        yield


@contextmanager
def _replicas(api: Api, name: str, count: int, ready: int) -> Iterator[None]:
    """Give a Deployment of Calico another number of replicas, while the operator is scaled down."""
    path = f"{DEPLOYMENTS}/{name}"
    before = api("GET", path)["spec"]["replicas"]

    def settle(ready: int) -> None:
        _until(
            f"{name} is ready {ready} times",
            lambda: api("GET", path)["status"].get("readyReplicas", 0) == ready,
        )

    with no_operator(api):
        api.merge(path, {"spec": {"replicas": count}})
        settle(ready)
        yield
        api.merge(path, {"spec": {"replicas": before}})
        settle(before)


def no_kube_controllers(api: Api) -> contextlib.AbstractContextManager[None]:
    """Scale calico-kube-controllers to zero."""
    return _replicas(api, "calico-kube-controllers", 0, 0)


def typha_waits_for_a_node(api: Api) -> contextlib.AbstractContextManager[None]:
    """Give Typha one replica more than there are Linux nodes on which its port is free."""
    return _replicas(api, "calico-typha", 5, 4)


@contextmanager
def endpoint_config_map_gone(api: Api) -> Iterator[None]:
    """Delete the ConfigMap that gives the operator the API server's address."""
    before = api("GET", f"{ENDPOINT}/kubernetes-services-endpoint")
    api("DELETE", f"{ENDPOINT}/kubernetes-services-endpoint")
    yield
    meta = {"name": before["metadata"]["name"]}
    api(
        "POST",
        ENDPOINT,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": before["data"]},
    )


@contextmanager
def pool_without_encapsulation(api: Api) -> Iterator[None]:
    """Create a second pool without encapsulation, in addition to the overlay's pool; no node may
    use it."""
    spec = {
        "cidr": "172.30.0.0/16",
        "vxlanMode": "Never",
        "ipipMode": "Never",
        "nodeSelector": "!all()",
    }
    body = {
        "apiVersion": "projectcalico.org/v3",
        "kind": "IPPool",
        "metadata": {"name": "plain"},
        "spec": spec,
    }
    api("POST", POOLS, body)
    yield
    api("DELETE", f"{POOLS}/plain")


@contextmanager
def address_not_announced(api: Api, node: str) -> Iterator[None]:
    """Remove the announced address of a Windows node, as if its Calico wrote into another
    datastore."""
    path = f"/api/v1/nodes/{node}"
    before = api("GET", path)["metadata"]["annotations"][ADDRESS]
    api.merge(path, {"metadata": {"annotations": {ADDRESS: None}}})
    yield
    api.merge(path, {"metadata": {"annotations": {ADDRESS: before}}})


@contextmanager
def _on_windows(api: Api, change: dict[str, Any], back: dict[str, Any]) -> Iterator[None]:
    """Change the DaemonSet on Windows without replacing its pods, while the operator is scaled
    down."""
    strategy = api("GET", ON_WINDOWS)["spec"]["updateStrategy"]
    with no_operator(api):
        api.merge(
            ON_WINDOWS, {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}}
        )
        api.merge(ON_WINDOWS, change)
        yield
        api.merge(ON_WINDOWS, back)
        api.merge(ON_WINDOWS, {"spec": {"updateStrategy": strategy}})


@contextmanager
def plugin_not_installed(api: Api) -> Iterator[None]:
    """Let calico-node-windows no longer install Calico's CNI plugin."""
    before = api("GET", ON_WINDOWS)["spec"]["template"]["spec"]["initContainers"]
    kept = [container for container in before if container["name"] != "install-cni"]

    def spec(containers: list[Any]) -> dict[str, Any]:
        return {"spec": {"template": {"spec": {"initContainers": containers}}}}

    with _on_windows(api, spec(kept), spec(before)):
        yield


@contextmanager
def windows_laid_by_the_operator(api: Api) -> Iterator[None]:
    """Make the Installation the owner of the DaemonSet on Windows."""
    uid = api("GET", "/apis/operator.tigera.io/v1/installations/default")["metadata"]["uid"]
    owner = {
        "apiVersion": "operator.tigera.io/v1",
        "kind": "Installation",
        "name": "default",
        "uid": uid,
    }
    with _on_windows(
        api, {"metadata": {"ownerReferences": [owner]}}, {"metadata": {"ownerReferences": None}}
    ):
        yield


@contextmanager
def ipip_turned_on(api: Api) -> Iterator[None]:
    """Turn IPIP on in FelixConfiguration."""
    path = "/apis/projectcalico.org/v3/felixconfigurations/default"
    api.merge(path, {"spec": {"ipipEnabled": True}})
    yield
    api.merge(path, {"spec": {"ipipEnabled": False}})


@contextmanager
def wireguard(api: Api, node: str = "") -> Iterator[None]:
    """Turn WireGuard on, and give keys to the Linux nodes and to the named node."""
    felix = "/apis/projectcalico.org/v3/felixconfigurations/default"
    having = [*LINUX_NODES, *([node] if node else [])]
    key = "projectcalico.org/WireguardPublicKey"

    def give(value: str | None) -> None:
        for name in having:
            api.merge(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {key: value}}})

    api.merge(felix, {"spec": {"wireguardEnabled": True}})
    give("jlkVyQYooZYzI2wFfNhSZez5eWh44yfq1wKVjLvSXgY=")
    yield
    give(None)
    api.merge(felix, {"spec": {"wireguardEnabled": None}})


@contextmanager
def ebpf(api: Api) -> Iterator[None]:
    """Configure Felix for eBPF; the lab's Linux nodes carry packets as before."""
    felix = "/apis/projectcalico.org/v3/felixconfigurations/default"
    api.merge(felix, {"spec": {"bpfEnabled": True}})
    yield
    api.merge(felix, {"spec": {"bpfEnabled": None}})


@contextmanager
def dual_stack(api: Api, windows: str = "") -> Iterator[None]:
    """Give a Linux pod an additional IPv6 address, and also a pod of this Windows node, or of all
    of them."""
    pods = "/api/v1/namespaces/default/pods"

    def both(name: str) -> None:
        told = api("GET", f"{pods}/{name}")["status"]["podIP"]
        api.merge(
            f"{pods}/{name}/status", {"status": {"podIPs": [{"ip": told}, {"ip": "fd00::1"}]}}
        )

    container = {
        "name": "main",
        "image": "docker.io/library/busybox:1.37.0",
        "command": ["sleep", "360000"],
    }
    spec = {"nodeName": "linux-1", "containers": [container]}
    api(
        "POST",
        pods,
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "both"}, "spec": spec},
    )
    _until("both runs", lambda: api("GET", f"{pods}/both")["status"].get("phase") == "Running")
    both("both")
    with contextlib.ExitStack() as stack:
        for node in NANOSERVER if windows == "all" else filter(None, [windows]):
            stack.enter_context(_windows_pod(api, node, f"dual-on-{node}", "default", {}))
            both(f"dual-on-{node}")
        yield
    api("DELETE", f"{pods}/both", {"gracePeriodSeconds": 0})


@contextmanager
def calico_runs_for_days(api: Api) -> Iterator[None]:
    """Make the containers of calico-node on Windows nodes report a start time long ago."""
    pods = "/api/v1/namespaces/calico-system/pods"
    there = api("GET", f"{pods}?labelSelector=k8s-app=calico-node-windows")["items"]
    for pod in copy.deepcopy(there):
        statuses = pod["status"]["containerStatuses"]
        for status in statuses:
            status["state"]["running"]["startedAt"] = "2026-01-01T00:00:00Z"
        api.merge(
            f"{pods}/{pod['metadata']['name']}/status", {"status": {"containerStatuses": statuses}}
        )
    yield
    for pod in there:
        told = {"status": {"containerStatuses": pod["status"]["containerStatuses"]}}
        api.merge(f"{pods}/{pod['metadata']['name']}/status", told)


@contextmanager
def labels_of_aks(api: Api) -> Iterator[None]:
    """Give nodes two labels of AKS: a single one is no mark of it, since it may come from
    elsewhere."""
    labels = {"kubernetes.azure.com/cluster": "lab", "kubernetes.azure.com/mode": "system"}
    for name in LINUX_NODES:
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    yield
    for name in LINUX_NODES:
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": dict.fromkeys(labels)}})


@contextmanager
def pods_of_others(api: Api) -> Iterator[None]:
    """Run a pod of another owner on each Windows node."""
    with contextlib.ExitStack() as pods:
        for node in NANOSERVER:
            pods.enter_context(_windows_pod(api, node, f"others-on-{node}", "default", {}))
        yield


EDITS: dict[str, Callable[..., contextlib.AbstractContextManager[None]]] = {
    item.__name__: item
    for item in (
        cluster_dns_on,
        typha_on,
        no_kube_controllers,
        typha_waits_for_a_node,
        endpoint_config_map_gone,
        pool_without_encapsulation,
        address_not_announced,
        plugin_not_installed,
        windows_laid_by_the_operator,
        ipip_turned_on,
        wireguard,
        ebpf,
        dual_stack,
        calico_runs_for_days,
        labels_of_aks,
        pods_of_others,
    )
}
