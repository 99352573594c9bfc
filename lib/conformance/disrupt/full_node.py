# SPDX-License-Identifier: Apache-2.0
"""Windows nodes that a test fills with pause pods: noted and cordoned first, empty again at the end.

Nothing is evicted.  Free addresses, the kubelet's max-pods and memory bound how many pods come.  If
a pod of another owner waits for the node, all pause pods go at once, and nothing is decided.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from conformance.errors import EnvironmentBroken, MissingCapability, Nonconformance
from conformance.expect.check import Check, Judged, Ruling, check
from conformance.expect.context import Context
from conformance.facts.ipam import IpamFacts
from conformance.facts.room import Room, room_on_windows
from conformance.journal.journalling import Journalling
from conformance.kube.client import Obj
from conformance.kube.node_conditions import CORDON, closed, may_take
from conformance.model.change import ObjectRef
from conformance.model.facts import NodeFacts
from conformance.pods.deploy import Pods
from conformance.pods.pause_pods import MEMORY, PausePods
from conformance.pods.third_party import is_own, label, networked
from conformance.verdicts.meaning import of_chance, of_error

BURST = 30
LEAST = 10
"""Pods that come at once, and the fewest that show anything."""
BLOCK = "IPAM-4"
FULL = "IPAM-7"
DOCUMENTED = 60
"""Addresses for pods in a block of /26."""
EXHAUSTED = re.compile(r"block limit|free affine blocks|Assigned 0 out of")
"""IPAM's words about a node without another address (libcalico-go/lib/ipam)."""


@dataclass(frozen=True, kw_only=True)
class _Block:
    """A node's block: the addresses that it leaves to pods, and those that nobody has."""

    cidr: str
    capacity: int
    free: int

    def has(self, address: str) -> bool:
        return ipaddress.ip_address(address) in ipaddress.ip_network(self.cidr)


