# SPDX-License-Identifier: Apache-2.0
"""A node is filled only where that is possible and nobody waits; each claim is decided alone."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt import full_node
from conformance.disrupt.full_node import FullNode
from conformance.errors import EnvironmentBroken, MissingCapability, Nonconformance
from conformance.expect.context import Context, Sink
from conformance.facts.ipam import OwnBlock
from tests.unit.conformance.builders import Obj, a_node, a_pod, a_windows_node, some_facts

CIDR = "10.0.0.0/26"
WORDS = "cannot allocate new block due to per host block limit"
GOOD, BAD, UNKNOWN = "CONFIRMED", "VIOLATED", "INCONCLUSIVE"
SAYS = {"because": "a node has one block", "do": "look"}


class Pause:
    """Pause pods whose fate is scripted."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refused = ""
        self.late = [True, False]
        """Whether the pod beyond the block waits, at each wait."""
        self.words = WORDS
        self.given = "10.0.0.9"

    def come(
        self, node: Any, count: int, *, look_after: Callable[[], object] = lambda: None
    ) -> tuple[list[str], str]:
        self.log.append(f"{count} come to {node.name}")
        look_after()
        names = [f"pause-{number}" for number in range(count)]
        return names, self.refused

    def start(self, node: Any, count: int) -> list[str]:
        return ["last"]

    def wait(self, *_: Any, **__: Any) -> tuple[Sequence[Obj], float]:
        return ([a_pod("last")] if self.late.pop(0) else []), 7.0

    def refusal(self, _: Obj) -> str:
        return self.words

    def address(self, _: str) -> str:
        return self.given

    def remove(self, names: Sequence[str] | None = None) -> None:
        self.log.append(f"removed {'all' if names is None else list(names)}")


