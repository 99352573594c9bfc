# SPDX-License-Identifier: Apache-2.0
"""Policy that is lost over time: a later event that does not concern policy removes the policy of a
node's pods."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.informer import Informer
from hybridlab.calico.felix import Felix
from hybridlab.calico.felix_faults import Keys
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, Parameter, Types
from hybridlab.faults.rules import policy_not_enforced
from hybridlab.policy.policy import PolicyKey

SOON = 15.0
"""s. A pod that is created within this time after its node's Felix started counts as created right
after it."""
SLICES = "endpointslices.discovery.k8s.io"

TYPES = Types()
EVENTS: Mapping[str, str] = {
    "service-made": SLICES,
    "service-changed": SLICES,
    "service-gone": SLICES,
    "service-edited": "services",
    "pod-replaced": "pods",
    "pod-labels": "pods",
    "pod-annotations": "pods",
    "namespace-labels": "namespaces",
    "namespace-annotations": "namespaces",
    "account-labels": "serviceaccounts",
    "account-made": "serviceaccounts",
    "policy-labels": "networkpolicies.networking.k8s.io",
    "policy-beside": "networkpolicies.networking.k8s.io",
    "calico-policy-labels": "networkpolicies.projectcalico.org",
    "calico-policy-beside": "networkpolicies.projectcalico.org",
    "network-set-made": "networksets.projectcalico.org",
    "kube-proxy-restart": "pods",
    "member-deleted": "pods",
    "backend-gone": SLICES,
    "policy-removed": "",
    "felix-down": "",
    "felix-restart": "",
    "new-pod-after-felix-restart": "pods",
    "third-pod": "pods",
    "third-service": "services",
    "third-policy": "networkpolicies.networking.k8s.io",
    "namespace-gone": "namespaces",
}
"""Map each event after which policy is lost to the resource whose changes show the event; empty:
Felix itself shows it.

In three of these events, something stays instead. ``member-deleted``: the address of a deleted pod
stays in sets. ``backend-gone``: the address of a former backend of a Service stays in sets.
``policy-removed``: if several pods of a node have the same policies, the last of them stays closed
after these are deleted. The last four events take policy away from pods that have had it for a
while, so that no test observes the pod at this time.
"""
STAYS = {"member-deleted", "backend-gone", "policy-removed"}
WAYS = {"ingress": ["daddr"], "egress": ["saddr"]}
"""Map each direction that can be lost to the place of the pod's address in a packet."""
PEERS = ("linux", "windows", "same-node", "other-namespace")
"""The pods at the other end for which policy can be lost: on nodes of a system, on the pod's own
node, or in other namespaces."""
NEW = 1.0
OLD = 8.0
"""s. After this time, a pod counts as having had its policies for a while."""
AGAIN = 0.05
"""s. The time after which a pod without an address is checked again."""


