# SPDX-License-Identifier: Apache-2.0
"""The control plane and all kubelets of a lab, put together and started in the right order.

First ``register()`` (machines in the data plane, namespaces, nodes), then components that need only
those (Calico), then ``start()`` (controllers, kubelets, system workloads).
"""

import asyncio
import logging
from collections.abc import Callable

from hybridlab.api.contract import Client, NodeAgent, Obj
from hybridlab.controllers.cache import Cache, Caches
from hybridlab.controllers.daemonsets import DaemonSets
from hybridlab.controllers.deployments import Deployments
from hybridlab.controllers.disruption import DisruptionBudgets
from hybridlab.controllers.dns import Dns, ZoneWriter
from hybridlab.controllers.endpoints import EndpointsController
from hybridlab.controllers.environment import Sources
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.kube_proxy import KubeProxies, ServiceWriter
from hybridlab.controllers.kubelet import Kubelet
from hybridlab.controllers.load_balancers import LoadBalancers
from hybridlab.controllers.mirroring import EndpointsMirroring
from hybridlab.controllers.node_context import ContainerHook, NodeContext
from hybridlab.controllers.nodes import Nodes
from hybridlab.controllers.operator import Operator
from hybridlab.controllers.pod_garbage import PodGarbage
from hybridlab.controllers.replicasets import ReplicaSets
from hybridlab.controllers.scheduler import Scheduler
from hybridlab.controllers.settings import KubeletSettings
from hybridlab.controllers.taint_eviction import TaintEviction
from hybridlab.controllers.volumes import TokenIssuer
from hybridlab.controllers.workloads import Workloads
from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.model import FabricTable, NodeSpec
from hybridlab.dataplane.pod_network import PodNetwork
from hybridlab.profiles.machines import Machine, machines
from hybridlab.profiles.model import Profile
from hybridlab.runtime.contract import Runtime
from hybridlab.runtime.model import ContainerExit
from hybridlab.runtime.stalls import KubeletStalls

logger = logging.getLogger(__name__)


