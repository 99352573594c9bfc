# SPDX-License-Identifier: Apache-2.0
"""Events on a shared cluster during a run; each begins with an action of the run."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.detection.lab_api import ANSWER_WITHIN, Api, beside, on_each
from tests.detection.policies_of_others import (
    OF_RUNS,
    foreign_policy_may_allow_ingress,
    policies_of_others,
)

ANOTHER_BOOT = {"status": {"nodeInfo": {"bootID": "00000000-0000-4000-8000-000000000026"}}}
SERVICES = "/api/v1/services"
PODS, POLICIES = "/api/v1/pods", "/apis/networking.k8s.io/v1/networkpolicies"


def once(
    api: Api, path: str, wanted: Callable[[Any], bool], do: Callable[[Any], object]
) -> contextlib.AbstractContextManager[None]:
    """Call ``do`` as soon as a wanted object of the run exists, and stop watching first: the action
    may cut the watch."""

    def work(stop: threading.Event) -> None:
        for obj in api.watch(path, stop):
            if obj["metadata"]["namespace"].startswith("calico-demo") and wanted(obj):
                do(obj)
                return

    return beside(work)


def _anything(_: Any) -> bool:
    return True


def _inject(api: Api, fault: str, obj: Any, *, there: bool = False) -> None:
    space = [f"namespace={obj['metadata']['namespace']}"] if there else []
    command = [
        sys.executable,
        "-m",
        "hybridlab",
        "faults",
        "--kubeconfig",
        str(api.kubeconfig),
        "inject",
    ]
    subprocess.run(
        [*command, *fault.split(), *space], check=True, capture_output=True, timeout=ANSWER_WITHIN
    )


def requests_refused_as_pods_come(api: Api) -> contextlib.AbstractContextManager[None]:
    """After the run's first pod, answer requests about its namespace with 429 for 5 s."""
    return once(api, PODS, _anything, partial(_inject, api, "api-429 seconds=5", there=True))


def requests_refused_as_a_policy_comes(api: Api) -> contextlib.AbstractContextManager[None]:
    """After the run's first policy, answer requests about its namespace with 429 for 5 s."""
    return once(api, POLICIES, _anything, partial(_inject, api, "api-429 seconds=5", there=True))


def errors_as_a_policy_comes(api: Api) -> contextlib.AbstractContextManager[None]:
    """After the run's first policy, answer requests about its namespace with 500 for 5 s."""
    return once(api, POLICIES, _anything, partial(_inject, api, "api-500 seconds=5", there=True))


def unavailable_as_a_policy_comes(api: Api) -> contextlib.AbstractContextManager[None]:
    """After the run's first policy, answer all requests with 503 for 10 s."""
    return once(api, POLICIES, _anything, partial(_inject, api, "api-503 seconds=10"))


def api_server_restarts(api: Api) -> contextlib.AbstractContextManager[None]:
    """After the run's first policy, stop the API server for 5 s, which cuts all watches and
    execs."""
    return once(api, POLICIES, _anything, partial(_inject, api, "api-unreachable seconds=5"))


def pod_preempted(api: Api) -> contextlib.AbstractContextManager[None]:
    """After the run's first policy, remove a Windows server of the run, as if a pod of higher
    priority preempted it."""

    def take(policy: Any) -> None:
        path = f"/api/v1/namespaces/{policy['metadata']['namespace']}/pods"
        servers = api("GET", f"{path}?labelSelector=app%3Dwindows-server")["items"]
        api("DELETE", f"{path}/{servers[0]['metadata']['name']}", {"gracePeriodSeconds": 0})

    return once(api, POLICIES, _anything, take)


