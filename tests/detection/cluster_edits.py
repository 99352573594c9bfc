"""Changes of a running lab through its API, as a careless administrator makes them; each is taken back afterwards."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

AFFINITIES = "/apis/crd.projectcalico.org/v1/blockaffinities"
ANSWER_WITHIN = 20.0
"""Seconds; only a server that hangs is caught."""
BORROWED = "192.168.0.77"
"""In the first Linux node's block."""
FINALIZER = "detection.example/never"


class Api:
    """Plain requests to one lab."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        plain = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = plain["clusters"][0]["cluster"], plain["users"][0]["user"]
        self._server, self._token = cluster["server"], user["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)

    def __call__(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """One request; the decoded answer.  Raises HTTPError."""
        with self._open(method, path, body, kind) as answer:
            return json.load(answer)

    def merge(self, path: str, body: Any) -> Any:
        """A merge patch."""
        return self("PATCH", path, body, "application/merge-patch+json")

    def watch(self, path: str, stop: threading.Event) -> Iterator[Any]:
        """Objects as they are added, those that are there included, until ``stop``."""
        while not stop.is_set():
            with self._open("GET", f"{path}?watch=true&timeoutSeconds=2") as answer:
                for line in answer:
                    event = json.loads(line)
                    if event["type"] == "ADDED":
                        yield event["object"]

    def _open(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._server}{path}", data=data, headers=headers, method=method)
        return urllib.request.urlopen(request, timeout=ANSWER_WITHIN, context=self._tls)


def is_there(api: Api, path: str, uid: str) -> bool:
    """Whether the object of a path is still the one with this uid.  Raises HTTPError for anything but 404."""
    try:
        return bool(api("GET", path)["metadata"]["uid"] == uid)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False


@contextmanager
def on_each(api: Api, path: str, do: Callable[[Any], object]) -> Iterator[None]:
    """Do something with every object as soon as it is there, once."""
    stop, seen, errors = threading.Event(), set(), []

    def work() -> None:
        try:
            for obj in api.watch(path, stop):
                if obj["metadata"]["uid"] not in seen:
                    seen.add(obj["metadata"]["uid"])
                    do(obj)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="edits during the run")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
    if errors:
        raise errors[0]


def _affinity(api: Api, node: str) -> Any:
    return next(item for item in api("GET", AFFINITIES)["items"] if item["spec"]["node"] == node)


@contextmanager
def strict_affinity_off(api: Api) -> Iterator[None]:
    """IPAMConfiguration default: strictAffinity false, after everything was set up well."""
    path = "/apis/projectcalico.org/v3/ipamconfigurations/default"
    api.merge(path, {"spec": {"strictAffinity": False}})
    yield
    api.merge(path, {"spec": {"strictAffinity": True}})


@contextmanager
def second_block(api: Api) -> Iterator[None]:
    """A second confirmed block for a Windows node."""
    one = _affinity(api, "windows-2022")
    spec = {**one["spec"], "cidr": "192.168.250.0/26"}
    name = "windows-2022-192-168-250-0-26"
    api(
        "POST",
        AFFINITIES,
        {"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": {"name": name}, "spec": spec},
    )
    yield
    api("DELETE", f"{AFFINITIES}/{name}")


@contextmanager
def block_of_two_nodes(api: Api, node: str) -> Iterator[None]:
    """A Linux node has the block of a Windows node, too."""
    one = _affinity(api, node)
    name = f"linux-1-of-{node}"
    body = {"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": {"name": name}}
    api("POST", AFFINITIES, {**body, "spec": {**one["spec"], "node": "linux-1"}})
    yield
    api("DELETE", f"{AFFINITIES}/{name}")


@contextmanager
def second_pool(api: Api) -> Iterator[None]:
    """A second pool, which no node may use."""
    path = "/apis/projectcalico.org/v3/ippools"
    spec = {"cidr": "172.30.0.0/16", "vxlanMode": "Always", "ipipMode": "Never", "nodeSelector": "zone == 'b'"}
    body = {"apiVersion": "projectcalico.org/v3", "kind": "IPPool", "metadata": {"name": "second"}, "spec": spec}
    api("POST", path, body)
    yield
    api("DELETE", f"{path}/second")


@contextmanager
def windows_reservation_on_linux(api: Api) -> Iterator[None]:
    """A Linux node's block keeps back its first two addresses as only Windows nodes' blocks do."""
    blocks = "/apis/crd.projectcalico.org/v1/ipamblocks"
    cidr = _affinity(api, "linux-2")["spec"]["cidr"]
    before = next(item for item in api("GET", blocks)["items"] if item["spec"]["cidr"] == cidr)
    path, spec = f"{blocks}/{before['metadata']['name']}", before["spec"]
    ours = len(spec["attributes"])
    attributes = [*spec["attributes"], {"handle_id": "windows-reserved-ipam-handle"}]
    api.merge(path, {"spec": {"attributes": attributes, "allocations": [ours, ours, *spec["allocations"][2:]]}})
    yield
    api.merge(path, {"spec": {"attributes": spec["attributes"], "allocations": spec["allocations"]}})


@contextmanager
def borrowed_address(api: Api, node: str) -> Iterator[None]:
    """A pod on a node has an address of a Linux node's block."""
    with pod_with_address(api, node, BORROWED):
        yield


