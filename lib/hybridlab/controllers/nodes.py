# SPDX-License-Identifier: Apache-2.0
"""Node objects as their kubelets would register them, and the leases that show that the kubelets
are alive.

The facts come from the profile; identifiers (machine id, system UUID) are derived from the node's
name, so that a lab that is started twice looks the same. A Node's status does not depend on the
machine on which the lab runs: a lab's nodes are always Ready as long as the lab lives, except when
a fault has ended their kubelet. Such nodes get the condition Ready with status Unknown, and the
taints of kube-controller-manager's node lifecycle.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.cache import Caches
from hybridlab.controllers.times import micro_timestamp, timestamp
from hybridlab.profiles.machines import Machine, pod_cidr
from hybridlab.profiles.model import Profile
from hybridlab.runtime.stalls import KubeletStalls

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
"""The interval, in seconds, at which a kubelet renews its lease."""

WINDOWS_NAMES = {
    17763: "Windows Server 2019 Datacenter",
    18362: "Windows Server Datacenter",
    18363: "Windows Server Datacenter",
    19041: "Windows Server Datacenter",
    19042: "Windows Server Datacenter",
    20348: "Windows Server 2022 Datacenter",
    25398: "Windows Server Datacenter",
    26100: "Windows Server 2025 Datacenter",
}
"""Maps each build to the ProductName in the registry, which a Windows kubelet reports as
osImage."""

LINUX_IMAGE = "Ubuntu 24.04.3 LTS"
LINUX_KERNEL = "6.8.0-87-generic"
UNREACHABLE = "node.kubernetes.io/unreachable"
SILENT = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
LOOK_SECONDS = 0.25
"""The interval, in seconds, of checks for silent kubelets; the real controller checks every 5 s."""
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node_object(machine: Machine, profile: Profile, labels: Mapping[str, str]) -> Obj:
    """Return the whole Node, including its status; ``labels`` are added to the labels that every
    kubelet sets."""
    spec: dict[str, Any] = {}
    cidr = pod_cidr(machine, profile)
    if cidr and profile.network.ipam != "platform":
        spec |= {"podCIDR": cidr, "podCIDRs": [cidr]}
    if machine.group.provider_id:
        spec["providerID"] = machine.group.provider_id.replace("{name}", machine.name)
    if machine.group.taints:
        spec["taints"] = [taint_of(text) for text in machine.group.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.name,
            "labels": {**_labels(machine), **labels, **machine.group.labels},
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                **machine.group.annotations,
            },
        },
        "spec": spec,
        "status": _status(machine, profile),
    }


def taint_of(text: str) -> dict[str, str]:
    """Return the taint object of ``key=value:Effect`` or ``key:Effect``."""
    pair, _, effect = text.rpartition(":")
    key, equals, value = pair.partition("=")
    return {"key": key, **({"value": value} if equals else {}), "effect": effect}


def _labels(machine: Machine) -> dict[str, str]:
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": machine.os,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": machine.os,
        "hybridlab.emulated": "true",  # marks a lab's results, unlike a real cluster's
    }
    if machine.os == "windows":
        labels["node.kubernetes.io/windows-build"] = machine.group.windows_build.rpartition(".")[0]
    return labels


def _status(machine: Machine, profile: Profile) -> Obj:
    now = timestamp()
    capacity = {
        "cpu": "8",
        "ephemeral-storage": "101430960Ki",
        "memory": "32863900Ki",
        "pods": str(machine.group.max_pods),
        **machine.group.resources,
    }
    if machine.os == "linux":
        capacity |= {"hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    conditions = [
        {
            "type": kind,
            "status": "False",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for kind, reason, message in PRESSURES
    ]
    conditions.append(
        {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        }
    )
    return {
        "addresses": [
            {"type": "InternalIP", "address": machine.address},
            {"type": "Hostname", "address": machine.name},
        ],
        "allocatable": capacity | {"ephemeral-storage": "93478772582", "memory": "32761500Ki"},
        "capacity": capacity,
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": [],
        "nodeInfo": _node_info(machine, profile),
    }


def _node_info(machine: Machine, profile: Profile) -> dict[str, str]:
    version = profile.kubernetes.version
    seed = f"{profile.name}/{machine.name}"
    if machine.os == "windows":
        os_image = WINDOWS_NAMES.get(machine.build or 0, "Windows Server Datacenter")
        kernel = machine.group.windows_build
    else:
        os_image = LINUX_IMAGE
        kernel = LINUX_KERNEL
    return {
        "architecture": "amd64",
        "bootID": str(uuid.uuid4()),
        "containerRuntimeVersion": machine.group.container_runtime,
        "kernelVersion": machine.group.kernel_version or kernel,
        "kubeProxyVersion": version,
        "kubeletVersion": version,
        # Windows has no machine id: its kubelet reports the host name
        "machineID": machine.name
        if machine.os == "windows"
        else hashlib.md5(seed.encode()).hexdigest(),
        "operatingSystem": machine.os,
        "osImage": machine.group.os_image or os_image,
        "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_DNS, seed)),
    }


class Nodes:
    """Registers the machines, renews their leases, and keeps the taint of cordoned nodes."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        machines: Sequence[Machine],
        profile: Profile,
        labels: Callable[[Machine], Mapping[str, str]],
        *,
        stalls: KubeletStalls,
    ) -> None:
        self._client = client
        self._cached = caches.of("nodes")
        self._stalls = stalls
        self._silent: dict[str, float] = {}
        """Maps each node to the time when its kubelet was first found silent, on the loop's
        clock."""
        self._unknown: set[str] = set()
        """Nodes that are marked Unknown."""
        self._machines = machines
        self._profile = profile
        self._labels = labels
        self._tasks: set[asyncio.Task[None]] = set()
        self._cached.subscribe(self._on_node)

    async def register(self) -> None:
        """Create all Node objects and leases (their namespace must exist)."""
        for machine in self._machines:
            node = await self._client.create(
                "nodes", node_object(machine, self._profile, self._labels(machine))
            )
            await self._client.create("leases.coordination.k8s.io", _lease(node), LEASE_NAMESPACE)

    def start(self) -> None:
        self._spawn(self._renew())
        self._spawn(self._watch_kubelets())

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            for machine in self._machines:
                if self._stalls.stalled("dead", machine.name):
                    continue
                change = {"spec": {"renewTime": micro_timestamp()}}
                try:
                    await self._client.patch(
                        "leases.coordination.k8s.io", machine.name, change, LEASE_NAMESPACE
                    )
                except ApiError as error:
                    if (
                        error.code != 404
                    ):  # the lease was deleted: the node object is what counts here
                        raise

    async def _watch_kubelets(self) -> None:
        """Mark a node Unknown when its kubelet has been silent for a long time, and Ready again
        when the kubelet is back."""
        patience = self._profile.timing.node_unknown_ms / 1000
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for machine in self._machines:
                name = machine.name
                if self._stalls.stalled("dead", name):
                    since = self._silent.setdefault(name, loop.time())
                    if loop.time() - since >= patience and name not in self._unknown:
                        await self._tell_of(name, alive=False)
                        self._unknown.add(name)
                else:
                    self._silent.pop(name, None)
                    if name in self._unknown:
                        await self._tell_of(name, alive=True)
                        self._unknown.discard(name)

    async def _tell_of(self, name: str, *, alive: bool) -> None:
        node = self._cached.get("", name)
        if node is None:
            return
        said = ("True", "KubeletReady", "kubelet is posting ready status")
        status, reason, message = said if alive else ("Unknown", *SILENT)
        changed = {
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(),
        }
        conditions = [
            condition | changed if condition["type"] == "Ready" else condition
            for condition in node["status"]["conditions"]
        ]
        await self._client.patch(
            "nodes", name, {"status": {"conditions": conditions}}, subresource="status"
        )
        others = [
            taint for taint in node["spec"].get("taints") or [] if taint["key"] != UNREACHABLE
        ]
        added = [
            {"key": UNREACHABLE, "effect": each, "timeAdded": timestamp()}
            for each in ("NoSchedule", "NoExecute")
        ]
        await self._client.patch(
            "nodes", name, {"spec": {"taints": others if alive else [*others, *added]}}
        )

    def _on_node(self, node: Obj | None, _: Obj | None) -> None:
        if node is None:
            return
        taints = node["spec"].get("taints") or []
        tainted = any(taint["key"] == UNSCHEDULABLE["key"] for taint in taints)
        cordoned = bool(node["spec"].get("unschedulable"))
        if tainted != cordoned:
            self._spawn(self._taint(node, taints, cordoned))

    async def _taint(self, node: Obj, taints: list[dict[str, str]], cordoned: bool) -> None:
        others = [taint for taint in taints if taint["key"] != UNSCHEDULABLE["key"]]
        if cordoned:
            others.append({**UNSCHEDULABLE, "timeAdded": timestamp()})
        change = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": others or None},
        }
        try:
            await self._client.patch("nodes", node["metadata"]["name"], change)
        except ApiError as error:
            if error.code not in {404, 409}:  # the node's newer state is an event of its own
                raise


def _lease(node: Obj) -> Obj:
    meta = node["metadata"]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": meta["name"],
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}
            ],
        },
        "spec": {
            "holderIdentity": meta["name"],
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_timestamp(),
        },
    }