@contextmanager
def foreign_pod_waits(api: Api, node: str) -> Iterator[None]:
    """When the first pod that fills a Windows node is created, create a pod of another owner that
    waits for this node."""
    name = f"waits-for-{node}"
    pods = "/api/v1/namespaces/default/pods"
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{"key": "os", "operator": "Exists"}],
        "containers": [{"name": "main", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def fills(obj: Any) -> bool:
        is_pause = (obj["metadata"].get("labels") or {}).get("app") == "pause"
        return is_pause and node in str(obj["spec"].get("affinity"))

    with once(api, PODS, fills, lambda _: api("POST", pods, pod)):
        yield
    api("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})


def pulls_stall_as_a_policy_comes(api: Api) -> contextlib.AbstractContextManager[None]:
    """After the run's first policy, give new pods images of a mirror; no node has these images, and
    none can pull them."""

    def stall(policy: Any) -> None:
        for fault in ("admission does=mirror namespaces=calico-demo", "image-pull-stalls"):
            _inject(api, fault, policy)

    return once(api, POLICIES, _anything, stall)


@contextmanager
def node_cordoned(api: Api, node: str) -> Iterator[None]:
    """After the run's first policy, cordon a node."""
    path = f"/api/v1/nodes/{node}"
    with once(
        api, POLICIES, _anything, lambda _: api.merge(path, {"spec": {"unschedulable": True}})
    ):
        yield
    api.merge(path, {"spec": {"unschedulable": None}})


@contextmanager
def node_drained(api: Api, node: str) -> Iterator[None]:
    """After the run's first policy, cordon a node and evict its pods, as an upgrade of nodes
    does."""

    def drain(_: Any) -> None:
        api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
        for pod in api("GET", f"{PODS}?fieldSelector=spec.nodeName%3D{node}")["items"]:
            if pod["metadata"]["namespace"].startswith("calico-demo"):
                body = {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": pod["metadata"]["name"]},
                }
                path = "/api/v1/namespaces/{namespace}/pods/{name}/eviction".format(
                    **pod["metadata"]
                )
                api("POST", path, body)

    with once(api, POLICIES, _anything, drain):
        yield
    api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})


def policies_are_deleted(api: Api) -> contextlib.AbstractContextManager[None]:
    """Delete each policy of the run as soon as it exists, as a tool that keeps a cluster tidy
    does."""

    def delete(policy: Any) -> None:
        if policy["metadata"]["namespace"].startswith("calico-demo"):
            with contextlib.suppress(OSError):  # the run has already deleted it
                api("DELETE", "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/{name}".format(
                    **policy["metadata"]
                ))  # fmt: skip

    return on_each(api, POLICIES, delete)


@contextmanager
def quarantined_as_a_policy_comes(api: Api) -> Iterator[None]:
    """After the run's first policy, label its namespaces; an older policy denies everything for
    this label."""
    bad = {
        "namespaceSelector": "state == 'bad'",
        "types": ["Egress"],
        "order": 1,
        "egress": [{"action": "Deny"}],
    }

    def label(_: Any) -> None:
        for space in api("GET", "/api/v1/namespaces")["items"]:
            if space["metadata"]["name"].startswith("calico-demo"):
                path = f"/api/v1/namespaces/{space['metadata']['name']}"
                api.merge(path, {"metadata": {"labels": {"state": "bad"}}})

    with policies_of_others(api, "", quarantine=bad), once(api, POLICIES, _anything, label):
        yield


@contextmanager
def somebodys_policy_comes(api: Api) -> Iterator[None]:
    """After the run's first policy, create a lasting policy of another owner that may let pods
    in."""
    with contextlib.ExitStack() as stack:
        there = foreign_policy_may_allow_ingress(api)
        with once(api, POLICIES, _anything, lambda _: stack.enter_context(there)):
            yield


def somebodys_policy_flaps(api: Api) -> contextlib.AbstractContextManager[None]:
    """For 3 s out of every 9 s, apply a policy that allows all traffic of the run's pods."""
    allow = {"namespaceSelector": OF_RUNS, "types": ["Ingress", "Egress"], "order": 1}
    allow |= {"ingress": [{"action": "Allow"}], "egress": [{"action": "Allow"}]}

    def flap(stop: threading.Event) -> None:
        while not stop.wait(6):
            with policies_of_others(api, "", flapping=allow):
                stop.wait(3)

    return beside(flap)


@contextmanager
def labels_of_others(api: Api) -> Iterator[None]:
    """Add labels and annotations, such as those of a cost centre, to the run's pods and namespaces
    as soon as they exist."""
    added = {
        "labels": {"cost-centre": "4711", "team": "platform"},
        "annotations": {"policies.example/seen": "yes"},
    }

    def label(path: str, obj: Any) -> None:
        name = obj["metadata"].get("namespace") or obj["metadata"]["name"]
        if name.startswith("calico-demo"):
            with contextlib.suppress(OSError):  # the run has already deleted it
                api.merge(path.format(**obj["metadata"]), {"metadata": added})

    with (
        on_each(api, "/api/v1/namespaces", partial(label, "/api/v1/namespaces/{name}")),
        on_each(api, PODS, lambda pod: label("/api/v1/namespaces/{namespace}/pods/{name}", pod)),
    ):
        yield


def machine_replaced(api: Api, node: str) -> contextlib.AbstractContextManager[None]:
    """When the run's first pod is on the node, replace the node by another machine of the same
    name, with another boot id."""
    return _on_its_first_pod(
        api, node, lambda: api.merge(f"/api/v1/nodes/{node}/status", ANOTHER_BOOT)
    )


def node_made_anew(api: Api, node: str) -> contextlib.AbstractContextManager[None]:
    """When the run's first pod is on the node, delete the Node object; its machine registers again
    without a new boot."""

    def replace() -> None:
        path = f"/api/v1/nodes/{node}"
        old = api("GET", path)
        api("DELETE", path)
        kept = {name: old["metadata"][name] for name in ("name", "labels", "annotations")}
        api(
            "POST",
            "/api/v1/nodes",
            {"apiVersion": "v1", "kind": "Node", "metadata": kept, "spec": old["spec"]},
        )
        api.merge(f"{path}/status", {"status": old["status"]})

    return _on_its_first_pod(api, node, replace)


@contextmanager
def node_tainted(api: Api, node: str, key: str) -> Iterator[None]:
    """When the run's first pod is on the node, taint the node, as a controller does that knows that
    the node is down."""
    path = f"/api/v1/nodes/{node}"
    before = api("GET", path)["spec"].get("taints") or []
    taint = {"key": key, "effect": "NoSchedule"}
    with _on_its_first_pod(
        api, node, lambda: api.merge(path, {"spec": {"taints": [*before, taint]}})
    ):
        yield
    api.merge(path, {"spec": {"taints": before or None}})


def _on_its_first_pod(
    api: Api, node: str, do: Callable[[], object]
) -> contextlib.AbstractContextManager[None]:
    return once(api, PODS, lambda pod: bool(pod["spec"].get("nodeName") == node), lambda _: do())


@contextmanager
def network_plugin_not_ready(api: Api, node: str) -> Iterator[None]:
    """When a pod of the run runs on the node, make the node not Ready, because its network plugin
    is not ready."""

    def say(status: str, reason: str, message: str) -> None:
        told = {"status": status, "reason": reason, "message": message}
        there = api("GET", f"/api/v1/nodes/{node}")["status"]["conditions"]
        conditions = [one | told if one["type"] == "Ready" else one for one in there]
        api.merge(f"/api/v1/nodes/{node}/status", {"status": {"conditions": conditions}})

    def runs_there(pod: Any) -> bool:
        return bool(
            pod["spec"].get("nodeName") == node
            and (pod.get("status") or {}).get("phase") == "Running"
        )

    why = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message: cni is not there"
    with once(api, PODS, runs_there, lambda _: say("False", "KubeletNotReady", why)):
        yield
    say("True", "KubeletReady", "kubelet is posting ready status")


def servers_unready_as_a_service_comes(
    api: Api, conditions: str
) -> contextlib.AbstractContextManager[None]:
    """With the run's first Service, make its Windows servers unready: with ``Ready`` as if a
    readiness gate closed, with ``Ready,ContainersReady`` as if their applications hung."""

    def unready(service: Any) -> None:
        space = service["metadata"]["namespace"]
        for pod in api("GET", f"/api/v1/namespaces/{space}/pods")["items"]:
            if "windows-server" in pod["metadata"]["name"]:
                told = {"status": "False", "reason": "ContainersNotReady"}
                now = [
                    each | told if each["type"] in conditions.split(",") else each
                    for each in pod["status"]["conditions"]
                ]
                path = f"/api/v1/namespaces/{space}/pods/{pod['metadata']['name']}/status"
                api.merge(path, {"status": {"conditions": now}})

    return once(api, SERVICES, _anything, unready)


EDITS: dict[str, Callable[..., contextlib.AbstractContextManager[None]]] = {
    item.__name__: item
    for item in (
        requests_refused_as_pods_come,
        requests_refused_as_a_policy_comes,
        errors_as_a_policy_comes,
        unavailable_as_a_policy_comes,
        api_server_restarts,
        pod_preempted,
        foreign_pod_waits,
        pulls_stall_as_a_policy_comes,
        node_cordoned,
        node_drained,
        policies_are_deleted,
        quarantined_as_a_policy_comes,
        somebodys_policy_comes,
        somebodys_policy_flaps,
        labels_of_others,
        machine_replaced,
        node_made_anew,
        node_tainted,
        network_plugin_not_ready,
        servers_unready_as_a_service_comes,
    )
}