@contextmanager
def reserved_address(api: Api, node: str) -> Iterator[None]:
    """A pod on a Windows node has the address of its HNS network's gateway, the second of its block."""
    with pod_with_address(api, node, str(ipaddress.IPv4Network(_affinity(api, node)["spec"]["cidr"])[1])):
        yield


@contextmanager
def address_in_a_reservation(api: Api, node: str) -> Iterator[None]:
    """A pod on a node gets an address that an IPReservation keeps back."""
    path = "/apis/projectcalico.org/v3/ipreservations"
    address = str(ipaddress.IPv4Network(_affinity(api, node)["spec"]["cidr"])[50])
    spec = {"reservedCIDRs": [f"{address}/32"]}
    body = {"apiVersion": "projectcalico.org/v3", "kind": "IPReservation", "metadata": {"name": "ours"}, "spec": spec}
    api("POST", path, body)
    time.sleep(1.1)  # times of creation are whole seconds, and the pod has to be younger
    with pod_with_address(api, node, address):
        yield
    api("DELETE", f"{path}/ours")


@contextmanager
def affinity_gone(api: Api, node: str) -> Iterator[None]:
    """A node's block is nobody's any more: its affinity is deleted, while pods have its addresses."""
    before = _affinity(api, node)
    path = f"{AFFINITIES}/{before['metadata']['name']}"
    api("DELETE", path)
    yield
    meta = {"name": before["metadata"]["name"]}
    api("POST", AFFINITIES, {"apiVersion": before["apiVersion"], "kind": before["kind"], "metadata": meta,
                             "spec": before["spec"]})  # fmt: skip


