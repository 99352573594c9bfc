# SPDX-License-Identifier: Apache-2.0
"""Nodes that a test fills with pause pods. Windows nodes are recorded and cordoned first, and all
pause pods are removed at the end.

Nothing is evicted. Free addresses, the kubelet's max-pods and memory limit the number of pods. If a
pod of another owner waits for a Windows node, all pause pods are removed at once, and nothing is
decided. Linux nodes are filled only on labs.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from conformance.errors import EnvironmentBroken, MissingCapability, Nonconformance
from conformance.expect.check import Check, Judged, Ruling, check
from conformance.expect.context import Context
from conformance.facts.ipam import IpamFacts, OwnBlock
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
"""The least number of pods to start at once. If fewer fit on a node, the result shows nothing."""
BLOCK = "IPAM-4"
FULL = "IPAM-7"
POOL = "IPAM-13"
DOCUMENTED = 60
"""The number of addresses for pods in a block of /26."""
EXHAUSTED = re.compile(r"block limit|free affine blocks|Assigned 0 out of")
"""The message of Calico's IPAM when a node has no free address (libcalico-go/lib/ipam)."""


@dataclass(eq=False)
class FullNode:
    """The nodes that a test fills; :meth:`remove` removes the test's pods from them."""

    journal: Journalling
    pods: Pods
    ipam: IpamFacts
    context: Context
    on_lab: bool
    _pause: PausePods = field(init=False)

    def __post_init__(self) -> None:
        self._pause = PausePods(self.pods)

    def burst_may_be_refused(self, nodes: Sequence[str], *, because: str) -> None:
        """Record whether the network plugin refuses any of the pods that start on a node at once.

        Raise MissingCapability if fewer than ten pods fit, EnvironmentBroken if a pod does not
        start for another reason.
        """
        counts = [(node, _fitting(node, room)) for node, room in self._nodes(nodes)]

        def judge(case: tuple[NodeFacts, int]) -> Judged:
            node, count = case
            self._cordon(node)
            words = self._pause.come(node, count, look_after=partial(self._watch, node))[1]
            self.remove()
            started = f"{count} pods came to node {node.name} at once, and all started"
            return Ruling(f"{words or started}: {because}", of_chance(bool(words)))

        check(self.context, "behaviour", [(None, case[0], case) for case in counts], judge)

    def takes_no_more(self, nodes: Sequence[str], *, because: str, do: str) -> None:
        """Expect that each address of a node's block is given to a pod, and that IPAM refuses the
        next pod. Once another pod is removed, the refused pod must start.

        Raise MissingCapability if the kubelet's limit or memory would stop the pods earlier. Raise
        EnvironmentBroken if pods of another owner take addresses, or if the kubelet refuses a pod.
        """
        blocks = [(node, self._block(node, room)) for node, room in self._nodes(nodes)]
        errors = list[Exception]()
        for node, block in blocks:
            self._cordon(node)
            try:
                others: Judged = self._others(node)
            except MissingCapability as missing:
                others = Ruling(str(missing), of_error(missing))
            *found, pool = self._fill(node, block, f"  because  {because}\n  do       {do}")
            self.remove()
            found.append(others if isinstance(others, Ruling) else pool)
            for claim, judged in zip((BLOCK, FULL, POOL), found, strict=True):
                Check(self.context.of_part("", claim), "behaviour", errors).decide(
                    None, node, judged
                )
        Check(self.context, "behaviour", errors).end()

    def spares_windows_blocks(self, *, because: str, do: str) -> None:
        """Expect that a Linux node whose blocks are full gets no address of a Windows node's block,
        if the pool has no other free address.

        Raise MissingCapability unless the cluster is a lab with such a pool, EnvironmentBroken if a
        Linux node gets an address of another Linux node.
        """
        nodes = [
            (node, self.ipam.vacant()[node.name], self._others(node))
            for node in self.pods.facts.by_os("linux")
            if node.ready and node.schedulable
        ]

        def judge(case: tuple[NodeFacts, int, str]) -> Judged:
            node, count, others = case
            head = f"node {node.name}, whose {count} free addresses were taken"
            if refused := self._pause.come(node, count)[1]:
                raise EnvironmentBroken(
                    f"{head}: pods did not get all of these addresses: {refused}"
                )
            _, address, words = self._next(node, head)
            self.remove()
            if words:
                return f"{head}: the next pod waited, though {others}: {words}"
            owner = self.ipam.owner(address)
            if any(owner == windows.name for windows in self.ipam.windows):
                return Nonconformance(
                    f"{head}  expected the next pod to wait, observed that it got {address} from "
                    f"the block of Windows node {owner}\n  because  {because}\n  do       {do}"
                )
            return EnvironmentBroken(
                f"{head}: the next pod got {address}, which belongs to {owner or 'no node'}, so "
                "Windows nodes' blocks were not tried: see IPAM-1"
            )

        check(self.context, "behaviour", [(None, case[0], case) for case in nodes], judge)

    def remove(self) -> None:
        self._pause.remove()

    def _others(self, node: NodeFacts) -> str:
        """Describe how many addresses in the blocks of other nodes are free. Raise
        MissingCapability if none is free, if the pool has free addresses that belong to no node, or
        if the cluster is no lab."""
        if not self.on_lab:
            text = "a full pool leaves pods of other owners without addresses"
            raise MissingCapability(text, "run a lab: --lab-profile=full-nodes")
        vacant = self.ipam.vacant()
        left = sum(vacant.values()) - vacant[""] - vacant[node.name]
        if vacant[""] or not left:
            raise MissingCapability(
                f"the pools have {vacant['']} addresses that belong to no node, and {left} "
                f"addresses of nodes other than {node.name} are free",
                "run a lab whose nodes own the whole pool: --lab-profile=full-nodes",
            )
        return f"{left} addresses of other nodes' blocks were free"

    def _fill(self, node: NodeFacts, block: OwnBlock, more: str) -> tuple[Judged, Judged, Judged]:
        """Fill the node, and return what its block shows about the claims BLOCK, FULL and POOL."""
        head = f"node {node.name}, block {block.cidr}"
        broken = f"{head} was not filled: see {BLOCK}"
        not_full = EnvironmentBroken(f"{FULL}  {broken}"), EnvironmentBroken(f"{POOL}  {broken}")
        names, refused = self._pause.come(node, block.free, look_after=partial(self._watch, node))
        if refused:
            if self.ipam.own_block(node.name).free <= 0:
                raise EnvironmentBroken(f"{head}: pods of other owners came while it was filled")
            return Nonconformance(
                f"{BLOCK}  {head}  expected {block.capacity} addresses for pods, observed a "
                f"refusal: {refused}\n{more}"
            ), *not_full
        last, address, words = self._next(node, head)
        if address:
            wrong = (
                f"{head}  expected the pod after {block.capacity} pods to be refused, observed "
                f"that it got {address}"
            )
            elsewhere = f"{wrong} from the block of {self.ipam.owner(address)}"
            return Nonconformance(f"{BLOCK}  {wrong}\n{more}"), *(
                not_full
                if block.has(address)
                else [Nonconformance(f"{claim}  {elsewhere}\n{more}") for claim in (FULL, POOL)]
            )
        text = f"{block.capacity} addresses of block {block.cidr} went to pods; after that: {words}"
        other = MissingCapability(f"the claim is about blocks of /26: {text}", f"see {FULL}")
        fits = text if block.capacity == DOCUMENTED else Ruling(str(other), of_error(other))
        return (
            fits,
            self._freed(node, block, names, last, more),
            f"the next pod of node {node.name} waited: {words}",
        )

    def _next(self, node: NodeFacts, head: str) -> tuple[str, str, str]:
        """Start a pod on a full node. Return the pod's name, its address (empty if IPAM refused it)
        and IPAM's refusal (empty if it got an address). Raise EnvironmentBroken if the pod waits
        for another reason."""
        (last,) = self._pause.start(node, 1)
        late, _ = self._pause.wait(
            node,
            [last],
            enough=lambda late: not late or self._pause.refusal(late[0]),
            look_after=partial(self._watch, node),
        )
        if not late:
            return last, self._pause.address(last), ""
        words = self._pause.refusal(late[0])
        if not EXHAUSTED.search(words):
            why = words or self.pods.changes.waits.said_of(late[0])
            raise EnvironmentBroken(
                f"{head}: the next pod did not start, and IPAM is not the reason: {why}"
            )
        return last, "", words

    def _freed(
        self, node: NodeFacts, block: OwnBlock, names: Sequence[str], last: str, more: str
    ) -> Judged:
        """Return whether the waiting pod starts once another pod is removed."""
        self._pause.remove(names[:1])
        late, seconds = self._pause.wait(node, [last], look_after=partial(self._watch, node))
        head = f"{FULL}  node {node.name}, block {block.cidr}  expected the waiting pod to start"
        if late:
            return Nonconformance(
                f"{head} once another pod was removed, observed it still waiting after "
                f"{seconds:.0f} s: {self._pause.refusal(late[0])}\n{more}"
            )
        address = self._pause.address(last)
        if not block.has(address):
            return Nonconformance(
                f"{head} with an address of the block, observed {address}\n{more}"
            )
        return f"the next pod of node {node.name} waited until another pod was removed"

    def _nodes(self, names: Sequence[str]) -> list[tuple[NodeFacts, Room]]:
        """Return the nodes with their room for pods. Raise MissingCapability if the room is not
        known, or if a pod of another owner waits for one of the nodes."""
        room = room_on_windows(self.pods.kube, self.pods.facts)
        there = [node for node in self.pods.facts.nodes if node.name in names]
        wrong = [f"node {name} is not ready and schedulable" for name in names if name not in room]
        wrong += [
            f"pod {pod} waits for node {node.name}" for node in there for pod in self._waiting(node)
        ]
        if wrong:
            raise MissingCapability(
                f"{', '.join(names)} cannot be filled now: {wrong[0]}",
                "run the test when the node is ready and no pod waits for it",
            )
        return [(node, room[node.name]) for node in there]

    def _block(self, node: NodeFacts, room: Room) -> OwnBlock:
        """Return the block of a node that can be filled completely. Raise MissingCapability."""
        block = self.ipam.own_block(node.name)
        takes = _bounded(room, room.pods)
        if not 0 < block.free < takes:
            raise MissingCapability(
                f"node {node.name} takes {takes} more pods by max-pods and memory, and its block "
                f"{block.cidr} has {block.free} addresses left",
                "name a node by --disruptive-node whose max-pods exceeds its block (XIPAM-2 is "
                "ADVISED there)",
            )
        return block

    def _cordon(self, node: NodeFacts) -> None:
        self.journal.patch(
            ObjectRef(api_version="v1", kind="Node", name=node.name),
            {"spec": {"unschedulable": True}},
            f"keeps other pods off node {node.name} while pause pods fill it",
        )

    def _watch(self, node: NodeFacts) -> None:
        """Remove all pause pods and raise EnvironmentBroken if a pod of another owner waits for the
        node."""
        if waiting := self._waiting(node):
            self.remove()
            raise EnvironmentBroken(
                f"pod {waiting[0]} of another owner waits for node {node.name}: all pause pods "
                "were removed at once"
            )

    def _waiting(self, node: NodeFacts) -> list[str]:
        """Return the pods of other owners that wait for a node, or may wait for it."""
        there = self.pods.kube.get("v1", "Node", node.name)
        pending = self.pods.kube.objects("v1", "Pod", fields="status.phase=Pending")
        return [label(pod) for pod in pending if not is_own(pod) and _waits_for(pod, there)]


def _fitting(node: NodeFacts, room: Room) -> int:
    """Return how many pods to start on the node at once. Raise MissingCapability if too few fit."""
    count = _bounded(room, min(BURST, room.addresses))
    if count < LEAST:
        raise MissingCapability(
            f"node {node.name} takes {count} more pods, but the test needs room for {LEAST}",
            "name another node by --disruptive-node",
        )
    return count


def _bounded(room: Room, count: int) -> int:
    """Return how many of ``count`` pause pods memory allows."""
    return count if room.memory is None else min(count, room.memory // MEMORY)


def _waits_for(pod: Obj, node: Obj) -> bool:
    """Return whether a pending pod is bound to the node, or could run on it without the suite's
    cordon."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node["metadata"]["name"]) and networked(pod)
    return may_take(node, spec) and not closed(
        node, [*(spec.get("tolerations") or ()), {**CORDON, "operator": "Exists"}]
    )
