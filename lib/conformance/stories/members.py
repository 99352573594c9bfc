# SPDX-License-Identifier: Apache-2.0
"""The members of a story on a cluster: pods without a controller, and the events that happen to
them.

Everything is done as users and kubelets do it: objects are written and deleted, pods are evicted,
and a ConfigMap holds the words for which the members' probes and init containers wait. The status
of a pod is read and never written.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from conformance.enforcement.seats import Seats
from conformance.kube import manifest, pod_state
from conformance.kube.client import Obj
from conformance.model.change import Change, ObjectRef
from conformance.model.endpoint import SYSTEMS
from conformance.model.facts import NodeFacts
from conformance.pods import tailor
from conformance.pods.deploy import Pods
from conformance.pods.placement import Placement, tolerations
from conformance.pods.roles import MANIFESTS, ROLES
from conformance.policy import worlds
from conformance.policy.worlds import Seat

LIFE = "life"
"""The volume of the ConfigMap from which a member reads its words; the ConfigMap has the pod's
name."""
WORDS = {"begins": "yes", "ready": "yes", "lives": "yes", "lasts": "no", "ends": "no"}
TOLD = "conformance/told"
"""The annotation whose change makes a member's kubelet read the words again at once."""
SPACE = "a"
AT_ONCE = 16


