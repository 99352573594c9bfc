# SPDX-License-Identifier: Apache-2.0
"""Events of a story's members are writes that users make, and are read from the API."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.kube.client import Obj
from conformance.model.change import Change, ObjectRef
from conformance.stories.members import Members
from conformance.stories.model.lives import TURNS
from tests.unit.conformance.builders import a_workload
from tests.worlds.seats import NAMESPACES, SEATS

NODES = {"linux": "linux-1", "windows": "windows-1"}


@dataclass
class Kubelets:
    """A cluster whose kubelets do at once what the words of a pod's ConfigMap say."""

    pods: dict[str, Obj] = field(default_factory=dict)
    words: dict[str, dict[str, str]] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    written: list[dict[str, str]] = field(default_factory=list)
    """All words, in the order in which they were written."""
    asleep: bool = False
    restarts: bool = True
    dry_run: bool = False
    count: int = 0
    lock: Any = field(default_factory=threading.Lock)

    # --- as the door for changes ------------------------------------------------------------

    def apply(self, obj: Obj, why: str, namespace: str = "") -> None:
        assert namespace == NAMESPACES["a"]
        with self.lock:
            name = obj["metadata"]["name"]
            self.writes.append(f"{obj['kind']} {name}")
            if obj["kind"] == "ConfigMap":
                self.words[name] = dict(obj["data"])
                self.written.append(self.words[name])
                self._follow(name)
            else:
                self.count += 1
                self.pods[name] = copy.deepcopy(obj) | {"uid": f"u{self.count}", "restarts": 0}

    def patch(self, target: ObjectRef, body: Obj, why: str) -> None:
        assert target.name in self.pods  # its kubelet looks at the words at once

    def delete(self, target: ObjectRef, why: str, grace: int | None = None) -> None:
        with self.lock:
            self.writes.append(f"delete {target.name}")
            if grace == 1:
                self.pods.pop(target.name, None)

    def make(self, change: Change) -> None:
        self.writes.append(f"{change.verb} {change.target.name}")
        del self.pods[change.target.name]

    @property
    def waits(self) -> Any:
        def gone(target: ObjectRef, within: float) -> None:
            assert target.name not in self.pods

        return SimpleNamespace(gone=gone)

    def _follow(self, name: str) -> None:
        """Restart a container whose life is over."""
        if (pod := self.pods.get(name)) and self.words[name]["lives"] == "no" and self.restarts:
            pod["restarts"] += 1

    def status(self, name: str) -> Obj:
        pod = self.pods[name]
        words = self.words[name]
        never = pod["spec"].get("restartPolicy") == "Never"
        has_failed = never and pod["restarts"] > 0
        ends = "begins" in str(pod["spec"]["containers"][0]["command"])
        has_succeeded = ends and never and words["begins"] == "yes"
        waits = "initContainers" in pod["spec"] and words["begins"] == "no"
        is_over = has_failed or has_succeeded
        ready = words["ready"] == words["lives"] == "yes" and not waits and not is_over
        ended = "Failed" if has_failed else "Succeeded"
        return {
            "phase": ended if is_over else "Pending" if waits else "Running",
            "podIP": "10.0.0.9",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [
                {"name": "agent", "ready": ready, "restartCount": pod["restarts"], "state": {}}
            ],
            "initContainerStatuses": [{"state": {"running": {}}}] if waits else [],
        }  # fmt: skip

    # --- as what makes pods -----------------------------------------------------------------

    def pod_of(
        self, name: str, node: Any, home: str, *, enough: Callable[[Obj], bool], what: str
    ) -> Obj:
        found = {
            "metadata": {"name": name, "uid": self.pods[name]["uid"]},
            "status": self.status(name),
        }
        if self.asleep or not enough(found):
            raise EnvironmentBroken(f"pod {name} is not {what} in time")
        return found


@pytest.fixture
def cluster() -> Kubelets:
    return Kubelets()


@pytest.fixture
def members(cluster: Kubelets, monkeypatch: pytest.MonkeyPatch) -> Members:
    nodes = {os: [SimpleNamespace(name=name, os=os, build=None)] for os, name in NODES.items()}
    monkeypatch.setattr("conformance.pods.tailor.fit", lambda *given: None)

    def workload(found: Obj, role: Any) -> Any:
        pod = a_workload(found["metadata"]["name"])
        restarts = found["status"]["containerStatuses"][0]["restartCount"]
        return replace(pod, uid=found["metadata"]["uid"], restarts=restarts)

    deployer: Any = SimpleNamespace(
        changes=cluster, pod_of=cluster.pod_of, workload=workload,
        apply=cluster.apply,
        settings=SimpleNamespace(
            images=None, pod_limits=None, tolerations=(),
            timings=SimpleNamespace(windows=SimpleNamespace(delete=1.0)),
        ),
    )  # fmt: skip
    placement: Any = SimpleNamespace(covered=lambda os: nodes[os], number=lambda name: 1)
    seats: Any = SimpleNamespace(seats=SEATS, members={}, member_pods={}, namespaces=NAMESPACES)
    return Members(deployer, placement, seats)


def uids(members: Members) -> set[str]:
    return {pod.uid for pod in members.seats.member_pods.values()}


