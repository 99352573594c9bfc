# SPDX-License-Identifier: Apache-2.0
"""Deploys the suite's pods into the worker's namespaces, and reads the running pods back.

All pods are created at once and awaited together. The OS of a pod is that of the node on which it
runs.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from conformance.errors import EnvironmentBroken, MissingCapability, SuiteError
from conformance.kube import manifest, pod_state, prepared
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import pod_address
from conformance.kube.prepared import BASELINE
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.endpoint import OS, Workload
from conformance.model.facts import Facts, NodeFacts
from conformance.model.images import RanImage
from conformance.pods import tailor
from conformance.pods.nodes_gone import gone
from conformance.pods.nodes_lost import NodeWatch
from conformance.pods.placement import tolerations
from conformance.pods.pull_secrets import copy_pull_secrets, pull_with
from conformance.pods.roles import MANIFESTS, ROLES, Role
from conformance.pods.tailor import SEAT
from conformance.settings import Settings

PRIVILEGED = {
    f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")
}
"""Labels of namespaces for pods in a node's own network, which Pod Security's level baseline
refuses."""
NEVER = "conformance/never"
"""A condition of pods that is never set."""
PROGRAMS = (
    "agent.py", "stream_agent.py", "echo_server.py", "host_facts.py", "capture.py", "golden_server.py",
    "matrix-agent.ps1", "stream-agent.ps1", "echo-server.ps1",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A wanted pod: a role on a node. It has a name of its own if there are several pods of the
    role."""

    role: str
    node: NodeFacts
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pod in addition to ``app``, ``os`` and its seat."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the pod in addition to those of its manifest."""
    account: str = ""
    """The pod's service account; empty: the default account."""
    namespace: str = ""
    """The pod's namespace. Empty: the worker's namespace, or its host namespace for roles in a
    node's network."""
    never_ready: bool = False
    """The pod runs and answers but has a readiness gate with a condition that is never set."""

    @property
    def called(self) -> str:
        """Return the name of the Deployment, which is also the seat (label) of its pods. The pods'
        label ``app`` is the role."""
        return self.name or self.role


