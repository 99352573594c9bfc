# SPDX-License-Identifier: Apache-2.0
"""A restart of Felix is over when a new pod is ready and the known-good probe was good; everything less is told."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from conformance.disrupt.felix import Felix
from conformance.errors import ControlBroken, EnvironmentBroken, MissingCapability, ProbeBroken


def felix(cluster: Any, patience: Any, clock: Any, processes: Any = None) -> Felix:
    def os_of(node: str) -> Any:
        return "windows" if node.startswith("w") else "linux"

    return Felix(cluster, cluster, os_of, lambda os: patience, processes=processes, clock=clock)


@pytest.mark.parametrize(("node", "name"), [("w1", "felix-w"), ("l1", "felix-l")])
def test_the_nodes_own_pod_is_deleted_and_its_successor_awaited(
    cluster: Any, patience: Any, clock: Any, node: str, name: str
) -> None:
    probed: list[str] = []
    done = felix(cluster, patience, clock).restart(node, known_good=lambda: probed.append(node))
    assert cluster.log == [f"delete {name}"]
    assert done.before.startswith(f"{name},")
    assert done.after.startswith(f"{name}-2,")
    assert probed == [node]
    assert cluster.noted == []


def test_a_change_is_made_when_all_old_pods_are_gone_and_before_a_new_one_runs(
    cluster: Any, patience: Any, clock: Any
) -> None:
    keep, objects, calls = [*cluster.pods], cluster.objects, itertools.count(1)
    cluster.stubborn |= {"felix-w", "felix-l"}
    happens = {7: "felix-l gone", 9: "felix-w gone", 17: "both run again"}

    def slowly(*arguments: Any, **named: Any) -> Any:
        what = happens.get(next(calls), "")
        cluster.log += [what] if what else []
        cluster.pods = [pod for pod in cluster.pods if f"{pod['metadata']['name']} gone" != what]
        cluster.pods += [
            running(pod) for pod in keep if pod["metadata"]["name"].startswith("felix")
        ] * ("run" in what)
        return objects(*arguments, **named)

    cluster.objects = slowly
    back = felix(cluster, patience, clock).restart_around(
        ["w1", "l1"], lambda: cluster.log.append("change")
    )
    assert cluster.log == [
        "delete felix-w",
        "delete felix-l",
        "felix-l gone",
        "felix-w gone",
        "change",
        "both run again",
    ]
    assert [restart.node for restart in back] == ["w1", "l1"]
    assert cluster.noted == []


def running(old: Any) -> Any:
    """Return the pods that replace a pod."""
    name = f"{old['metadata']['name']}-new"
    status = old["status"] | {"containerStatuses": [{"name": "felix", "state": {"running": {}}}]}
    return {**old, "metadata": {**old["metadata"], "name": name, "uid": name}, "status": status}


def test_a_change_that_came_too_late_each_time_is_told_once_felix_is_back(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.brought_back = lambda old, number: running(old)
    done: list[str] = []
    with pytest.raises(
        ControlBroken, match="Felix on node w1 was back before the change was made, 3 times"
    ):
        felix(cluster, patience, clock).restart_around(
            ["w1"], lambda: done.append("change"), undone=lambda: done.append("undone")
        )
    assert done == ["change", "undone", "change", "undone", "change"]
    assert cluster.noted == []


def test_a_change_that_came_too_late_is_taken_back_and_made_again(
    cluster: Any, patience: Any, clock: Any
) -> None:
    done: list[str] = []
    came, starts = cluster.brought_back, cluster.pods[0]["status"]
    cluster.brought_back = lambda old, number: running(old)

    def undone() -> None:
        done.append("undone")
        cluster.brought_back = lambda old, number: {**came(old, number), "status": starts}

    back = felix(cluster, patience, clock).restart_around(
        ["w1"], lambda: done.append("change"), undone=undone
    )
    assert done == ["change", "undone", "change"]
    assert [restart.node for restart in back] == ["w1"]
    assert cluster.noted == []


def test_an_old_pod_that_stays_is_told_and_nothing_is_changed(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.stubborn.add("felix-w")
    with pytest.raises(
        EnvironmentBroken, match="pod felix-w with Felix of node w1 is still there 20 s after"
    ):
        felix(cluster, patience, clock).restart_around(["w1"], lambda: pytest.fail("changed"))


def test_a_pod_restarted_in_place_counts(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.stubborn.add("felix-w")
    pod = cluster.pods[0]
    asked = []

    def objects(*_: Any, **__: Any) -> list[Any]:
        asked.append(1)
        again = {
            **pod,
            "status": {
                **pod["status"],
                "containerStatuses": [{"name": "felix", "restartCount": 1}],
            },
        }
        return [again if len(asked) > 4 else pod]

    cluster.objects = objects
    assert felix(cluster, patience, clock).restart("w1").after.endswith("1 restarts")


def test_the_same_pod_still_ready_is_no_restart(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.stubborn.add("felix-w")
    with pytest.raises(
        EnvironmentBroken,
        match=r"a Ready pod in place of felix-w within 20 s of its restart by this",
    ):
        felix(cluster, patience, clock).restart("w1")


def test_a_successor_that_is_not_ready_is_shown(cluster: Any, patience: Any, clock: Any) -> None:
    def broken(old: Any, number: int) -> Any:
        waiting = {"name": "felix", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        status = {"phase": "Running", "containerStatuses": [waiting]}
        return {
            **old,
            "metadata": {**old["metadata"], "name": "felix-new", "uid": "n"},
            "status": status,
        }

    cluster.brought_back = broken
    with pytest.raises(
        EnvironmentBroken, match=r"observed felix-new, .*CrashLoopBackOff \([0-9]+ tries, 20.0 s\)"
    ):
        felix(cluster, patience, clock).restart("w1")


def test_a_probe_that_is_not_good_is_not_hidden(cluster: Any, patience: Any, clock: Any) -> None:
    def bad() -> None:
        raise EnvironmentBroken("nothing gets through")

    with pytest.raises(EnvironmentBroken, match="nothing gets through"):
        felix(cluster, patience, clock).restart("w1", known_good=bad)


def test_a_felix_without_a_pod_cannot_be_restarted(cluster: Any, patience: Any, clock: Any) -> None:
    with pytest.raises(
        MissingCapability, match=r"Felix on node w9 runs in no pod .* by its operator"
    ):
        felix(cluster, patience, clock).restart("w9")
    assert cluster.log == []


def test_a_restart_whose_end_nobody_saw_is_waited_for_later(
    cluster: Any, patience: Any, clock: Any
) -> None:
    old = cluster.pods[0]
    ends = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "now"}}
    asked: list[int] = []
    cluster.brought_back = lambda old, number: None
    one = felix(cluster, patience, clock)
    with pytest.raises(EnvironmentBroken, match="no pod"):
        one.restart("w1")
    assert cluster.noted == ["felix-restart {'node': 'w1'}"]
    with pytest.raises(EnvironmentBroken, match="Felix on node w1 is not back within 20 s: no pod"):
        one.back("w1")

    def objects(*_: Any, **__: Any) -> list[Any]:
        asked.append(1)
        return [[ends], [], [old]][(len(asked) - 1) // 2]  # asked of two namespaces each time

    cluster.objects = objects
    one.back("w1")
    assert len(asked) == 6


class Process:
    """Felix' process in a container: ended, it is started again, and some looks later it is ready."""

    def __init__(
        self, *, back_after: int = 2, breaks: str = "", on_look: Any = lambda: None
    ) -> None:
        self.number, self.ended, self.looks = 4072, 0, 0
        self.back_after, self.breaks, self.on_look = back_after, breaks, on_look

    def ids(self, pod: Any) -> set[int]:
        if self.breaks == "list":
            raise ProbeBroken("exec was refused")
        self.on_look()
        return {self.number + self.ended} if self.breaks != "none" else set()

    def end(self, pod: Any) -> None:
        if self.breaks == "end":
            raise ProbeBroken("Access is denied")
        self.ended += 1

    def ready(self, pod: Any) -> bool:
        self.looks += 1
        return self.looks > self.back_after