class ControlPlane:
    """Everything of a cluster that follows the API, except Calico."""

    def __init__(  # noqa: PLR0917
        self,
        client: Callable[[str], Client],
        dataplane: Dataplane,
        runtime: Runtime,
        profile: Profile,
        pod_network: PodNetwork,
        workloads: Workloads,
        *,
        resolvers: ZoneWriter | None = None,
        proxied: ServiceWriter | None = None,
        snat_local_pods_to: Callable[[str], str | None] = lambda node: None,
        snat_node_ports_to: Callable[[str], str | None] = lambda node: None,
        issue_token: TokenIssuer | None = None,
        settings: KubeletSettings | None = None,
        system_workloads: bool = True,
        kubelet_stalls: KubeletStalls | None = None,
    ) -> None:
        """Set up the control plane. ``client`` makes a client for a component's user name.
        ``resolvers`` receives the DNS zone, ``proxied`` the table of Services of each node's
        kube-proxy (default for both: the data plane). kube-proxy uses ``snat_local_pods_to`` and
        ``snat_node_ports_to``, and volumes use ``issue_token``. ``system_workloads``: create the
        objects of ``workloads``, and run Calico's operator if ``workloads`` has it."""
        self.profile = profile
        self.machines = machines(profile)
        self._client = client("system:kube-controller-manager")
        self._dataplane = dataplane
        self._workloads = workloads
        self._system = system_workloads
        self._kubelet_stalls = kubelet_stalls or KubeletStalls()
        self._started: list[ContainerHook] = []
        self._stopped: list[ContainerHook] = []
        self.caches = Caches(self._client)
        self.recorder = Recorder(self._client)
        self._nodes = Nodes(
            self._client,
            self.caches,
            self.machines,
            profile,
            workloads.node_labels,
            stalls=self._kubelet_stalls,
        )
        self.kube_proxies = KubeProxies(
            self.caches,
            proxied or dataplane,
            self.machines,
            snat_local_pods_to=snat_local_pods_to,
            snat_node_ports_to=snat_node_ports_to,
        )
        self._components = (
            Scheduler(client("system:kube-scheduler"), self.caches, self.recorder),
            Deployments(self._client, self.caches, self.recorder),
            ReplicaSets(self._client, self.caches, self.recorder),
            DaemonSets(
                self._client, self.caches, self.recorder, profile.timing.daemon_replaced_ms / 1000
            ),
            DisruptionBudgets(self._client, self.caches),
            TaintEviction(self._client, self.caches, self.recorder),
            PodGarbage(self._client, self.caches),
            EndpointsController(self._client, self.caches),
            EndpointsMirroring(self._client, self.caches),
            LoadBalancers(client("system:cloud-controller-manager"), self.caches),
            self.kube_proxies,
            Dns(self.caches, resolvers or dataplane, profile.network.dns_domain),
        )
        self._operator: Operator | None = None
        if system_workloads and workloads.operator:
            self._operator = Operator(
                client("system:serviceaccount:tigera-operator:tigera-operator"),
                self.caches,
                profile,
                workloads,
            )
        self.kubelets: dict[str, Kubelet] = {}
        for machine in self.machines:
            self.kubelets[machine.name] = self._kubelet(
                machine,
                client(f"system:node:{machine.name}"),
                runtime,
                pod_network,
                issue_token,
                settings or KubeletSettings(),
            )
        runtime.on_exit(self._on_exit)

    def _kubelet(  # noqa: PLR0917
        self,
        machine: Machine,
        client: Client,
        runtime: Runtime,
        pod_network: PodNetwork,
        issue_token: TokenIssuer | None,
        settings: KubeletSettings,
    ) -> Kubelet:
        context = NodeContext(
            machine=machine,
            profile=self.profile,
            client=client,
            recorder=self.recorder,
            runtime=runtime,
            dataplane=self._dataplane,
            network=pod_network,
            sources=Sources(
                named={
                    resource: self.caches.of(resource).get
                    for resource in ("configmaps", "secrets", "persistentvolumeclaims")
                },
                services=self.caches.of("services").within,
                allocatable={"cpu": "8", "memory": "32761500Ki"},
            ),
            settings=settings,
            issue_token=issue_token,
            container_started=lambda *what: self._tell(self._started, *what),
            container_stopped=lambda *what: self._tell(self._stopped, *what),
            faults=self._kubelet_stalls,
        )
        return Kubelet(context, lambda: self.caches.of("nodes").get("", machine.name))

    async def register(self) -> None:
        """Make the machines in the data plane, the system's namespaces and the Node objects."""
        await asyncio.gather(
            *(
                self._dataplane.add_node(_node_spec(machine, self.profile, self._workloads))
                for machine in self.machines
            )
        )
        if len({machine.subnet for machine in self.machines}) > 1:
            # this makes the fabric the router between the nodes' subnets
            await self._dataplane.set_fabric(FabricTable())
        network = self.profile.network
        if network.outside_address:
            await self._dataplane.add_outside(network.outside_address, network.underlay_mtu)
        present = {each["metadata"]["name"] for each in (await self._client.list("namespaces"))[0]}
        for name in self._workloads.namespaces():
            if name not in present:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await self._client.create("namespaces", body)
        await self._nodes.register()

    async def start(self) -> None:
        """Start all components and create the system workloads; return without waiting for their
        pods."""
        self.recorder.start()
        await self.caches.start()
        self.caches.of("pods").subscribe(self._on_pod)
        self.caches.of("configmaps").subscribe(
            lambda new, old: self._on_source("configMap", new, old)
        )
        self.caches.of("secrets").subscribe(lambda new, old: self._on_source("secret", new, old))
        self._nodes.start()
        for component in self._components:
            component.start()
        if self._system:
            for resource, body in self._workloads.objects():
                await self._client.create(resource, body, body["metadata"].get("namespace"))
        if self._operator is not None:
            self._operator.start()

    async def stop(self) -> None:
        """Stop all components; pods' containers and rules end with labd."""
        if self._operator is not None:
            await self._operator.stop()
        for component in self._components:
            await component.stop()
        await self._nodes.stop()
        await asyncio.gather(*(kubelet.stop() for kubelet in self.kubelets.values()))
        await self.recorder.stop()
        await self.caches.stop()

    async def ready(self) -> None:
        """Return when every system workload has all its pods ready; the workloads exist once
        ``start`` has returned."""
        wanted: dict[str, list[Obj]] = {"deployments.apps": [], "daemonsets.apps": []}
        for resource, obj in self._workloads.objects() if self._system else ():
            if resource in wanted:
                wanted[resource].append(obj["metadata"])
        for resource, metas in wanted.items():
            cache = self.caches.of(resource)

            def complete(_: object, cache: Cache = cache, metas: list[Obj] = metas) -> bool:
                return all(_complete(cache.get(meta["namespace"], meta["name"])) for meta in metas)

            await cache.informer.wait_for(complete)

    def node_agent(self, name: str) -> NodeAgent | None:
        """Return the kubelet of a node, for exec and logs; None if there is no such node."""
        return self.kubelets.get(name)

    async def kill_container(self, pod: Obj, container: str) -> None:
        """Kill the main process of a container; its kubelet then follows the pod's restart
        policy.
        """
        kubelet = self.kubelets[pod["spec"]["nodeName"]]
        await kubelet.context.runtime.stop(kubelet.container_id(pod, container), grace=0)

    def on_container_started(self, callback: ContainerHook) -> None:
        """Call ``callback(node, pod, container)`` for every container that starts from now on."""
        self._started.append(callback)

    def on_container_stopped(self, callback: ContainerHook) -> None:
        """Call ``callback(node, pod, container)`` for every container that ended or was stopped."""
        self._stopped.append(callback)

    @staticmethod
    def _tell(hooks: list[ContainerHook], node: str, pod: Obj, container: str) -> None:
        for hook in hooks:
            try:
                hook(node, pod, container)
            except Exception:  # a listener's error must not end the kubelet
                logger.exception("a listener failed on container %s on %s", container, node)

    def _on_pod(self, pod: Obj | None, before: Obj | None) -> None:
        found = pod or before
        kubelet = self.kubelets.get(found["spec"].get("nodeName") or "") if found else None
        if kubelet:
            kubelet.on_pod(pod, before)

    def _on_source(self, kind: str, obj: Obj | None, before: Obj | None) -> None:
        found = obj or before
        if found is None or (
            obj
            and before
            and all(obj.get(part) == before.get(part) for part in ("data", "binaryData"))
        ):
            return
        for kubelet in self.kubelets.values():
            kubelet.sources_changed(kind, found["metadata"]["namespace"], found["metadata"]["name"])

    def _on_exit(self, ended: ContainerExit) -> None:
        for kubelet in self.kubelets.values():
            if kubelet.on_exit(ended):
                return


def _complete(workload: Obj | None) -> bool:
    """Return whether a workload's status is current and all its wanted pods are ready."""
    if workload is None:
        return False
    status = workload.get("status") or {}
    spec = workload["spec"]
    if status.get("observedGeneration") != workload["metadata"].get("generation"):
        return False
    if workload["kind"] == "DaemonSet":
        return bool(status.get("numberReady", 0) == status.get("desiredNumberScheduled"))
    return bool(status.get("readyReplicas", 0) == spec.get("replicas", 1))


def _node_spec(machine: Machine, profile: Profile, workloads: Workloads) -> NodeSpec:
    return NodeSpec(
        name=machine.name,
        os=machine.os,
        address=machine.address,
        prefix_length=machine.prefix_length,
        underlay_mtu=profile.network.underlay_mtu,
        pod_prefix=workloads.pod_prefix,
        service_cidr=profile.network.service_cidr,
        reset=profile.windows.reset,
    )