@dataclass
class Members:
    """The members of a worker's stories."""

    deployer: Pods
    placement: Placement
    seats: Seats
    labels: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    """Labels of members that the story changed, in the form of world files."""
    last: bool = False
    """True if the members end slowly in the story; they then have a hook that delays their end."""
    fail: bool = False
    """True if the members fail in the story; their containers are then never started again."""
    _words: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The words that each member reads, by the member's name."""
    _nodes: dict[str, NodeFacts] = field(default_factory=dict)
    _generation: int = 0

    @property
    def namespace(self) -> str:
        return self.seats.namespaces[SPACE]

    # --- what happens -------------------------------------------------------------------------

    def come(self, **other: str) -> None:
        """Make sure that each node with seats has a member; members that exist stay.

        ``other``: words that differ from those in WORDS. Raise EnvironmentBroken if a member is not
        ready in time.
        """
        there = {seat.node for seat in self.seats.seats if not seat.member}
        self._nodes = {
            node.name: node
            for os in SYSTEMS
            for node in self.placement.covered(os)
            if node.name in there
        }
        self._each(lambda node: self._write(node, **other))
        self._each(self._made)
        self._all("ready", pod_state.is_ready)

    def act(self, event: str) -> None:
        """Make an event happen, and return once it has taken effect. Raise EnvironmentBroken if it
        does not take effect in time, or the error of a change."""
        acts: dict[str, Callable[[], None]] = {
            "again": self._again,
            "replaced": self._replaced,
            "gone": self._remove,
            "evicted": self._evicted,
            "come": self.come,
            "begin": self._begin,
            "begun": self._begun,
            "unready": self._unready,
            "ready": self._begun,
            "restarted": self._restarted,
            "ending": self._ending,
            "failed": lambda: self._over("Failed", lives="no"),
            "succeeded": self._succeeded,
        }
        acts[event]()

    def remove(self) -> None:
        """Delete the members, and wait until they are gone."""
        if self._nodes:
            self._remove()

    def _again(self) -> None:
        self._remove()
        self.come()

    def _replaced(self) -> None:
        """Create members with other names, and then delete the old members, as a Deployment
        replaces its pods."""
        old = [self._reference(node) for node in self._nodes]
        self._generation += 1
        self.seats.members.clear()
        self.come()
        for target in old:
            self.deployer.changes.delete(target, "another pod is in its place", grace=1)
        for target in old:
            self._gone(target)

    def _remove(self) -> None:
        targets = [self._reference(node) for node in self._nodes]
        for target in targets:
            self.deployer.changes.delete(target, "a story's event", grace=1)
        self._leave(targets)

    def _evicted(self) -> None:
        targets = [self._reference(node) for node in self._nodes]
        for target in targets:
            self.deployer.changes.make(
                Change(
                    verb="evict",
                    target=target,
                    why="a story's event",
                    body={"deleteOptions": {"gracePeriodSeconds": 1}},
                )
            )
        self._leave(targets)

    def _leave(self, targets: Sequence[ObjectRef]) -> None:
        for target in targets:
            self._gone(target)
        self.seats.members.clear()
        self.seats.member_pods.clear()

    def _begin(self) -> None:
        """Create members whose init container waits. Each of them already has an address."""
        self._each(lambda node: self._write(node, begins="no"))
        self._each(self._made)
        self._all("begun", _begins)
        self.seats.members.clear()

    def _begun(self) -> None:
        """Let members start, or become ready again."""
        self._each(self._write)
        self._all("ready", pod_state.is_ready)

    def _unready(self) -> None:
        self._each(lambda node: self._write(node, ready="no"))
        self._all("unready", _is_unready)

    def _restarted(self) -> None:
        """Have the kubelet restart every member's container.

        Meanwhile the container is unready: it becomes ready only once its probes read the word that
        ends the restarts.
        """
        self._each(self._restart)

    def _restart(self, node: NodeFacts) -> None:
        before = self.seats.member_pods[node.name].restarts
        self._write(node, lives="no", ready="no")
        self._taken(node, "restarted", lambda pod: pod_state.restarts(pod) > before)
        self._write(node)
        self._taken(node, "ready", pod_state.is_ready)

    def _ending(self) -> None:
        """Make the members unready, and then delete them; a long preStop hook delays their end."""
        self._each(lambda node: self._write(node, ready="no", lasts="yes"))
        self._all("unready", _is_unready)
        for name, pod in self.seats.member_pods.items():
            self.deployer.changes.delete(self._reference(name), "a story's event")
            self.seats.member_pods[name] = replace(pod, is_ending=True)

    def _succeeded(self) -> None:
        """Create members whose containers wait for a word and then end, as the pods of a Job do."""
        self.come(begins="no", ends="yes")
        self._over("Succeeded", ends="yes")

    def _over(self, phase: str, **words: str) -> None:
        """Write the words at which every member's container ends; the kubelet does not start it
        again."""
        self._each(lambda node: self._write(node, **words))
        self._each(
            lambda node: self._taken(
                node, phase.lower(), lambda pod: (pod.get("status") or {}).get("phase") == phase
            )
        )
        self._leave(())

    # --- how ----------------------------------------------------------------------------------

    def _name(self, node: str) -> str:
        generation = f"-{self._generation}" if self._generation else ""
        return f"member-{self._nodes[node].os}{generation}-{self.placement.number(node)}"

    def _reference(self, node: str) -> ObjectRef:
        return ObjectRef(
            api_version="v1", kind="Pod", name=self._name(node), namespace=self.namespace
        )

    def _write(self, node: NodeFacts, **other: str) -> None:
        """Write the words that a node's member waits for."""
        words = WORDS | other
        name = self._name(node.name)
        if self._words.get(name) == words:
            return
        self._words[name] = words
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": words}
        why = "the words that a story's pod waits for"
        changes = self.deployer.changes
        changes.apply(made, why, namespace=self.namespace)
        # the changed annotation makes the member's kubelet read the words again
        if node.name in self.seats.members:
            changes.patch(
                self._reference(node.name), {"metadata": {"annotations": {TOLD: str(words)}}}, why
            )

    def _made(self, node: NodeFacts) -> None:
        if node.name in self.seats.members:
            return
        pods = self.deployer
        (made,) = manifest.load(MANIFESTS / "stories" / f"{node.os}.yaml")
        name = self._name(node.name)
        made["metadata"]["name"] = name
        own = self.labels.get(
            f"{worlds.MEMBER}.{node.os}", worlds.SEAT_LABELS[worlds.MEMBER, node.os]
        )
        made["metadata"]["labels"] |= {**worlds.SEAT, **(own or {}), tailor.SEAT: name}
        tailor.fit(made["spec"], node, pods.settings.images, pods.settings.pod_limits)
        made["spec"]["tolerations"] = tolerations(pods.settings.tolerations)
        made["spec"]["affinity"] = tailor.on_nodes(node.name)
        for volume in made["spec"]["volumes"]:
            if volume["name"] == LIFE:
                volume["configMap"]["name"] = name
        words = self._words[name]
        if words["ends"] == "yes":
            made["spec"]["containers"][0]["command"] = made["spec"].pop("initContainers")[0][
                "command"
            ]
        elif words["begins"] == "yes":
            del made["spec"]["initContainers"]
        if self.fail or words["ends"] == "yes":
            made["spec"]["restartPolicy"] = "Never"
        if not self.last:
            del made["spec"]["containers"][0]["lifecycle"]
        pods.apply(made, "a pod that a story's events happen to", self.namespace)

    def _gone(self, target: ObjectRef) -> None:
        changes = self.deployer.changes
        if not changes.dry_run:
            changes.waits.gone(target, within=self.deployer.settings.timings.windows.delete)

    def _each(self, act: Callable[[NodeFacts], None]) -> None:
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            for done in [pool.submit(act, node) for node in self._nodes.values()]:
                done.result()

    def _all(self, what: str, enough: Callable[[Obj], bool]) -> None:
        """Wait until ``enough`` holds for every member's pod, and record the pods as members."""
        self._each(lambda node: self._taken(node, what, enough))
        seats = self.seats.members
        self.seats.members = {name: seats[name] for name in self._nodes if name in seats}

    def _taken(self, node: NodeFacts, what: str, enough: Callable[[Obj], bool]) -> None:
        pods = self.deployer
        if pods.changes.dry_run:
            return
        found = pods.pod_of(self._name(node.name), node, self.namespace, enough=enough, what=what)
        pod = pods.workload(found, ROLES[f"{node.os}-seat"])
        self.seats.member_pods[node.name] = pod
        self.seats.members[node.name] = Seat(
            SPACE,
            node.os,
            node.name,
            pod.pod,
            pod.address,
            member=True,
            ready=pod_state.is_ready(found),
        )


def _begins(pod: Obj) -> bool:
    """Return whether a pod has an address, and its init container runs."""
    status = pod.get("status") or {}
    states = [one["state"] for one in status.get("initContainerStatuses") or []]
    return bool(status.get("podIP")) and any("running" in state for state in states)


def _is_unready(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running" and not pod_state.is_ready(pod)