def test_they_come_once_on_each_node_with_seats(members: Members, cluster: Kubelets) -> None:
    members.come()
    members.come()
    assert sorted(cluster.pods) == ["member-linux-1", "member-windows-1"]
    assert {seat.ready for seat in members.seats.members.values()} == {True}
    for pod in cluster.pods.values():
        assert pod["metadata"]["labels"]["role"] == "member"
        assert "initContainers" not in pod["spec"]
        assert "lifecycle" not in pod["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("event", "writes"),
    [("again", "delete"), ("evicted", "evict"), ("gone", "delete"), ("replaced", "delete")],
)  # fmt: skip
def test_others_are_there_after_events_that_take_them(
    members: Members, cluster: Kubelets, event: str, writes: str
) -> None:
    members.come()
    before, names = uids(members), set(cluster.pods)
    members.act(event)
    assert {f"{writes} {name}" for name in names} <= set(cluster.writes)
    assert uids(members).isdisjoint(before)
    assert len(uids(members)) == (0 if event in ("gone", "evicted") else 2)
    assert (names == set(cluster.pods)) is (event == "again")
    members.remove()
    assert cluster.pods == {}


def test_replaced_pods_are_there_before_the_others_go(members: Members, cluster: Kubelets) -> None:
    members.come()
    members.act("replaced")
    made = max(place for place, write in enumerate(cluster.writes) if write.startswith("Pod"))
    gone = min(place for place, write in enumerate(cluster.writes) if write.startswith("delete"))
    assert made < gone


def test_readiness_goes_and_comes_by_a_word_alone(members: Members, cluster: Kubelets) -> None:
    members.come()
    before = uids(members)
    members.act("unready")
    assert {seat.ready for seat in members.seats.members.values()} == {False}
    members.act("ready")
    assert {seat.ready for seat in members.seats.members.values()} == {True}
    assert uids(members) == before


def test_a_restart_counts_and_leaves_the_pod(members: Members) -> None:
    members.come()
    before = uids(members)
    members.act("restarted")
    assert {pod.restarts for pod in members.seats.member_pods.values()} == {1}
    assert uids(members) == before


def test_a_restart_has_ended_when_the_probes_have_read_so(
    members: Members, cluster: Kubelets
) -> None:
    members.come()
    members.act("restarted")
    ends = [words for words in cluster.written if words["lives"] == "no"]
    assert {words["ready"] for words in ends} == {"no"}, "or it is ready before it is to live on"
    assert {words["lives"] for words in cluster.words.values()} == {"yes"}


def test_a_container_that_was_never_restarted_is_no_restart(
    members: Members, cluster: Kubelets
) -> None:
    members.come()
    cluster.restarts = False
    with pytest.raises(EnvironmentBroken, match="is not restarted in time"):
        members.act("restarted")


def test_pods_before_their_containers_have_an_address_and_no_seat(
    members: Members, cluster: Kubelets
) -> None:
    members.come()
    members.act("gone")
    members.act("begin")
    assert members.seats.members == {}
    assert all("initContainers" in pod["spec"] for pod in cluster.pods.values())
    members.act("begun")
    assert {seat.ready for seat in members.seats.members.values()} == {True}


def test_pods_that_end_slowly_stay_and_are_known_to_end(
    members: Members, cluster: Kubelets
) -> None:
    members.last = True
    members.come()
    members.act("ending")
    assert len(cluster.pods) == 2, "their hook lasts"
    assert all(
        "preStop" in pod["spec"]["containers"][0]["lifecycle"] for pod in cluster.pods.values()
    )
    assert {pod.is_ending for pod in members.seats.member_pods.values()} == {True}
    assert {seat.ready for seat in members.seats.members.values()} == {False}


def test_pods_that_fail_are_nobody_until_they_come_again(
    members: Members, cluster: Kubelets
) -> None:
    members.fail = True
    members.come()
    before = uids(members)
    members.act("failed")
    assert {cluster.status(name)["phase"] for name in cluster.pods} == {"Failed"}
    assert (members.seats.members, members.seats.member_pods) == ({}, {})
    members.act("again")
    assert len(uids(members) - before) == 2


def test_pods_that_succeed_were_ready_and_are_nobody_until_they_come_again(
    members: Members, cluster: Kubelets
) -> None:
    members.come()
    members.act("gone")
    members.act("succeeded")
    assert {cluster.status(name)["phase"] for name in cluster.pods} == {"Succeeded"}
    assert (members.seats.members, members.seats.member_pods) == ({}, {})
    members.act("again")
    assert {cluster.status(name)["phase"] for name in cluster.pods} == {"Running"}
    assert {seat.ready for seat in members.seats.members.values()} == {True}


def test_labels_of_the_story_are_those_of_pods_that_come_later(
    members: Members, cluster: Kubelets
) -> None:
    members.labels = {"m.linux": {"role": "friend"}}
    members.come()
    assert {name: pod["metadata"]["labels"]["role"] for name, pod in cluster.pods.items()} == {
        "member-linux-1": "friend", "member-windows-1": "member"
    }  # fmt: skip


@pytest.mark.parametrize("event", sorted(set(TURNS) - {"come", "gone", "evicted"}))
def test_an_event_without_effect_is_told(members: Members, cluster: Kubelets, event: str) -> None:
    members.come()
    if event in ("begin", "succeeded"):
        members.act("gone")
    members.seats.members.clear() if event in ("begun", "ready") else None
    cluster.asleep = True
    with pytest.raises(EnvironmentBroken, match="in time"):
        members.act(event)
