"""A restart of Felix is over when a new pod is ready and the known-good probe was good; everything less is told."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.disrupt.felix import Felix
from conformance.errors import EnvironmentBroken, MissingCapability


def felix(cluster: Any, patience: Any, clock: Any) -> Felix:
    def os_of(node: str) -> Any:
        return "windows" if node.startswith("w") else "linux"

    return Felix(cluster, cluster, os_of, lambda os: patience, clock=clock)


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


def test_a_pod_restarted_in_place_counts(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.stubborn.add("felix-w")
    pod = cluster.pods[0]
    asked = []

    def objects(*_: Any, **__: Any) -> list[Any]:
        asked.append(1)
        again = {**pod, "status": {**pod["status"], "containerStatuses": [{"name": "felix", "restartCount": 1}]}}
        return [again if len(asked) > 4 else pod]

    cluster.objects = objects
    assert felix(cluster, patience, clock).restart("w1").after.endswith("1 restarts")


def test_the_same_pod_still_ready_is_no_restart(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.stubborn.add("felix-w")
    with pytest.raises(EnvironmentBroken, match=r"Felix on node w1 is not back 20 s after its pod felix-w was deleted"):
        felix(cluster, patience, clock).restart("w1")


def test_a_successor_that_is_not_ready_is_shown(cluster: Any, patience: Any, clock: Any) -> None:
    def broken(old: Any, number: int) -> Any:
        waiting = {"name": "felix", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        status = {"phase": "Running", "containerStatuses": [waiting]}
        return {**old, "metadata": {**old["metadata"], "name": "felix-new", "uid": "n"}, "status": status}

    cluster.brought_back = broken
    with pytest.raises(EnvironmentBroken, match=r"felix-new, .*CrashLoopBackOff"):
        felix(cluster, patience, clock).restart("w1")


def test_a_probe_that_is_not_good_is_not_hidden(cluster: Any, patience: Any, clock: Any) -> None:
    def bad() -> None:
        raise EnvironmentBroken("nothing gets through")

    with pytest.raises(EnvironmentBroken, match="nothing gets through"):
        felix(cluster, patience, clock).restart("w1", known_good=bad)


def test_a_felix_without_a_pod_cannot_be_restarted(cluster: Any, patience: Any, clock: Any) -> None:
    with pytest.raises(MissingCapability, match=r"Felix on node w9 runs in no pod .* by its operator"):
        felix(cluster, patience, clock).restart("w9")
    assert cluster.log == []


def test_a_restart_whose_end_nobody_saw_is_waited_for_later(cluster: Any, patience: Any, clock: Any) -> None:
    old = cluster.pods[0]
    ends = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "now"}}
    asked: list[int] = []
    cluster.brought_back = lambda old, number: None
    one = felix(cluster, patience, clock)
    with pytest.raises(EnvironmentBroken, match="no pod"):
        one.restart("w1")
    assert cluster.noted == ["felix-restart {'node': 'w1'}"]
    with pytest.raises(EnvironmentBroken, match="Felix on node w1 is not back in 20 s: no pod"):
        one.back("w1")

    def objects(*_: Any, **__: Any) -> list[Any]:
        asked.append(1)
        return [[ends], [], [old]][(len(asked) - 1) // 2]  # asked of two namespaces each time

    cluster.objects = objects
    one.back("w1")
    assert len(asked) == 6