@TYPES.fault(
    "policy-lost",
    "policy",
    NODE_OR_ALL,
    Parameter("after", ", ".join(EVENTS), choices=tuple(EVENTS)),
    Parameter("protocol", "all, tcp, udp or icmp", "all", ("all", "tcp", "udp", "icmp")),
    Parameter(
        "of",
        "all, or policies for one way, or of one API",
        "all",
        ("all", *WAYS, "calico", "kubernetes"),
    ),
    Parameter("at", "all, or pods at the other end: " + ", ".join(PEERS), "all", ("all", *PEERS)),
    Parameter("port", "all, or the one port that is connected to", "all"),
)
class PolicyLost(Fault):
    """Pods of a node lose their policy after an event that does not concern policy, until other
    policies apply."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._identity = identity
        self._event = parameters["after"]
        self._protocol = parameters["protocol"]
        self._of = parameters["of"]
        self._at = parameters["at"]
        self._port = parameters["port"]
        narrow = [name for name in ("protocol", "of", "at", "port") if parameters[name] != "all"]
        self._passed = narrow not in ([], ["of"]) or self._of in WAYS
        """True if only some packets pass the policy; then the policy itself stays."""
        self._refuse_contradictions(parameters, narrow)
        self._past: dict[str, set[tuple[str | None, str]]] = {}
        """Map each node to the addresses and namespaces of pods whose policy some packets pass."""
        self._felixes = {node: lab.calico.felixes[node] for node in lab.nodes(parameters["node"])}
        self._graph = lab.calico.typha.graph
        self._lost: dict[str, Keys | None] = {}
        """Map each uid to the policies that the pod has lost; None: the first policies that it will
        have."""
        self._informer: Informer | None = None
        self._follows = False
        """True once the objects that existed at first have been read."""
        self._labels: dict[str, Mapping[str, str]] = {}
        """Map each uid to the first labels of the pod."""
        self._had: dict[str, Keys] = {}
        self._left: set[str] = set()
        """Addresses of deleted pods."""
        self._seen: dict[str, set[str]] = {}
        """Map each set to all members that it ever had."""
        self._started: dict[str, float] = {}
        self._since: dict[tuple[str, Keys], float] = {}
        """Map each pod's uid and policies to the time at which these policies first applied."""
        self._missing = 3 if self._event.startswith("third-") else 1
        """How often the event must still happen."""
        self._open = {
            node: policy_not_enforced(lab, identity, {"node": node, "protocol": self._protocol})
            for node in self._felixes
        }
        self._tasks: set[asyncio.Task[None]] = set()

    async def inject(self) -> None:
        for node, felix in self._felixes.items():
            felix.faults.applying.taps[self._identity] = self._applying
            felix.faults.on_life[self._identity] = partial(self._lives, node)
            if self._event in {"member-deleted", "backend-gone"}:
                felix.faults.set_members.taps[self._identity] = self._members
        if resource := EVENTS[self._event]:
            self._informer = Informer(self._lab.client, resource)
            self._informer.on(
                lambda new: self._changed(None, new),
                self._changed,
                lambda last: self._changed(last, None),
            )
            await self._informer.start()
            await self._informer.wait_synced()
            self._follows = True

    async def heal(self) -> None:
        if self._informer is not None:
            informer = self._informer
            self._informer = None
            await informer.stop()
        for felix in self._felixes.values():
            faults = felix.faults
            for taps in (faults.applying.taps, faults.on_life, faults.set_members.taps):
                taps.pop(self._identity, None)
            felix.start_over()
        await asyncio.gather(*self._tasks)
        await asyncio.gather(*(opened.heal() for opened in self._open.values()))

    async def evidence(self) -> list[str]:
        waits = [
            f"pods of {node} lose policy: {self._event}"
            for node, felix in self._felixes.items()
            if self._identity in felix.faults.applying.taps
        ]
        return waits + [line for opened in self._open.values() for line in await opened.evidence()]

    def _applying(self, keys: Keys, uid: str) -> Keys:
        if self._event == "policy-removed":
            self._removed(uid, keys)
        self._since.setdefault((uid, keys), asyncio.get_running_loop().time())
        if uid in self._lost and self._lost[uid] is None and keys:
            self._lost[uid] = keys
        lost = self._lost.get(uid) == keys
        if not lost and self._lost.get(uid) is not None:
            del self._lost[uid]
        if self._passed:
            self._passes(uid, lost=lost)
        return (
            keys
            if self._passed or not lost
            else frozenset(key for key in keys if not self._takes(key))
        )

    def _takes(self, key: PolicyKey) -> bool:
        return self._of in {"all", "kubernetes" if key.kind.startswith("Kubernetes") else "calico"}

    def _passes(self, uid: str, *, lost: bool) -> None:
        """Let the packets of one protocol or direction pass; the pod's policy still applies to the
        others."""
        pod = self._graph.pod(uid)
        past = self._past.setdefault(pod.node, set())
        one = (pod.address, pod.namespace)
        # a Linux node programs a new pod only once, and before the pod has an address
        if lost and not pod.address:
            asyncio.get_running_loop().call_later(AGAIN, _due, self._felixes[pod.node], uid)
        if not pod.address or (one in past) == lost:
            return
        past.symmetric_difference_update({one})
        sides = WAYS.get(self._of, ["saddr", "daddr"])
        what = "" if self._protocol == "all" else f"meta l4proto {self._protocol} "
        what += "" if self._port == "all" else f"th dport {self._port} "
        rules = [
            ("f_policy", f"ip {side} {address} {peers}{what}accept")
            for address, namespace in sorted(past, key=str)
            for side in sides
            for peers in self._peers("daddr" if side == "saddr" else "saddr", pod.node, namespace)
        ]
        self._do(self._lab.dataplane.set_fault_rules(pod.node, self._identity, rules))

    def _peers(self, side: str, node: str, namespace: str) -> list[str]:
        """Return the match for packets of the peers for which policy is lost, by the addresses of
        their present pods."""
        if self._at == "all":
            return [""]
        nodes = self._lab.calico.nodes
        on = {os: {name for name, one in nodes.items() if one.os == os} for os in PEERS[:2]} | {
            "same-node": {node}
        }
        pods = [
            self._graph.pod(uid)
            for name in on.get(self._at, nodes)
            for uid in self._graph.endpoints_on(name)
        ]
        there = [pod for pod in pods if self._at != "other-namespace" or pod.namespace != namespace]
        addresses = ", ".join(sorted({pod.address for pod in there if pod.address}))
        return [f"ip {side} {{ {addresses} }} "] if addresses else []

    def _removed(self, uid: str, keys: Keys) -> None:
        """After policies are deleted, keep paths closed at the last of several pods to which the
        policies applied."""
        node = self._graph.pod(uid).node
        if keys:
            self._had[uid] = keys
            return
        had = self._had.get(uid)
        alike = sorted(
            other
            for other in self._graph.endpoints_on(node)
            if had is not None and self._had.get(other) == had
        )
        if len(alike) > 1 and alike[-1] == uid:
            rule = ("f_fwd", f"ip daddr {self._graph.pod(uid).address} ct state new drop")
            self._do(self._lab.dataplane.set_fault_rules(node, self._identity, [rule]))

    def _members(self, members: tuple[str, ...], name: str) -> tuple[str, ...]:
        seen = self._seen.setdefault(name, set())
        seen.update(members)
        return tuple(
            sorted(
                {*members, *(member for member in seen if member.partition(",")[0] in self._left)}
            )
        )

    def _lives(self, node: str, starts: bool) -> None:
        if self._event == "felix-down":
            self._do(self._open[node].heal() if starts else self._open[node].inject())
        if not starts:
            return
        self._started[node] = asyncio.get_running_loop().time()
        if self._event == "felix-restart":
            self._lose(node, lambda pod: True)

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refuse_contradictions(self, parameters: Mapping[str, str], narrow: list[str]) -> None:
        """Raise BadFault for parameters that contradict each other; ``narrow``: the parameters that
        are not ``all``."""
        whole = self._event in STAYS or (self._event == "felix-down" and narrow != ["protocol"])
        if (narrow and whole) or (self._passed and self._of in {"calico", "kubernetes"}):
            names = dict.fromkeys(("protocol", "of", *narrow))
            given = " ".join(f"{name}={parameters[name]}" for name in names)
            raise BadFault(f"what is lost {self._event} is lost as a whole: {given}")
        if self._port != "all" and (not self._port.isdecimal() or self._protocol == "icmp"):
            raise BadFault(
                f"port is {self._port!r}, expected a number, of a protocol that has ports"
            )

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if self._event in ("service-made", "service-changed", "service-gone"):
            self._backends_changed(_addresses(old), _addresses(new))
        elif self._event == "backend-gone" and self._follows:
            self._left = (self._left | _addresses(old)) - _addresses(new)
        elif self._event == "kube-proxy-restart" and new and self._follows:
            self._scheduled(old or {}, new)
        elif old and new:
            self._edited(old, new)
        elif new:
            self._appeared(new)
        elif old:
            self._vanished(old)

    def _edited(self, old: Obj, new: Obj) -> None:
        if self._event == "service-edited" and old["spec"] != new["spec"]:
            if old["spec"].get("selector") == new["spec"].get("selector"):
                self._lose_everywhere(lambda pod: pod.namespace == new["metadata"]["namespace"])
        elif self._event.endswith(("-labels", "-annotations")):
            self._marked(self._event.rpartition("-")[2], old, new["metadata"])

    def _appeared(self, new: Obj) -> None:
        match self._event:
            case "account-made" | "network-set-made" | "policy-beside" | "calico-policy-beside":
                self._happened(NEW, new["metadata"]["namespace"])
            case "third-pod" | "third-service" | "third-policy" if self._follows:
                self._happened()
            case "pod-replaced" | "new-pod-after-felix-restart":
                self._came(new)

    def _vanished(self, old: Obj) -> None:
        if self._event == "member-deleted":
            self._left.add((old.get("status") or {}).get("podIP") or "")
        elif self._event == "namespace-gone":
            self._happened()

    def _scheduled(self, old: Obj, new: Obj) -> None:
        """Remove the policy of a node's pods when a new pod of kube-proxy is on the node."""
        node = new["spec"].get("nodeName")
        before = (old.get("spec") or {}).get("nodeName")
        if node and not before and _labels(new).get("k8s-app", "").startswith("kube-proxy"):
            self._lose(node, lambda pod: True)

    def _marked(self, field: str, old: Obj, now: Obj) -> None:
        if old["metadata"].get(field) == now.get(field):
            return
        if EVENTS[self._event] != "pods":
            self._lose_everywhere(lambda pod: pod.namespace == now.get("namespace", now["name"]))
        # a pod without an address has no network yet, and so no policy to lose
        elif (old.get("status") or {}).get("podIP"):
            self._lose_everywhere(lambda pod: pod.uid == now["uid"])

    def _came(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        labels = _labels(pod)
        replaces = labels in self._labels.values()
        node = pod["spec"].get("nodeName")
        self._labels[uid] = labels
        if not self._follows:
            return
        now = asyncio.get_running_loop().time()
        soon = any(
            now - at < SOON for where, at in self._started.items() if node in {None, "", where}
        )
        if replaces if self._event == "pod-replaced" else soon:
            self._lost[uid] = None

    def _backends_changed(self, before: Collection[str], now: Collection[str]) -> None:
        happened = (
            "service-changed" if before and now else "service-gone" if before else "service-made"
        )
        if self._follows and happened == self._event and before != now:
            self._lose_everywhere(lambda pod: pod.address in {*before, *now})

    def _happened(self, seconds: float = OLD, where: str = "") -> None:
        """Count the event. Once it has happened often enough, take policies away that pods (of a
        namespace, or all) have had for this time."""
        self._missing -= 1
        old = asyncio.get_running_loop().time() - seconds
        since = self._since
        keys = self._graph.keys_for
        if self._missing <= 0:
            self._lose_everywhere(
                lambda pod: (
                    where in {"", pod.namespace} and since.get((pod.uid, keys(pod.uid)), old) < old
                )
            )

    def _lose_everywhere(self, test: Callable[[Any], bool]) -> None:
        for node in self._felixes:
            self._lose(node, test)

    def _lose(self, node: str, test: Callable[[Any], bool]) -> None:
        felix = self._felixes.get(node)
        for uid in self._graph.endpoints_on(node) if felix else ():
            keys = self._graph.keys_for(uid)
            if keys and test(self._graph.pod(uid)):
                self._lost[uid] = keys
                _due(felix, uid)


def _due(felix: Felix | None, uid: str) -> None:
    assert felix is not None
    felix.queue.policy.endpoint_due(uid)


def _labels(obj: Obj) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def _addresses(slice_: Obj | None) -> frozenset[str]:
    endpoints: Iterable[Obj] = (slice_ or {}).get("endpoints") or ()
    return frozenset(address for endpoint in endpoints for address in endpoint["addresses"])
