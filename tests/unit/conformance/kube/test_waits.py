# SPDX-License-Identifier: Apache-2.0
"""Waits follow the watch, keep all observations, and give up early if waiting is useless."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from typing import Any

import pytest
from urllib3 import connection

from conformance.errors import EnvironmentBroken
from conformance.kube import pod_state, waits
from conformance.kube.client import Kube
from conformance.kube.refused import ApiRefused
from conformance.kube.waits import Waits
from conformance.model.change import ObjectRef
from tests.unit.conformance.builders import a_pod

PODS = "/api/v1/namespaces/n/pods"


def pod(
    *, ready: bool = False, waiting: dict[str, str] | None = None, name: str = "p", **meta: Any
) -> dict[str, Any]:
    state = {"waiting": waiting} if waiting else {"running": {}}
    container = {"name": "client", "image": "servercore:nope", "state": state}
    status = {"phase": "Pending", "containerStatuses": [container]}
    meta = {"namespace": "n", "uid": "u"} | meta
    return a_pod(name, "win-1", owner="", ready=ready, status=status, **meta)


def serve(api: Any, fakes: Any, first: dict[str, Any], *events: tuple[str, dict[str, Any]]) -> None:
    def answer(request: Any) -> Any:
        if request.query.get("watch") != "true":
            return fakes.listing(first)
        lines = [json.dumps({"type": kind, "object": one}) for kind, one in events]
        return 200, ("\n".join(lines) + "\n").encode()

    api.routes[f"GET {PODS}"] = answer


def test_pods_that_become_ready_on_the_watch_are_returned_and_each_state_is_told(
    kube: Kube, api: Any, fakes: Any
) -> None:
    creating = pod(waiting={"reason": "ContainerCreating"})
    serve(
        api,
        fakes,
        creating,
        ("MODIFIED", creating),
        ("BOOKMARK", {"metadata": {}}),
        ("MODIFIED", pod(ready=True)),
    )
    told: list[str] = []
    ready = Waits(kube).pods_ready("n", "app=x", 1, within=5, progress=told.append)
    assert [item["metadata"]["name"] for item in ready] == ["p"]
    assert told == ["p client ContainerCreating", "p Ready"]


def test_an_image_that_cannot_be_pulled_ends_the_wait_at_once_with_the_events_text(
    kube: Kube, api: Any, fakes: Any
) -> None:
    serve(
        api,
        fakes,
        pod(waiting={"reason": "ErrImagePull", "message": "no match for platform in manifest"}),
    )
    event = {"type": "Warning", "reason": "Failed", "message": 'Failed to pull image "servercore:nope"',
             "metadata": {"name": "e"}, "involvedObject": {"uid": "u"}}  # fmt: skip
    api.routes["GET /api/v1/namespaces/n/events"] = fakes.listing(event)
    with pytest.raises(EnvironmentBroken) as caught:
        Waits(kube).pods_ready("n", "app=x", 1, within=60)
    text = str(caught.value)
    assert text.startswith(
        "pod n/p (win-1): image servercore:nope cannot be pulled: ErrImagePull: no match for platform"
    )
    assert '\n  event   Failed: Failed to pull image "servercore:nope"' in text


def test_a_busy_registry_is_waited_for(kube: Kube, api: Any, fakes: Any) -> None:
    busy = pod(waiting={"reason": "ErrImagePull", "message": "connection reset by peer"})
    serve(api, fakes, busy, ("MODIFIED", pod(ready=True)))
    assert Waits(kube).pods_ready("n", "app=x", 1, within=5)


def test_a_pod_whose_node_died_is_not_waited_for(
    kube: Kube, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "LOOK_AT_NODE", 0.05)
    serve(api, fakes, pod(waiting={"reason": "ContainerCreating"}))
    with pytest.raises(EnvironmentBroken, match="node win-1 was lost"):
        Waits(kube).pods_ready(
            "n", "app=x", 1, within=60, lost=lambda: EnvironmentBroken("node win-1 was lost")
        )


def test_a_pod_that_terminates_does_not_count(kube: Kube, api: Any, fakes: Any) -> None:
    going = pod(ready=True, deletionTimestamp="now")
    serve(api, fakes, going, ("MODIFIED", going))
    with pytest.raises(EnvironmentBroken, match="0 of 1 pods"):
        Waits(kube).pods_ready("n", "app=x", 1, within=0.1)


def test_pods_that_do_not_become_ready_in_time_are_named_with_all_states_seen(
    kube: Kube, api: Any, fakes: Any
) -> None:
    stuck = pod()
    stuck["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/6 nodes are available",
        }
    ]
    serve(api, fakes, stuck)
    with pytest.raises(
        EnvironmentBroken,
        match=r"(?s)0 of 1 pods .*Unschedulable: 0/6 nodes are available.*observed  \+0\.\d s",
    ):
        Waits(kube).pods_ready("n", "app=x", 1, within=0.1)


def test_an_object_that_goes_on_the_watch_is_gone(kube: Kube, api: Any, fakes: Any) -> None:
    serve(api, fakes, pod(), ("DELETED", pod()))
    Waits(kube).gone(ObjectRef(api_version="v1", kind="Pod", name="p", namespace="n"), within=5)


def test_an_object_replaced_by_another_of_its_name_is_gone(
    kube: Kube, api: Any, fakes: Any
) -> None:
    serve(api, fakes, pod(), ("MODIFIED", pod(uid="other")))
    Waits(kube).gone(ObjectRef(api_version="v1", kind="Pod", name="p", namespace="n"), within=5)


def test_an_object_that_stays_is_named_with_its_finalizers(
    kube: Kube, api: Any, fakes: Any
) -> None:
    serve(api, fakes, pod(finalizers=["example.org/stuck"]))
    with pytest.raises(EnvironmentBroken, match=r"example\.org/stuck"):
        Waits(kube).gone(
            ObjectRef(api_version="v1", kind="Pod", name="p", namespace="n"), within=0.1
        )


def test_a_watch_that_is_too_old_lists_again(kube: Kube, api: Any, fakes: Any) -> None:
    expired = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    answers = [
        fakes.listing(pod()), (200, (json.dumps(expired) + "\n").encode()), fakes.listing(pod(ready=True)),
    ]  # fmt: skip
    api.routes[f"GET {PODS}"] = lambda _: answers.pop(0)
    assert Waits(kube).pods_ready("n", "app=x", 1, within=5)


NAMELESS: tuple[Any, ...] = ({"metadata": {}}, {"kind": "Pod"}, {"metadata": None}, "text", None)


@pytest.mark.parametrize("nameless", NAMELESS, ids=str)
def test_an_event_without_a_name_is_a_broken_answer_and_the_objects_are_listed_again(
    kube: Kube, api: Any, fakes: Any, nameless: Any
) -> None:
    event = {"type": "MODIFIED", "object": nameless}
    answers = [
        fakes.listing(pod()),
        (200, (json.dumps(event) + "\n").encode()),
        fakes.listing(pod(ready=True)),
    ]
    api.routes[f"GET {PODS}"] = lambda _: answers.pop(0)
    assert Waits(kube).pods_ready("n", "app=x", 1, within=5)


@pytest.mark.parametrize("nameless", NAMELESS, ids=str)
def test_a_list_with_an_object_without_a_name_is_told_in_one_line(
    kube: Kube, api: Any, fakes: Any, nameless: Any
) -> None:
    kube.timings = replace(kube.timings, api_retry=0.1)
    api.routes[f"GET {PODS}"] = fakes.listing(nameless)
    with pytest.raises(ApiRefused) as caught:
        Waits(kube).pods_ready("n", "app=x", 1, within=5)
    assert str(caught.value).startswith(
        f"GET {PODS}: not an answer from a Kubernetes API server (an object without a name: "
    )
    assert "\n" not in str(caught.value)


def test_a_container_that_crashes_is_named_with_the_end_of_its_log(
    kube: Kube, api: Any, fakes: Any
) -> None:
    crashed = pod(waiting={"reason": "CrashLoopBackOff", "message": "back-off 10s"})
    crashed["status"]["containerStatuses"][0]["restartCount"] = 2
    serve(api, fakes, crashed)
    api.routes["GET /api/v1/namespaces/n/pods/p/log"] = (
        200,
        b"Traceback\nPermission denied: port 80\n",
    )
    with pytest.raises(EnvironmentBroken) as caught:
        Waits(kube).pods_ready("n", "app=x", 1, within=0.1)
    first = str(caught.value).splitlines()[0]
    assert (
        first
        == "0 of 1 pods ready after 0 s: pod n/p (win-1): client CrashLoopBackOff: back-off 10s"
    )
    assert "\n  log     Permission denied: port 80" in str(caught.value)
    assert api.requests[-1].query["previous"] == "true"


def refusing(api: Any, fakes: Any, *conditions: dict[str, str]) -> None:
    api.routes[f"GET {PODS}"] = lambda request: (
        fakes.listing() if request.query.get("watch") != "true" else (200, b"")
    )
    sets = [{"metadata": {"name": "x-1"}, "status": {"conditions": list(conditions)}}]
    api.routes["GET /apis/apps/v1/namespaces/n/replicasets"] = fakes.listing(*sets)


def test_pods_that_admission_refuses_are_named_with_its_words_before_the_time_is_over(
    kube: Kube, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "LOOK_AGAIN", 0.05)
    refusing(api, fakes, {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                          "message": 'pods "x-1" is forbidden: exceeded quota: memory'})  # fmt: skip
    with pytest.raises(
        EnvironmentBroken,
        match=r'0 of 1 pods with app=x in n were created after .*FailedCreate: pods "x-1" is forbidden: exceeded quota',
    ):
        Waits(kube).pods_ready("n", "app=x", 1, within=30)
    asked = [request for request in api.requests if request.path.endswith("/replicasets")]
    assert len(asked) == 2, (
        "it is believed when it was said twice, and not asked until the time is over"
    )


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([{"reason": "FailedCreate", "message": "exceeded quota: compute", "count": 3}], True),
        ([{"reason": "FailedCreate", "message": "webhook is replaced", "count": 1}], False),
        ([{"reason": "SuccessfulCreate", "message": "Created pod", "count": 3}], False),
    ],
)
def test_a_daemonset_that_may_not_make_its_pods_is_named_by_its_events(
    kube: Kube, api: Any, fakes: Any, events: list[dict[str, Any]], told: bool
) -> None:
    refusing(api, fakes)
    api.routes["GET /apis/apps/v1/namespaces/n/replicasets"] = fakes.listing()
    api.routes["GET /apis/apps/v1/namespaces/n/deployments"] = fakes.listing()
    made = {"metadata": {"name": "pulls", "namespace": "n", "uid": "u"}}
    api.routes["GET /apis/apps/v1/namespaces/n/daemonsets"] = fakes.listing(made)
    of_set = [
        {**event, "involvedObject": {"name": "pulls", "uid": "u"}, "metadata": {"name": "e"}}
        for event in events
    ]
    api.routes["GET /api/v1/namespaces/n/events"] = fakes.listing(*of_set)
    expected = "FailedCreate: exceeded quota: compute" if told else ""
    assert Waits(kube).refusal("n", "app=x") == expected


def test_a_deployment_that_may_not_make_its_replicaset_is_named_within_ten_seconds(
    kube: Kube, api: Any, fakes: Any
) -> None:
    refusing(api, fakes)
    api.routes["GET /apis/apps/v1/namespaces/n/replicasets"] = fakes.listing()
    condition = {"type": "Progressing", "status": "False", "reason": "ReplicaSetCreateError",
                 "message": 'failed calling webhook "policy.example": refused'}  # fmt: skip
    made = {"metadata": {"name": "x"}, "status": {"conditions": [condition]}}
    api.routes["GET /apis/apps/v1/namespaces/n/deployments"] = fakes.listing(made)
    began = time.monotonic()
    with pytest.raises(
        EnvironmentBroken, match=r"ReplicaSetCreateError: failed calling webhook \"policy.example\""
    ):
        Waits(kube).pods_ready("n", "app=x", 1, within=60)
    assert time.monotonic() - began < 10


def test_pods_that_are_only_late_are_waited_for(
    kube: Kube, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "LOOK_AGAIN", 0.05)
    refusing(api, fakes)
    with pytest.raises(
        EnvironmentBroken, match=r"0 of 1 pods ready after 0 s: number of pods with app=x in n: 0"
    ):
        Waits(kube).pods_ready("n", "app=x", 1, within=0.3)


def test_a_pod_for_which_there_is_no_node_is_given_up_in_the_schedulers_words(
    kube: Kube, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "LOOK_AGAIN", 0.05)
    kube.timings = replace(kube.timings, unschedulable=0.1)
    stuck = pod()
    stuck["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/6 nodes: taint a=b",
        }
    ]
    serve(api, fakes, stuck)
    with pytest.raises(
        EnvironmentBroken, match=r"^pod n/p \(win-1\): Unschedulable: 0/6 nodes: taint a=b"
    ):
        Waits(kube).pods_ready("n", "app=x", 1, within=10)


@pytest.fixture
def served(kube: Kube, api: Any, fakes: Any) -> tuple[Kube, Any, Any]:
    return kube, api, fakes


BY_NAME = {
    "nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["win-1"]}]}
    ]
}
CORDONED = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ({"unschedulable": True, "taints": CORDONED}, ", node win-1 is cordoned"),
        ({"taints": [{"key": "gpu", "value": "1", "effect": "NoExecute"}]}, ", node win-1 is tainted gpu=1:NoExecute"),
        ({"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]}, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "pinned",
    [
        {"nodeSelector": {"kubernetes.io/hostname": "win-1"}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": BY_NAME}}},
    ],
)
def test_of_a_pod_without_a_node_it_is_told_why_the_one_that_it_is_made_for_takes_none(
    served: tuple[Kube, Any, Any], node: dict[str, Any], told: str, pinned: dict[str, Any]
) -> None:
    kube, api, fakes = served
    stuck = pod()
    stuck["spec"] = {"tolerations": [{"key": "os", "operator": "Exists"}], **pinned}
    nodes = [{"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": node}
             for name in ("win-1", "win-2")]  # fmt: skip
    api.routes["GET /api/v1/nodes"] = fakes.listing(*nodes)
    serve(api, fakes, stuck)
    never: dict[str, Any] = {"enough": lambda _: False, "what": "have an address"}
    for wanted in ({}, never):
        with pytest.raises(EnvironmentBroken) as caught:
            Waits(kube).pods_ready("n", "app=x", 1, within=0.1, **wanted)
        assert f"pod n/p (no node yet{told}): " in str(caught.value).partition("\n")[0]


def test_a_pull_that_stalls_is_named_with_its_image_whatever_is_waited_for(
    kube: Kube, api: Any, fakes: Any
) -> None:
    serve(api, fakes, pod(waiting={"reason": "ContainerCreating"}))
    event = {"type": "Normal", "reason": "Pulling", "message": 'Pulling image "servercore:nope"',
             "metadata": {"name": "e"}, "involvedObject": {"uid": "u"}}  # fmt: skip
    api.routes["GET /api/v1/namespaces/n/events"] = fakes.listing(event)
    told = (
        r"^0 of 1 pods have an address after 0 s: pod n/p \(win-1\): client ContainerCreating: "
        r'its image is still being pulled \(Pulling image "servercore:nope"\)'
    )
    with pytest.raises(EnvironmentBroken, match=told):
        Waits(kube).pods_ready(
            "n", "app=x", 1, within=0.1, enough=lambda _: False, what="have an address"
        )


def test_a_pod_that_its_kubelet_evicted_does_not_count_beside_the_one_in_its_place(
    kube: Kube, api: Any, fakes: Any
) -> None:
    evicted = pod(name="old", ownerReferences=[{"kind": "ReplicaSet"}])
    evicted["status"] |= {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
    }
    api.routes[f"GET {PODS}"] = fakes.listing(evicted, pod(ready=True))
    (found,) = Waits(kube).pods_ready("n", "app=x", 1, within=5)
    assert found["metadata"]["name"] == "p"
    assert pod_state.pod_state(evicted) == "Failed, Evicted: The node was low on resource: memory."


def test_a_watch_that_was_dropped_silently_costs_one_watch_and_not_the_whole_wait(
    kube: Kube, api: Any, fakes: Any
) -> None:
    kube.timings = replace(kube.timings, watch=0.2)
    lists = [fakes.listing(pod()), fakes.listing(pod(ready=True))]

    def answer(request: Any) -> Any:
        if request.query.get("watch") != "true":
            return lists.pop(0)
        time.sleep(6.0)  # longer than one watch lasts: nothing is heard
        return 200, b""

    api.routes[f"GET {PODS}"] = answer
    began = time.monotonic()
    assert Waits(kube).pods_ready("n", "app=x", 1, within=60)
    assert time.monotonic() - began < 5


def test_watches_ask_for_bookmarks(kube: Kube, api: Any, fakes: Any) -> None:
    serve(api, fakes, pod(), ("MODIFIED", pod(ready=True)))
    Waits(kube).pods_ready("n", "app=x", 1, within=5)
    assert api.requests[-1].query["allowWatchBookmarks"] == "true"


def test_the_connection_of_a_watch_is_kept_alive_by_the_system(
    kube: Kube, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that would forget an idle connection hears of it, and one that has forgotten it is found out."""
    alive: list[int] = []
    connect = connection.HTTPConnection.connect

    def noting(self: connection.HTTPConnection) -> None:
        connect(self)
        alive.append(self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    monkeypatch.setattr(connection.HTTPConnection, "connect", noting)
    serve(api, fakes, pod(), ("MODIFIED", pod(ready=True)))
    Waits(kube).pods_ready("n", "app=x", 1, within=5)
    assert set(alive) == {1}


def test_one_watch_lasts_a_minute_at_most_although_the_wait_is_longer(
    kube: Kube, api: Any, fakes: Any
) -> None:
    serve(api, fakes, pod(), ("MODIFIED", pod(ready=True)))
    Waits(kube).pods_ready("n", "app=x", 1, within=1500)
    asked = [
        int(request.query["timeoutSeconds"])
        for request in api.requests
        if request.query.get("watch") == "true"
    ]
    assert asked == [60]


def test_a_container_that_runs_and_is_not_ready_is_named_with_since_when() -> None:
    late = pod()
    late["status"]["containerStatuses"][0]["state"] = {
        "running": {"startedAt": "2026-11-26T10:00:00Z"}
    }
    told = "client has run since 2026-11-26T10:00:00Z, but its readiness probe has not passed"
    assert pod_state.pod_state(late) == f"Pending, not ready: {told}"
    late["status"]["containerStatuses"][0]["ready"] = True
    assert pod_state.pod_state(late) == "Pending, not ready"


def with_sysctls(asked: str, *given: str) -> dict[str, Any]:
    meta = {
        "name": "p",
        "namespace": "n",
        "annotations": {pod_state.SYSCTLS: asked} if asked else {},
    }
    sysctls = [{"name": name, "value": "0"} for name in given]
    return {"metadata": meta, "spec": {"securityContext": {"sysctls": sysctls} if given else None}}


@pytest.mark.parametrize(
    ("pod", "gone"),
    [
        (with_sysctls(""), ""),
        (with_sysctls("a,b", "a", "b", "c"), ""),
        (with_sysctls("a,b", "b"), "a"),
        (with_sysctls("a,b"), "a, b"),
    ],
)
def test_sysctls_that_admission_took_away_are_named(pod: dict[str, Any], gone: str) -> None:
    found = pod_state.hopeless(pod)
    assert found == pod_state.without_sysctls(pod)
    assert found.startswith(f"an admission webhook removed the pod's sysctls {gone}, without") is (
        gone != ""
    )


def test_a_pod_that_is_ready_without_its_sysctls_is_not_taken(
    kube: Kube, api: Any, fakes: Any
) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    pod = {**with_sysctls("net.ipv4.ping_group_range"), "status": ready}
    pod["metadata"]["uid"] = "u"
    api.routes[f"GET {PODS}"] = fakes.listing(pod)
    with pytest.raises(
        EnvironmentBroken,
        match=r"^pod n/p \(.*\): an admission webhook removed .* net.ipv4.ping_group_range, ",
    ):
        Waits(kube).pods_ready("n", "app=x", 1, within=5)
