# SPDX-License-Identifier: Apache-2.0
"""Deploying the suite's pods into the worker's namespaces, and reading them back as what they became.

Everything is created at once and waited for together; the OS of a pod is that of the node it landed on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from conformance.errors import EnvironmentBroken, MissingCapability, SuiteError
from conformance.kube import manifest, prepared, waits
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.prepared import BASELINE
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.counted import counted
from conformance.model.endpoint import OS, Workload
from conformance.model.facts import Facts, NodeFacts
from conformance.model.images import RanImage
from conformance.pods import tailor
from conformance.pods.nodes_gone import gone
from conformance.pods.nodes_lost import NodeWatch
from conformance.pods.placement import tolerations
from conformance.pods.roles import MANIFESTS, ROLES, Role
from conformance.pods.tailor import SEAT
from conformance.settings import Images, Settings

PRIVILEGED = {
    f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")
}
"""For pods in a node's own network, which baseline refuses."""
MOST_COPIES = 9
"""Copies of one pull secret in one namespace: each attempt to prepare the namespace that broke off left one."""
NEVER = "conformance/never"
"""A condition of pods that nobody sets."""
PROGRAMS = (
    "agent.py", "stream_agent.py", "echo_server.py", "host_facts.py", "capture.py", "golden_server.py",
    "matrix-agent.ps1", "stream-agent.ps1", "echo-server.ps1",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Wish:
    """One pod that somebody wants: a role on a node, under a name of its own where there are several of a role."""

    role: str
    node: NodeFacts
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pod beside ``app``, ``os`` and its seat."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the pod beside those of its manifest."""
    account: str = ""
    """Its service account; empty: the default one."""
    namespace: str = ""
    """"": the worker's namespace, or its host namespace for roles in a node's network."""
    never_ready: bool = False
    """Its pod runs and answers but has a readiness gate whose condition nobody sets."""

    @property
    def called(self) -> str:
        """Name of the Deployment and of its pods' seat; their ``app`` label is the role."""
        return self.name or self.role


class Pods:
    """Pods of one worker on one cluster."""

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
        """Namespaces that are there, whether or not everything in them could be made."""
        self._prepared: set[str] = set()
        self._pull_secrets: dict[str, dict[str, str]] = {}
        """Namespace to the names that pull secrets have there, by their own."""
        self.ran: set[RanImage] = set()
        """Images of the pods that became ready."""

    def prepare(
        self, namespace: str, labels: Mapping[str, str] | None = None, *, privileged: bool = False
    ) -> None:
        """Create a namespace of this worker with the probe programs and pull secrets in it; once each.

        Raises UsageProblem when it exists and is not this run's, MissingCapability for a ``privileged`` one where the
        cluster's owner has prepared namespaces.
        """
        if namespace in self._prepared:
            return
        prefix = self.changes.run.prefix
        if prefix and privileged:
            raise MissingCapability(
                "pods in a node's network and HostProcess pods do not run in prepared namespaces",
                "run it without --namespaces-prefix, under the role of manifests/rbac/standard.yaml",
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
                self.kube.reach.end(f"no namespace can be made: {refused}")
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
        """Apply a pod, or a workload, in a prepared namespace; it pulls with the secrets that are there."""
        spec = made["spec"]["template"]["spec"] if "template" in made["spec"] else made["spec"]
        pull_with(spec, self._pull_secrets.get(namespace, {}))
        self.changes.apply(made, why, namespace=namespace)

    def deploy(self, wishes: Sequence[Wish]) -> dict[str, Workload]:
        """Deploy all of them at once and wait until they are ready: Workloads by their Deployment's name.

        Raises EnvironmentBroken (image cannot be pulled, not ready in time, landed elsewhere), MissingCapability (no
        image for the node's Windows build, the node has gone away).
        """
        made = [self._object(wish) for wish in wishes]
        nodes = [wish.node.name for wish in wishes]
        if lack := gone(self.kube, nodes) or self.watch.lost(nodes):
            raise lack  # else the scheduler would look for it until patience ends
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
        """The pod that a dry run does not make: where it would be, without an address."""
        role = ROLES[wish.role]
        node = wish.node
        return Workload(
            namespace=self._home(wish),
            pod=wish.called,
            container=role.agent,
            uid=f"dry-run/{wish.called}",
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
        """Deploy one that never becomes ready, and wait until its containers are.

        Raises EnvironmentBroken when they are not in time, MissingCapability when no image fits its node.
        """
        self.start(wish)
        if self.changes.dry_run:
            return self._imagined(wish)
        pod = self.pod_of(
            wish.called,
            wish.node,
            self._home(wish),
            enough=waits.containers_ready,
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
        enough: Callable[[Obj], bool] = waits.is_ready,
        what: str = "ready",
        why: str = "",
    ) -> Obj:
        """The pod of a seat on a node, once it is ready, or ``enough`` (``what``); ``why``: it takes another's place.

        Raises EnvironmentBroken with what its cluster says of it where it is not in a new pod's time, or its node or
        namespace was lost, MissingCapability where its node has gone away.
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
                f"{why and f'{why}, and no other is ready: '}{error}"
            ) from error
        finally:
            self.progress(f"{home}/{seat}: ")
        return pod

    def _deleted(self, home: str) -> EnvironmentBroken | None:
        found = self.kube.find("v1", "Namespace", home)
        if found is not None and not found["metadata"].get("deletionTimestamp"):
            return None
        return EnvironmentBroken(
            f"namespace {home} of this run was deleted by somebody else while it was in use"
        )

    def again(self, wish: Wish, why: str = "") -> Workload:
        """The pod that a Deployment has now, once it is ready.

        ``why``: what happened to the pod that it had before; empty: it had none.  Raises
        EnvironmentBroken with it when no pod is ready in a new pod's time.
        """
        return self.workload(
            self.pod_of(wish.called, wish.node, self._home(wish), why=why), ROLES[wish.role]
        )

    def workload(self, pod: Obj, role: Role) -> Workload:
        """A running pod as attempts see it.  Raises EnvironmentBroken: a node of another OS, others' proxy in it."""
        meta = pod["metadata"]
        status = pod["status"]
        name = pod["spec"].get("nodeName") or ""
        node = next((item for item in self.facts.nodes if item.name == name), None)
        found: OS = node.os if node else _os_of(self.kube.get("v1", "Node", name))
        if found != role.os:
            raise EnvironmentBroken(
                f"pod {meta['namespace']}/{meta['name']} is to be a {role.os} pod, but landed on {found} node {name}"
            )
        if by := tailor.redirecting(pod):
            raise EnvironmentBroken(
                f"pod {meta['namespace']}/{meta['name']} ({found}, node {name}) has {by}: it may answer and connect in "
                f"the pod's place, so that nothing seen there says anything of Calico\n  do  {tailor.EXEMPT}"
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
            address=status["podIP"],
            node_address=node.address if node else status["hostIP"],
            restarts=waits.restarts(pod),
            host_network=bool(pod["spec"].get("hostNetwork")),
            windows_build=node.revision if node else "",
        )

    def remove(self, *, within: float | None = None) -> None:
        """Delete this worker's namespaces, or what it made in those prepared for it, and wait until they are gone."""
        patience = within if within is not None else self.settings.timings.windows.delete
        for pod in (
            self._on_lost_nodes()
        ):  # else a kubelet that is no more would have to say that it has ended
            self.changes.delete(pod, "its node was lost", grace=0)
        targets = [
            ObjectRef(api_version="v1", kind="Namespace", name=name)
            for name in sorted(self._made, key=lambda one: one != self.namespace)
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
                    lambda one: self.changes.delete_and_wait(
                        one, "the run is over", within=patience
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
    """Delete Deployments of the worker's namespace, whose test is over."""
    for name in names:
        target = ObjectRef(
            api_version="apps/v1", kind="Deployment", name=name, namespace=deployer.namespace
        )
        deployer.changes.delete(target, "its test is over")


def copy_pull_secrets(
    kube: Kube, changes: Changes, images: Images, namespace: str
) -> dict[str, str]:
    """Copy the pull secrets of the namespace ``default`` for the kubelets of a namespace's pods.

    Into namespaces that the cluster's owner has prepared none is copied: the owner has put them there.  Returns each
    secret's name to the name of its copy.  Raises EnvironmentBroken when one cannot be read.
    """
    copies: dict[str, str] = {}
    for name in () if changes.run.prefix else images.all_pull_secrets:
        try:
            found = kube.get("v1", "Secret", name, "default")
        except ApiRefused as refusal:
            raise EnvironmentBroken(
                f"pull secret {name}: cannot be read in namespace default: {refusal.message}"
                " (it takes the role of manifests/rbac/pull-secrets.yaml)"
            ) from refusal
        copy: Obj = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": found.get("type"),
            "data": found.get("data") or {},
        }
        copies[name] = _copied(changes, copy, name, namespace)
    return copies


def _copied(changes: Changes, copy: Obj, name: str, namespace: str) -> str:
    """Create the copy of a pull secret and return its name: NAME, or NAME-2 where there is one already, and so on.

    A secret is only ever created: whoever may patch secrets reads them, since a PATCH answers with the object.
    """
    for number in range(1, MOST_COPIES + 1):
        called = name if number == 1 else f"{name}-{number}"
        try:
            changes.create(
                {**copy, "metadata": {"name": called}},
                "lets the kubelets pull its images",
                namespace=namespace,
            )
        except ApiRefused as refusal:
            if not refusal.already_exists:
                raise
        else:
            return called
    raise EnvironmentBroken(
        f"namespace {namespace} has {MOST_COPIES} copies of pull secret {name} already"
    )


def pull_with(spec: Obj, copies: Mapping[str, str]) -> None:
    """Let a pod spec name the copies of its pull secrets."""
    for one in spec.get("imagePullSecrets") or ():
        one["name"] = copies.get(one["name"], one["name"])


def changed(workload: Workload, pod: Obj | None) -> str:
    """What happened to a pod since it became a Workload; empty when nothing did.  ``pod``: as it is now, None: gone."""
    what = " is gone" if pod is None else next(_changes(workload, pod), "")
    return f"pod {workload.label}{what}" if what else ""


def _changes(workload: Workload, pod: Obj) -> Iterator[str]:
    """What is not as it was, beginning with what explains the rest."""
    status = pod.get("status") or {}
    statuses = status.get("containerStatuses") or []
    if pod["metadata"]["uid"] != workload.uid:
        node = pod["spec"].get("nodeName") or "none yet"
        yield f" was replaced by another of the same name on node {node}"
    if pod["metadata"].get("deletionTimestamp"):
        yield f" is being deleted{_disruption(status)}"
    if again := waits.restarts(pod) - workload.restarts:
        yield f" restarted {counted(again, 'time')}: {_last_ends(statuses)}"
    if status.get("phase") != "Running":
        yield f" is {waits.pod_state(pod) if status.get('reason') else status.get('phase')}"
    # where no container is started again, those beside the workload's own may end: they are done
    once = (pod.get("spec") or {}).get("restartPolicy") == "Never"
    yield from _stopped([one for one in statuses if not once or one["name"] == workload.container])
    if status.get("podIP", workload.address) != workload.address:  # its sandbox was made anew
        yield f" has another address, {status['podIP']} instead of {workload.address}"


def _disruption(status: Obj) -> str:
    """`` (...)`` with the message of what evicts a pod; empty: nothing says so."""
    conditions = {one.get("type"): one.get("message") for one in status.get("conditions") or []}
    by = conditions.get("DisruptionTarget")
    return f" ({by})" if by else ""


def _last_ends(statuses: Sequence[Obj]) -> str:
    """How containers that were started again had ended."""
    ends = [
        f"{status['name']}: {end.get('reason')} ({end.get('exitCode')})"
        for status in statuses
        if (end := (status.get("lastState") or {}).get("terminated"))
    ]
    return ", ".join(ends) or "no reason given"


def _stopped(statuses: Sequence[Obj]) -> Iterator[str]:
    """Containers that have ended and were not started again yet, so that no restart counts them."""
    for status in statuses:
        state = status.get("state") or {}
        ended = state.get("terminated") or state.get("waiting")
        if ended is not None:
            why = ended.get("reason") or "no reason given"
            yield f": its container {status['name']} is not running: {why}"


def changed_among(kube: Kube, workloads: Iterable[Workload]) -> dict[str, str]:
    """Uid to what happened (:func:`changed`), of those to which something did: one request per namespace."""
    several = {workload.uid: workload for workload in workloads}
    now = there_now(kube, several.values())
    found = {uid: changed(one, now.get((one.namespace, one.pod))) for uid, one in several.items()}
    return {uid: text for uid, text in found.items() if text}


def there_now(kube: Kube, workloads: Iterable[Workload]) -> dict[tuple[str, str], Obj]:
    """Every pod of the namespaces of some workloads by namespace and name: one request per namespace."""
    return {
        (namespace, workload["metadata"]["name"]): workload
        for namespace in sorted({workload.namespace for workload in workloads})
        for workload in kube.objects("v1", "Pod", namespace)
    }


def _os_of(node: Obj) -> OS:
    return "windows" if node["status"]["nodeInfo"]["operatingSystem"] == "windows" else "linux"