def test_its_process_alone_is_ended_where_that_is_possible(
    cluster: Any, patience: Any, clock: Any
) -> None:
    process = Process()
    (done,) = felix(cluster, patience, clock, process).restart_each(["w1"])
    assert (done.before, done.after, done.note) == (
        "felix-w, process 4072",
        "felix-w, process 4073",
        "",
    )
    assert (cluster.log, cluster.noted, process.ended) == ([], [], 1)
    assert done.seconds == pytest.approx(2 * patience.poll_every)


@pytest.mark.parametrize(
    ("breaks", "why"),
    [
        ("list", "exec was refused"),
        ("none", "no process of Felix is found in pod felix-w"),
        ("end", "Access is denied"),
    ],
)
def test_its_pod_is_deleted_where_its_process_is_out_of_reach_and_the_restart_says_why(
    cluster: Any, patience: Any, clock: Any, breaks: str, why: str
) -> None:
    (done,) = felix(cluster, patience, clock, Process(breaks=breaks)).restart_each(["w1"])
    assert cluster.log == ["delete felix-w"]
    assert done.note == f"its pod was deleted, since {why}"


def test_a_process_that_does_not_come_back_is_told_and_stays_noted(
    cluster: Any, patience: Any, clock: Any
) -> None:
    with pytest.raises(
        EnvironmentBroken,
        match=r"Felix on node w1  expected a new process .*; the node stayed Ready",
    ):
        felix(cluster, patience, clock, Process(back_after=1000)).restart_each(["w1"])
    assert cluster.noted == ["felix-restart {'node': 'w1'}"]


def test_a_node_that_is_not_ready_meanwhile_is_waited_for_and_told(
    cluster: Any, patience: Any, clock: Any
) -> None:
    def ready(word: str) -> None:
        condition = {"type": "Ready", "status": word, "message": "cni plugin not initialized"}
        cluster.others["Node", "w1"]["status"] = {"conditions": [condition]}

    looked: list[int] = []

    def on_look() -> None:
        looked.append(1)
        ready("False" if len(looked) < 5 else "True")

    (done,) = felix(cluster, patience, clock, Process(on_look=on_look)).restart_each(["w1"])
    assert done.note == "node w1 was not Ready meanwhile: cni plugin not initialized"
    assert len(looked) > 5


def test_that_felix_ended_is_told_by_its_process_or_its_pod(
    cluster: Any, patience: Any, clock: Any
) -> None:
    found: list[set[int] | ProbeBroken] = [{7}, {7}, ProbeBroken("PowerShell did not start"), {9}]

    class Processes:
        def ids(self, pod: Any) -> set[int]:
            one = found.pop(0)
            if isinstance(one, ProbeBroken):
                raise one
            return one

    ended = felix(cluster, patience, clock, Processes()).watched("w1")
    told = [ended(), ended(), ended()]
    assert told[:2] == ["", ""]
    assert "process 9 (it was felix-w" in told[2]
    of_linux = felix(cluster, patience, clock).watched("l1")
    assert of_linux() == ""
    cluster.pods = [pod for pod in cluster.pods if pod["metadata"]["name"] != "felix-w"]
    cluster.pods[0]["status"]["containerStatuses"] = [{"restartCount": 1, "state": {}}]
    assert of_linux()