@contextmanager
def pod_with_address(api: Api, node: str, address: str) -> Iterator[None]:
    """A pod on a node says that it has this address."""
    pods = "/api/v1/namespaces/default/pods"
    tag = {"windows-2019": "1809", "windows-2022": "ltsc2022"}[node]
    container = {
        "name": "borrower",
        "image": f"mcr.microsoft.com/windows/nanoserver:{tag}",
        "command": ["ping", "-t", "127.0.0.1"],
    }
    spec = {"nodeName": node, "containers": [container]}
    api("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "borrower"}, "spec": spec})
    deadline = time.monotonic() + ANSWER_WITHIN
    while api("GET", f"{pods}/borrower")["status"].get("phase") != "Running":
        if time.monotonic() > deadline:
            raise RuntimeError(f"pod borrower does not start: {api('GET', f'{pods}/borrower')['status']}")
        time.sleep(0.2)
    api.merge(f"{pods}/borrower/status", {"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    yield
    api("DELETE", f"{pods}/borrower", {"gracePeriodSeconds": 0})


@contextmanager
def scheduler_on_windows(api: Api) -> Iterator[None]:
    """A pod of the control plane runs on a Windows node."""
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
    """calico-node of an operator's installation is told to use etcd, while the operator looks away."""
    path = "/apis/apps/v1/namespaces/calico-system/daemonsets/calico-node"
    before = api("GET", path)["spec"]["template"]["spec"]["containers"]
    first = {**before[0], "env": [e for e in before[0].get("env") or [] if e["name"] != "DATASTORE_TYPE"]}
    first["env"] = [*first["env"], {"name": "DATASTORE_TYPE", "value": "etcdv3"}]
    with no_operator(api):
        api.merge(path, {"spec": {"template": {"spec": {"containers": [first, *before[1:]]}}}})
        yield
        api.merge(path, {"spec": {"template": {"spec": {"containers": before}}}})


@contextmanager
def no_operator(api: Api) -> Iterator[None]:
    """Calico's operator is scaled down: it undoes what is changed in the workloads that it lays."""
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
    """calico-node is told to run on the control plane, so that no Linux worker has one."""
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
    """The pool, and the Installation that names it, say another encapsulation than the one that packets have."""
    pools, pool = api("GET", INSTALLATION)["spec"]["calicoNetwork"]["ipPools"], api("GET", POOL)["spec"]

    def write(pools: list[Any], modes: dict[str, str]) -> None:
        api.merge(INSTALLATION, {"spec": {"calicoNetwork": {"ipPools": pools}}})
        api.merge(POOL, {"spec": modes})

    write([{**pools[0], "encapsulation": named}], modes)
    yield
    write(pools, {field: pool[field] for field in modes})


@contextmanager
def pool_says_ipip(api: Api) -> Iterator[None]:
    """The pool is one of IPIP."""
    yield from _encapsulation(api, "IPIP", {"ipipMode": "Always", "vxlanMode": "Never"})


@contextmanager
def pool_says_vxlan_between_subnets(api: Api) -> Iterator[None]:
    """The pool has VXLAN between subnets only."""
    yield from _encapsulation(api, "VXLANCrossSubnet", {"vxlanMode": "CrossSubnet"})


@contextmanager
def bgp_under_vxlan(api: Api) -> Iterator[None]:
    """BGP is enabled in the Installation, and the operator gives calico-node its backend."""
    path = "/apis/apps/v1/namespaces/calico-system/daemonsets/calico-node-windows"

    def settle(backend: str) -> None:
        deadline = time.monotonic() + ANSWER_WITHIN
        while not _rolled_out(api("GET", path), backend):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the operator does not get calico-node-windows to backend {backend}")
            time.sleep(0.1)

    api.merge(INSTALLATION, {"spec": {"calicoNetwork": {"bgp": "Enabled"}}})
    settle("windows-bgp")
    yield
    api.merge(INSTALLATION, {"spec": {"calicoNetwork": {"bgp": "Disabled"}}})
    settle("vxlan")


def _rolled_out(daemons: Any, backend: str) -> bool:
    """Whether all pods of calico-node-windows are of the template that has this backend."""
    container, status = daemons["spec"]["template"]["spec"]["containers"][0], daemons["status"]
    told = next(item["value"] for item in container["env"] if item["name"] == "CALICO_NETWORKING_BACKEND")
    current = status.get("observedGeneration") == daemons["metadata"]["generation"]
    wanted = status["desiredNumberScheduled"]
    ready = wanted == status.get("updatedNumberScheduled", 0) == status.get("numberReady", 0)
    return bool(told == backend and current and ready)


def _felix(api: Api, spec: dict[str, Any]) -> Iterator[None]:
    """FelixConfiguration default with these fields."""
    path = "/apis/projectcalico.org/v3/felixconfigurations/default"
    before = api("GET", path)["spec"]
    api.merge(path, {"spec": spec})
    yield
    api.merge(path, {"spec": {name: before.get(name) for name in spec}})


@contextmanager
def another_vxlan_port(api: Api) -> Iterator[None]:
    """VXLAN is configured to use a port that Windows does not know."""
    yield from _felix(api, {"vxlanPort": 4790})


@contextmanager
def vni_below_4096(api: Api) -> Iterator[None]:
    """The VNI is one that Windows refuses."""
    yield from _felix(api, {"vxlanVNI": 4095})


@contextmanager
def announces_an_address_of_nobody(api: Api, node: str) -> Iterator[None]:
    """A node announces an address that it does not have, and nobody else has."""
    path, name = f"/api/v1/nodes/{node}", "projectcalico.org/IPv4Address"
    before = api("GET", path)["metadata"]["annotations"][name]
    api.merge(path, {"metadata": {"annotations": {name: "10.0.0.99/24"}}})
    yield
    api.merge(path, {"metadata": {"annotations": {name: before}}})


@contextmanager
def tunnel_of_another_block(api: Api) -> Iterator[None]:
    """A Windows node announces a tunnel address outside its block."""
    path = "/api/v1/nodes/windows-2022"
    name = "projectcalico.org/IPv4VXLANTunnelAddr"
    before = api("GET", path)["metadata"]["annotations"][name]
    api.merge(path, {"metadata": {"annotations": {name: "192.168.0.77"}}})
    yield
    api.merge(path, {"metadata": {"annotations": {name: before}}})


@contextmanager
def tunnel_without_mac(api: Api) -> Iterator[None]:
    """A Windows node does not announce the MAC address of its tunnel."""
    path = "/api/v1/nodes/windows-2022"
    name = "projectcalico.org/VXLANTunnelMACAddr"
    before = api("GET", path)["metadata"]["annotations"][name]
    api.merge(path, {"metadata": {"annotations": {name: None}}})
    yield
    api.merge(path, {"metadata": {"annotations": {name: before}}})


@contextmanager
def pods_never_go(api: Api) -> Iterator[None]:
    """Every pod of a namespace that is filled to be deleted gets a finalizer that nobody removes."""
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
        with contextlib.suppress(Exception):  # gone when the run never deleted it
            api.merge(path, {"metadata": {"finalizers": None}})


@contextmanager
def services_end_with_a_policy(api: Api) -> Iterator[None]:
    """A namespace's Services have no backends any more as soon as a policy of services comes there."""

    def end(policy: Any) -> None:
        meta = policy["metadata"]
        if not meta["name"].startswith("only-the-client-enters"):
            return
        services = f"/api/v1/namespaces/{meta['namespace']}/services"
        for item in api("GET", services)["items"]:
            api.merge(f"{services}/{item['metadata']['name']}", {"spec": {"selector": {"nobody": "here"}}})

    with on_each(api, "/apis/networking.k8s.io/v1/networkpolicies", end):
        yield


@contextmanager
def faults_until_a_policy(api: Api) -> Iterator[None]:
    """The row's faults end as soon as somebody makes a NetworkPolicy."""
    command = [sys.executable, "-m", "hybridlab", "faults", "--kubeconfig", str(api.kubeconfig), "heal"]
    with on_each(
        api, "/apis/networking.k8s.io/v1/networkpolicies",
        lambda policy: subprocess.run(command, check=True, capture_output=True, timeout=ANSWER_WITHIN),
    ):  # fmt: skip
        yield


@contextmanager
def comings_and_goings(api: Api) -> Iterator[None]:
    """All the while namespaces of somebody else come and go, each with a Service, a pod and a policy."""
    stop = threading.Event()

    def work() -> None:
        for number in range(1000):
            name = f"somebodys-{number}"
            meta, within = {"name": name}, f"namespaces/{name}"
            pod = {"nodeSelector": {"no": "node"}, "containers": [{"name": "one", "image": "example.org/one:1"}]}
            policies = f"/apis/networking.k8s.io/v1/{within}/networkpolicies"
            api("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
            for path, version, kind, spec in (
                (f"/api/v1/{within}/services", "v1", "Service", {"ports": [{"port": 80}]}),
                (f"/api/v1/{within}/pods", "v1", "Pod", pod),
                (policies, "networking.k8s.io/v1", "NetworkPolicy", {"podSelector": {}}),
            ):
                api("POST", path, {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})
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
        strict_affinity_off,
        second_block,
        block_of_two_nodes,
        second_pool,
        windows_reservation_on_linux,
        calico_node_on_the_control_plane_alone,
        borrowed_address,
        pod_with_address,
        reserved_address,
        address_in_a_reservation,
        affinity_gone,
        scheduler_on_windows,
        etcd_under_the_operator,
        pool_says_ipip,
        pool_says_vxlan_between_subnets,
        bgp_under_vxlan,
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