class Node:
    """A cluster with one Windows node, and pods of others."""

    def __init__(self, *, max_pods: int = 110, memory: str = "32Gi", free: int = 50) -> None:
        self.allocatable = {"pods": str(max_pods), "memory": memory}
        self.free = free
        self.pending: list[Obj] = []
        self.patched: list[Any] = []
        self.discovery = SimpleNamespace(serves=lambda api, kind: False)
        self.sink = Sink()
        self.pause = Pause()
        self.claims: tuple[str, ...] = ("IPAM-4", "IPAM-7", "IPAM-13")
        self.on_lab = True
        self.left = {"win": free, "linux-1": 64}
        """Free addresses of each node's blocks; under "" those of no node's."""
        self.owners = {"10.0.0.70": "linux-1", "10.0.0.9": "win"}

    def get(self, *_: str) -> Obj:
        spec = {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
        labels = {"kubernetes.io/os": "windows"}
        return {
            "metadata": {"name": "win", "labels": labels},
            "spec": spec,
            "status": {"allocatable": self.allocatable},
        }

    def objects(self, api: str, kind: str, **fields: str) -> list[Obj]:
        return [self.get()] if kind == "Node" else self.pending

    def patch(self, target: Any, patch: Any, why: str) -> None:
        self.patched.append(patch)

    def own_block(self, _: str) -> OwnBlock:
        return OwnBlock(CIDR, 60, self.free)

    @property
    def windows(self) -> list[Any]:
        return [a_windows_node("win")]

    def vacant(self) -> Counter[str]:
        return Counter(self.left)

    def owner(self, address: str) -> str:
        return self.owners.get(address, "")

    def filled(self) -> FullNode:
        facts = some_facts(a_windows_node("win"), a_node())
        waits = SimpleNamespace(said_of=lambda pod: "Too many pods")
        pods: Any = SimpleNamespace(kube=self, facts=facts, changes=SimpleNamespace(waits=waits))
        itself: Any = self
        context = Context(claims=self.claims, sink=self.sink)
        made = FullNode(itself, pods, itself, context, self.on_lab)
        made._pause = self.pause  # type: ignore[assignment]
        return made

    def decided(self) -> dict[str, str]:
        return {one.claim: str(one.verdict) for one in self.sink.decisions}


def test_a_full_block_confirms_all_and_the_node_is_cordoned_and_empty_again() -> None:
    node = Node()
    node.filled().takes_no_more(["win"], **SAYS)
    assert set(node.decided().values()) == {"CONFIRMED"}
    assert set(node.decided()) == {"IPAM-4", "IPAM-7", "IPAM-13"}
    assert node.patched == [{"spec": {"unschedulable": True}}]
    assert node.pause.log == ["50 come to win", "removed ['pause-0']", "removed all"]


@pytest.mark.parametrize(
    ("script", "verdicts", "says"),
    [
        ({"refused": WORDS}, (BAD, UNKNOWN, UNKNOWN), "observed a refusal: cannot"),
        ({"late": [False]}, (BAD, UNKNOWN, UNKNOWN), "observed that it got 10.0.0.9"),
        ({"late": [False], "given": "10.0.0.70"}, (BAD, BAD, BAD), "got 10.0.0.70"),
        ({"late": [True, True]}, (GOOD, BAD, GOOD), "observed it still waiting after 7 s: cannot"),
        ({"given": "10.0.0.70"}, (GOOD, BAD, GOOD), "an address of the block, observed 10.0.0.70"),
    ],
)
def test_what_is_otherwise_is_the_claims_own(
    script: dict[str, Any], verdicts: tuple[str, str, str], says: str
) -> None:
    node = Node()
    vars(node.pause).update(script)
    with pytest.raises(Nonconformance, match=says):
        node.filled().takes_no_more(["win"], **SAYS)
    assert tuple(node.decided().values()) == verdicts


@pytest.mark.parametrize("words", ["", "timeout acquiring mutex"])
def test_a_refusal_that_is_not_ipams_decides_nothing(words: str) -> None:
    node = Node()
    node.pause.words = words
    with pytest.raises(EnvironmentBroken, match=words or "Too many pods"):
        node.filled().takes_no_more(["win"], **SAYS)
    assert node.decided() == {}


def test_addresses_that_others_took_meanwhile_violate_nothing() -> None:
    node = Node()
    node.pause.refused = WORDS
    come = node.pause.come

    def others_come(*given: Any, **more: Any) -> tuple[list[str], str]:
        node.free = 0
        return come(*given, **more)

    node.pause.come = others_come  # type: ignore[method-assign]
    with pytest.raises(EnvironmentBroken, match="pods of other owners came"):
        node.filled().takes_no_more(["win"], **SAYS)


@pytest.mark.parametrize(
    "node", [Node(max_pods=50), Node(memory="1Gi"), Node(free=0)], ids=["pods", "memory", "full"]
)
def test_a_node_that_cannot_be_filled_is_left_alone(node: Node) -> None:
    with pytest.raises(MissingCapability, match=r"node win takes \d+ more pods"):
        node.filled().takes_no_more(["win"], **SAYS)
    assert (node.patched, node.pause.log) == ([], [])


SELECTED = {"nodeSelector": {"kubernetes.io/os": "windows"}}


@pytest.mark.parametrize(
    ("pod", "waits"),
    [
        (a_pod("theirs", "", spec=SELECTED), True),
        (a_pod("theirs", "win"), True),
        (a_pod("theirs", "linux-1"), False),
        (a_pod("theirs", "", spec={"nodeSelector": {"kubernetes.io/os": "linux"}}), False),
        (a_pod("ours", "", namespace="calico-demo-r1-main", spec=SELECTED), False),
    ],
)
def test_a_pod_of_another_owner_that_waits_ends_it_at_once(pod: Obj, waits: bool) -> None:
    pod["spec"] = {key: value for key, value in pod["spec"].items() if value}
    node = Node()
    filled = node.filled()
    assert filled._waiting(filled.pods.facts.nodes[0]) == []
    node.pending = [pod]
    if not waits:
        filled.takes_no_more(["win"], **SAYS)
        return
    with pytest.raises(
        MissingCapability, match="win cannot be filled now: pod default/theirs waits"
    ):
        filled.takes_no_more(["win"], **SAYS)
    assert node.patched == []
    with pytest.raises(EnvironmentBroken, match="default/theirs of another owner waits"):
        filled._watch(filled.pods.facts.nodes[0])
    assert node.pause.log == ["removed all"]


def test_a_burst_is_as_large_as_fits_and_a_refusal_is_the_known_issue() -> None:
    node = Node(max_pods=22)
    node.filled().burst_may_be_refused(["win"], because="it waits for its lock")
    node.pause.refused = "timeout acquiring mutex"
    node.filled().burst_may_be_refused(["win"], because="it waits for its lock")
    assert [str(one.verdict) for one in node.sink.decisions] == ["NOT_OBSERVED", "CONFIRMED"]
    assert node.sink.decisions[1].reason.startswith("timeout acquiring mutex: it waits")
    assert node.pause.log[0] == f"{22 - len(node.pending)} come to win"


def test_a_node_of_which_nothing_is_known_is_left_alone() -> None:
    node = Node()
    with pytest.raises(MissingCapability, match="node gone is not ready and schedulable"):
        node.filled().takes_no_more(["gone"], **SAYS)


def test_fewer_than_ten_pods_show_nothing() -> None:
    node = Node(max_pods=full_node.LEAST - 1)
    with pytest.raises(MissingCapability, match="takes 9 more pods"):
        node.filled().burst_may_be_refused(["win"], because="")


def test_another_size_of_block_says_nothing_about_sixty_addresses() -> None:
    node = Node(free=10)
    node.own_block = lambda _: OwnBlock("10.0.0.0/28", 12, 10)  # type: ignore[method-assign]
    node.filled().takes_no_more(["win"], **SAYS)
    assert node.decided() == {"IPAM-4": "NOT_RUN", "IPAM-7": GOOD, "IPAM-13": GOOD}


@pytest.mark.parametrize(
    ("on_lab", "left", "says"),
    [
        (False, {}, "a full pool leaves pods of other owners without addresses"),
        (True, {"": 64}, "the pools have 64 addresses that belong to no node"),
        (True, {"linux-1": 0}, "0 addresses of nodes other than win are free"),
    ],
)
def test_only_a_lab_with_a_full_pool_shows_that_a_windows_node_borrows_nothing(
    on_lab: bool, left: dict[str, int], says: str
) -> None:
    node = Node()
    node.on_lab = on_lab
    node.left.update(left)
    node.filled().takes_no_more(["win"], **SAYS)
    assert node.decided() == {"IPAM-4": GOOD, "IPAM-7": GOOD, "IPAM-13": "NOT_RUN"}
    assert says in node.sink.decisions[2].reason
    node.left = {"win": 50, "linux-1": 64} | left
    node.left["win"] = 0 if "linux-1" in left else 50
    with pytest.raises(MissingCapability, match="full-nodes"):
        node.filled().spares_windows_blocks(**SAYS)


@pytest.mark.parametrize(
    ("script", "verdict", "says"),
    [
        ({}, GOOD, "the next pod waited, though 50 addresses of other nodes' blocks were free"),
        (
            {"late": [False]},
            BAD,
            "observed that it got 10.0.0.9 from the block of Windows node win",
        ),
        (
            {"late": [False], "given": "10.0.0.70"},
            UNKNOWN,
            "got 10.0.0.70, which belongs to linux-1, so",
        ),
        (
            {"late": [False], "given": "1.2.3.4"},
            UNKNOWN,
            "got 1.2.3.4, which belongs to no node, so",
        ),
        ({"refused": WORDS}, UNKNOWN, "pods did not get all of these addresses: cannot allocate"),
        ({"words": "timeout acquiring mutex"}, UNKNOWN, "IPAM is not the reason: timeout"),
    ],
)
def test_a_full_linux_node_gets_no_address_of_a_windows_node(
    script: dict[str, Any], verdict: str, says: str
) -> None:
    node = Node()
    node.claims = ("IPAM-2", "IPAM-9")
    vars(node.pause).update(script)
    wrong = {GOOD: contextlib.nullcontext()}.get(
        verdict, pytest.raises((Nonconformance, EnvironmentBroken), match=says)
    )
    with wrong:
        node.filled().spares_windows_blocks(**SAYS)
    assert node.decided() == {"": verdict}  # of each of the test's claims
    assert says in node.sink.decisions[0].reason
    assert node.pause.log[0] == "64 come to linux-1"