class Pods:
    """The pods of a worker on a cluster."""

    def __init__(
        self,
        kube: Kube,
        changes: Changes,
        facts: Facts,
        settings: Settings,
        progress: Callable[[str], None] | None = None,
        *,
        watch: NodeWatch | None = None,
    ) -> None:
        self.kube = kube
        self.changes = changes
        self.facts = facts
        self.settings = settings
        self.progress = progress or (lambda line: None)
        self.watch = watch or NodeWatch(kube)
        self.namespace = changes.run.namespace
        self.host_namespace = f"{self.namespace}-host"
        self._made: set[str] = set()
        """Namespaces that were created, whether or not all objects in them could be made."""
        self._prepared: set[str] = set()
        self._pull_secrets: dict[str, dict[str, str]] = {}
        """The name of each pull secret's copy, by the namespace and the pull secret."""
        self.ran: set[RanImage] = set()
        """Images of the pods that became ready."""

    def prepare(
        self, namespace: str, labels: Mapping[str, str] | None = None, *, privileged: bool = False
    ) -> None:
        """Create a namespace of this worker, with the probe programs and pull secrets in it; do
        nothing if this was done before.

        Raise UsageProblem if the namespace exists and is not this run's. Raise MissingCapability
        for a ``privileged`` namespace if the cluster's owner has prepared namespaces.
        """
        if namespace in self._prepared:
            return
        prefix = self.changes.run.prefix
        if prefix and privileged:
            raise MissingCapability(
                "host-network pods and HostProcess pods cannot run in prepared namespaces",
                "run it without --namespaces-prefix, under the role of "
                "manifests/rbac/standard.yaml",
            )
        security = PRIVILEGED if privileged else BASELINE
        try:
            self.changes.namespace(
                namespace, labels={**security, **(labels or {})}, why="the run's own namespace"
            )
        except ApiRefused as refused:
            if (
                namespace == self.namespace
                and refused.code < 500
                and refused.code not in (401, 409, 429)
            ):
                self.kube.reach.end(f"the run cannot create a namespace: {refused}")
            raise
        self._made.add(namespace)
        programs = {
            name: (MANIFESTS / "probes" / name).read_text(encoding="ascii") for name in PROGRAMS
        }
        config: Obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": prepared.HOLDS},
            "data": programs,
        }
        why = "the probe programs that its pods run"
        if prefix:
            prepared.hold(self.changes, config, why, namespace)
        else:
            self.changes.apply(config, why, namespace=namespace)
        self._pull_secrets[namespace] = copy_pull_secrets(
            self.kube, self.changes, self.settings.images, namespace
        )
        self._prepared.add(namespace)

    def apply(self, made: Obj, why: str, namespace: str) -> None:
        """Apply a pod, or a workload, in a prepared namespace. Its pull secrets become the copies
        in that namespace."""
        spec = made["spec"]["template"]["spec"] if "template" in made["spec"] else made["spec"]
        pull_with(spec, self._pull_secrets.get(namespace, {}))
        self.changes.apply(made, why, namespace=namespace)

    def deploy(self, wishes: Sequence[Wish]) -> dict[str, Workload]:
        """Deploy all of these pods at once and wait until they are ready. Return the Workloads by
        the names of their Deployments.

        Raise EnvironmentBroken (image cannot be pulled, not ready in time, wrong node),
        MissingCapability (no image for the node's Windows build, the node no longer exists).
        """
        made = [self._object(wish) for wish in wishes]
        nodes = [wish.node.name for wish in wishes]
        if lack := gone(self.kube, nodes) or self.watch.lost(nodes):
            raise lack  # otherwise the scheduler would search for the node until the time limit
        for wish in wishes:
            self.prepare(self._home(wish), privileged=ROLES[wish.role].host_network)
        with ThreadPoolExecutor(max_workers=16) as pool:
            list(pool.map(self._create, wishes, made))
            there = (
                map(self._imagined, wishes)
                if self.changes.dry_run
                else pool.map(self.again, wishes)
            )
            return {wish.called: pod for wish, pod in zip(wishes, there, strict=True)}

    def _imagined(self, wish: Wish) -> Workload:
        """Return the pod that a dry run does not create: it has a node, but no address."""
        role = ROLES[wish.role]
        node = wish.node
        return Workload(
            namespace=self._home(wish),
            pod=wish.called,
            container=role.agent,
            uid=f"dry-run/{self._home(wish)}/{wish.called}",
            role=role.name,
            os=node.os,
            node=node.name,
            address="0.0.0.0",
            node_address=node.address,
            host_network=role.host_network,
        )

    def start(self, wish: Wish) -> None:
        made = self._object(wish)
        self.prepare(self._home(wish), privileged=ROLES[wish.role].host_network)
        self._create(wish, made)

    def deploy_unready(self, wish: Wish) -> Workload:
        """Deploy a pod that never becomes ready, and wait until its containers are ready.

        Raise EnvironmentBroken if the containers are not ready in time, MissingCapability if no
        image fits the node.
        """
        self.start(wish)
        if self.changes.dry_run:
            return self._imagined(wish)
        pod = self.pod_of(
            wish.called,
            wish.node,
            self._home(wish),
            enough=pod_state.containers_ready,
            what="have ready containers",
        )
        return self.workload(pod, ROLES[wish.role])

    def _home(self, wish: Wish) -> str:
        return wish.namespace or (
            self.host_namespace if ROLES[wish.role].host_network else self.namespace
        )

    def _object(self, wish: Wish) -> Obj:
        role = ROLES[wish.role]
        template = next(
            item
            for item in manifest.load(MANIFESTS / role.manifest)
            if item["metadata"]["name"] == role.name
        )
        made = tailor.deployment(
            template,
            role=wish.role,
            name=wish.called,
            node=wish.node,
            images=self.settings.images,
            labels=wish.labels,
            tolerations=tolerations(self.settings.tolerations),
            limits=self.settings.pod_limits,
        )
        made["spec"]["template"]["metadata"].setdefault("annotations", {}).update(wish.annotations)
        if wish.account:
            made["spec"]["template"]["spec"]["serviceAccountName"] = wish.account
        if wish.never_ready:
            made["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": NEVER}]
        return made

    def _create(self, wish: Wish, made: Obj) -> None:
        self.apply(made, f"{wish.role} on node {wish.node.name}", self._home(wish))

    def pod_of(
        self,
        seat: str,
        node: NodeFacts,
        home: str,
        *,
        enough: Callable[[Obj], bool] = pod_state.is_ready,
        what: str = "ready",
        why: str = "",
    ) -> Obj:
        """Return the pod of a seat on a node, once it is ready, or once ``enough`` holds
        (described by ``what``).

        ``why``: the reason if the pod replaces another pod. Raise EnvironmentBroken with the
        cluster's explanation if the pod is not ready within a new pod's time, or if its node or
        namespace was lost. Raise MissingCapability if its node no longer exists.
        """
        patience = self.settings.timings.of(node.os)

        def lost() -> SuiteError | None:
            return (
                gone(self.kube, [node.name]) or self.watch.lost([node.name]) or self._deleted(home)
            )

        try:
            (pod,) = self.changes.waits.pods_ready(
                home,
                f"{SEAT}={seat}",
                1,
                within=patience.image_pull + patience.pod_ready,
                lost=lost,
                enough=enough,
                what=what,
                progress=lambda state: self.progress(f"{home}/{seat}: {state}"),
            )
        except EnvironmentBroken as error:
            raise lost() or EnvironmentBroken(
                f"{why and f'{why}, and no other pod is ready: '}{error}"
            ) from error
        finally:
            self.progress(f"{home}/{seat}: ")
        return pod

    def _deleted(self, home: str) -> EnvironmentBroken | None:
        found = self.kube.find("v1", "Namespace", home)
        if found is not None and not found["metadata"].get("deletionTimestamp"):
            return None
        return EnvironmentBroken(
            f"namespace {home} of this run was deleted while it was in use, but not by this run"
        )

    def again(self, wish: Wish, why: str = "") -> Workload:
        """Return a Deployment's present pod, once it is ready.

        ``why``: what happened to its earlier pod; empty if there was none. Raise EnvironmentBroken
        with ``why`` if no pod is ready within a new pod's time.
        """
        return self.workload(
            self.pod_of(wish.called, wish.node, self._home(wish), why=why), ROLES[wish.role]
        )

    def workload(self, pod: Obj, role: Role) -> Workload:
        """Return a running pod as the Workload of attempts. Raise EnvironmentBroken for a node of
        another OS, or if another owner added a proxy to the pod."""
        meta = pod["metadata"]
        status = pod["status"]
        name = pod["spec"].get("nodeName") or ""
        node = next((item for item in self.facts.nodes if item.name == name), None)
        found: OS = node.os if node else _os_of(self.kube.get("v1", "Node", name))
        if found != role.os:
            raise EnvironmentBroken(
                f"pod {meta['namespace']}/{meta['name']} must run on a {role.os} node, but was scheduled "
                f"to {found} node {name}"
            )
        if by := tailor.redirecting(pod):
            raise EnvironmentBroken(
                f"pod {meta['namespace']}/{meta['name']} ({found}, node {name}) has {by}: it may answer and connect in "
                f"the pod's place, so observations there say nothing about Calico\n  do  {tailor.EXEMPT}"
            )
        self.ran |= {
            RanImage(
                image=wanted["image"],
                image_id=str(container_status.get("imageID") or ""),
                os=found,
                nodes=(name,),
            )
            for wanted in pod["spec"].get("containers") or []
            for container_status in status.get("containerStatuses") or []
            if container_status.get("name") == wanted["name"]
        }
        return Workload(
            namespace=meta["namespace"],
            pod=meta["name"],
            container=role.agent,
            uid=meta["uid"],
            role=role.name,
            os=found,
            node=name,
            address=pod_address(status),
            node_address=node.address if node else status["hostIP"],
            restarts=pod_state.restarts(pod),
            host_network=bool(pod["spec"].get("hostNetwork")),
            windows_build=node.revision if node else "",
            created=str(meta.get("creationTimestamp", "")),
            ready_since=pod_state.containers_ready_since(pod)[1],
        )

    def remove(self, *, within: float | None = None) -> None:
        """Delete this worker's namespaces, or its objects in prepared namespaces, and wait until
        they are gone."""
        patience = within if within is not None else self.settings.timings.windows.delete
        # otherwise the deletion would wait for a dead kubelet to report the pod's end
        for pod in self._on_lost_nodes():
            self.changes.delete(pod, "its node was lost", grace=0)
        targets = [
            ObjectRef(api_version="v1", kind="Namespace", name=name)
            for name in sorted(self._made, key=lambda namespace: namespace != self.namespace)
        ]
        if self.changes.run.prefix:
            targets = []
            prepared.vacate(
                self.changes,
                self._made,
                within=patience,
                every=self.settings.timings.windows.poll_every,
            )
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(
                pool.map(
                    lambda namespace: self.changes.delete_and_wait(
                        namespace, "the run is over", within=patience
                    ),
                    targets,
                )
            )
        self._made.clear()
        self._prepared.clear()

    def _on_lost_nodes(self) -> list[ObjectRef]:
        pods = [
            pod
            for namespace in sorted(self._made)
            for pod in self.kube.objects("v1", "Pod", namespace)
        ]
        lost = self.watch.lost_among(
            {str(pod["spec"]["nodeName"]) for pod in pods if pod["spec"].get("nodeName")}
        )
        return [
            ObjectRef(api_version="v1", kind="Pod", name=meta["name"], namespace=meta["namespace"])
            for pod in pods
            if pod["spec"].get("nodeName") in lost and (meta := pod["metadata"])
        ]


def end(deployer: Pods, *names: str) -> None:
    """Delete Deployments of the worker's namespace after their test."""
    for name in names:
        target = ObjectRef(
            api_version="apps/v1", kind="Deployment", name=name, namespace=deployer.namespace
        )
        deployer.changes.delete(target, "its test is over")


def _os_of(node: Obj) -> OS:
    return "windows" if node["status"]["nodeInfo"]["operatingSystem"] == "windows" else "linux"