@dataclass(eq=False)
class FullNode:
    """The nodes that a test fills; :meth:`remove` removes what it brought there."""

    journal: Journalling
    pods: Pods
    ipam: IpamFacts
    context: Context
    _pause: PausePods = field(init=False)

    def __post_init__(self) -> None:
        self._pause = PausePods(self.pods)

    def burst_may_be_refused(self, nodes: Sequence[str], *, because: str) -> None:
        """Record whether the network plugin refuses one of the pods that come to a node at once.

        Raise MissingCapability where fewer than ten fit, EnvironmentBroken for a pod that does not
        start for another reason.
        """
        there = self._nodes(nodes)
        counts = {node.name: _fitting(node, room) for node, room in there}

        def judge(node: NodeFacts) -> Judged:
            count = counts[node.name]
            self._cordon(node)
            arrival = self._pause.come(node, count, look_after=partial(self._watch, node))
            self.remove()
            text = f"{count} pods came to node {node.name} at once, and all started"
            if arrival.refused:
                text = f"{arrival.refused} ({len(arrival.late)} of {count} pods at once)"
            self.context.sink.record(f"seconds for {count} pods at once", arrival.seconds)
            return Ruling(f"{text}: {because}", of_chance(bool(arrival.refused)))

        check(self.context, "behaviour", [(None, node, node) for node, _ in there], judge)

    def takes_no_more(self, nodes: Sequence[str], *, because: str, do: str) -> None:
        """Expect each address of a node's block to be given to a pod, the next pod to be refused by
        IPAM, and to start once another goes.

        Raise MissingCapability where the kubelet or memory would end it earlier,
        EnvironmentBroken where somebody else's pods take part, or a pod is refused by the kubelet.
        """
        there = self._nodes(nodes)
        blocks = [(node, self._block(node, room)) for node, room in there]
        errors = list[Exception]()
        for node, block in blocks:
            self._cordon(node)
            found = self._fill(node, block, f"  because  {because}\n  do       {do}")
            self.remove()
            for claim, judged in zip((BLOCK, FULL), found, strict=True):
                context = self.context.of_part("", claim)
                Check(context, "behaviour", errors).decide(None, node, judged)
        Check(self.context, "behaviour", errors).end()

    def remove(self) -> None:
        self._pause.remove()

    def _fill(self, node: NodeFacts, block: _Block, more: str) -> tuple[Judged, Judged]:
        """Return what the node's block shows about the claims BLOCK and FULL."""
        watch = partial(self._watch, node)
        head = f"node {node.name}, block {block.cidr}"
        not_full = EnvironmentBroken(f"{FULL}  {head} was not filled: see {BLOCK}")
        arrival = self._pause.come(node, block.free, look_after=watch)
        if arrival.refused:
            if self._own_block(node).free <= 0:
                raise EnvironmentBroken(f"{head}: pods of other owners came while it was filled")
            wrong = (
                f"{BLOCK}  {head}  expected {block.capacity} addresses for pods, observed "
                f"{len(arrival.late)} of its last {block.free} refused: {arrival.refused}\n{more}"
            )
            return Nonconformance(wrong), not_full
        (last,) = self._pause.start(node, 1)
        late, _ = self._pause.wait(
            node,
            [last],
            enough=lambda late: not late or self._pause.refusal(late[0]),
            look_after=watch,
        )
        if not late:
            address = self._pause.address(last)
            wrong = (
                f"expected the pod after {block.capacity} to be refused, observed it with {address}"
            )
            elsewhere = Nonconformance(f"{FULL}  {head}  {wrong}, of elsewhere\n{more}")
            beyond = Nonconformance(f"{BLOCK}  {head}  {wrong}\n{more}")
            return beyond, not_full if block.has(address) else elsewhere
        words = self._pause.refusal(late[0])
        if not EXHAUSTED.search(words):
            why = words or self.pods.changes.waits.said_of(late[0])
            raise EnvironmentBroken(f"{head}: the next pod is not refused by IPAM: {why}")
        return self._of_size(node, block, words), self._freed(
            node, block, arrival.names, last, more
        )

    def _of_size(self, node: NodeFacts, block: _Block, words: str) -> Judged:
        text = f"{block.capacity} addresses of block {block.cidr} were for pods; then: {words}"
        if block.capacity == DOCUMENTED:
            return text
        other = MissingCapability(f"the claim is about blocks of /26: {text}", f"see {FULL}")
        return Ruling(str(other), of_error(other))

    def _freed(
        self, node: NodeFacts, block: _Block, names: Sequence[str], last: str, more: str
    ) -> Judged:
        """Return what becomes of the pod that waits once another one goes."""
        self._pause.remove(names[:1])
        late, seconds = self._pause.wait(node, [last], look_after=partial(self._watch, node))
        head = f"{FULL}  node {node.name}, block {block.cidr}  expected the pod that waits to start"
        if late:
            words = self._pause.refusal(late[0])
            return Nonconformance(
                f"{head} once another one went, observed it waits after {seconds:.0f} s: {words}\n{more}"
            )
        address = self._pause.address(last)
        if not block.has(address):
            return Nonconformance(f"{head} with an address of it, observed {address}\n{more}")
        return f"the next pod of node {node.name} waited until another one went"

    def _nodes(self, names: Sequence[str]) -> list[tuple[NodeFacts, Room]]:
        """Return the nodes with their room.  Raise MissingCapability where a pod of another owner
        waits for one of them, or its room is not known."""
        found = []
        room = room_on_windows(self.pods.kube, self.pods.facts)
        for node in [node for node in self.pods.facts.nodes if node.name in names]:
            if waiting := self._waiting(node):
                raise MissingCapability(
                    f"pod {waiting[0]} waits for node {node.name}", "run it when no pod waits"
                )
            if node.name not in room:
                raise MissingCapability(
                    f"how many pods node {node.name} still takes is not known", "list all pods"
                )
            found.append((node, room[node.name]))
        return found

    def _own_block(self, node: NodeFacts) -> _Block:
        cidr, capacity, free = self.ipam.own_block(node.name)
        return _Block(cidr=cidr, capacity=capacity, free=free)

    def _block(self, node: NodeFacts, room: Room) -> _Block:
        """Return the block of a node that can be filled to its end.  Raise MissingCapability."""
        block = self._own_block(node)
        memory = room.pods if room.memory is None else room.memory // MEMORY
        takes = min(room.pods, memory)
        if not 0 < block.free < takes:
            raise MissingCapability(
                f"node {node.name} takes {takes} more pods by max-pods and memory, and its block "
                f"{block.cidr} has {block.free} addresses left",
                "name a node by --disruptive-node whose max-pods exceeds its block (XIPAM-2 is "
                "ADVISED there)",
            )
        return block

    def _cordon(self, node: NodeFacts) -> None:
        target = ObjectRef(api_version="v1", kind="Node", name=node.name)
        why = f"keeps other pods off node {node.name} while pause pods fill it"
        self.journal.patch(target, {"spec": {"unschedulable": True}}, why)

    def _watch(self, node: NodeFacts) -> None:
        """Remove all pause pods and raise EnvironmentBroken where somebody else's pod waits."""
        if waiting := self._waiting(node):
            self.remove()
            raise EnvironmentBroken(
                f"pod {waiting[0]} of another owner waits for node {node.name}: all pause pods were "
                "removed at once"
            )

    def _waiting(self, node: NodeFacts) -> list[str]:
        """Return the pods of other owners that wait for a node, or may wait for it."""
        kube = self.pods.kube
        there = kube.get("v1", "Node", node.name)
        pending = kube.objects("v1", "Pod", fields="status.phase=Pending")
        return [label(pod) for pod in pending if not is_own(pod) and _waits_for(pod, there)]


def _fitting(node: NodeFacts, room: Room) -> int:
    """Return how many pods come at once.  Raise MissingCapability where too few fit."""
    memory = BURST if room.memory is None else room.memory // MEMORY
    count = min(BURST, room.addresses, memory)
    if count < LEAST:
        raise MissingCapability(
            f"node {node.name} takes {count} more pods, and fewer than {LEAST} show nothing",
            "name another node by --disruptive-node",
        )
    return count


def _waits_for(pod: Obj, node: Obj) -> bool:
    """Return whether a pending pod is on the node, or would fit it without the suite's cordon."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node["metadata"]["name"]) and networked(pod)
    taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != CORDON["key"]]
    opened = {"spec": {"taints": taints}}
    return may_take(node, spec) and not closed(opened, spec.get("tolerations") or ())
