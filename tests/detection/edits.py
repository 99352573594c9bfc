"""Changes of a running lab through its API, as a careless administrator makes them; each is taken back afterwards."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes import config

AFFINITIES = "/apis/crd.projectcalico.org/v1/blockaffinities"
FINALIZER = "detection.example/never"


class Api:
    """Plain requests to one lab."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = config.new_client_from_config(str(kubeconfig))

    def __call__(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """One request; the decoded answer.  Raises ApiException."""
        headers = {"Content-Type": kind, "Accept": "application/json"}
        return self._client.call_api(
            path, method, header_params=headers, body=body, response_type="object", auth_settings=["BearerToken"],
            _return_http_data_only=True,
        )  # fmt: skip

    def merge(self, path: str, body: Any) -> Any:
        """A merge patch."""
        return self("PATCH", path, body, "application/merge-patch+json")

    def watch(self, path: str, stop: threading.Event) -> Iterator[Any]:
        """Objects as they are added, those that are there included, until ``stop``."""
        while not stop.is_set():
            answer = self._client.call_api(
                path, "GET", query_params=[("watch", "true"), ("timeoutSeconds", "2")], response_type="object",
                auth_settings=["BearerToken"], _preload_content=False, _return_http_data_only=True,
            )  # fmt: skip
            rest = b""
            for chunk in answer.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ADDED":
                        yield event["object"]


@contextmanager
def on_each(api: Api, path: str, do: Callable[[Any], None]) -> Iterator[None]:
    """Do something with every object as soon as it is there, once."""
    stop, seen, trouble = threading.Event(), set(), []

    def work() -> None:
        try:
            for obj in api.watch(path, stop):
                if obj["metadata"]["uid"] not in seen:
                    seen.add(obj["metadata"]["uid"])
                    do(obj)
        except Exception as error:
            trouble.append(error)

    thread = threading.Thread(target=work, name="edits during the run")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
    if trouble:
        raise trouble[0]


def _affinity(api: Api, node: str) -> Any:
    return next(one for one in api("GET", AFFINITIES)["items"] if one["spec"]["node"] == node)


@contextmanager
def strict_affinity_off(api: Api) -> Iterator[None]:
    """IPAMConfiguration default: strictAffinity false, after everything was set up well."""
    path = "/apis/projectcalico.org/v3/ipamconfigurations/default"
    api.merge(path, {"spec": {"strictAffinity": False}})
    yield
    api.merge(path, {"spec": {"strictAffinity": True}})


@contextmanager
def second_block(api: Api) -> Iterator[None]:
    """A second confirmed block for a Windows node."""
    one = _affinity(api, "windows-2022")
    spec = {**one["spec"], "cidr": "192.168.250.0/26"}
    name = "windows-2022-192-168-250-0-26"
    api(
        "POST",
        AFFINITIES,
        {"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": {"name": name}, "spec": spec},
    )
    yield
    api("DELETE", f"{AFFINITIES}/{name}")


@contextmanager
def block_moved(api: Api) -> Iterator[None]:
    """A Windows node's block affinity names another block than the one that its pods have their addresses from."""
    one = _affinity(api, "windows-2022")
    name = one["metadata"]["name"]
    api.merge(f"{AFFINITIES}/{name}", {"spec": {"cidr": "192.168.250.0/26"}})
    yield
    api.merge(f"{AFFINITIES}/{name}", {"spec": {"cidr": one["spec"]["cidr"]}})


@contextmanager
def scheduler_on_windows(api: Api) -> Iterator[None]:
    """A pod of the control plane runs on a Windows node."""
    name = "kube-scheduler-windows-2022"
    container = {"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.34.1"}
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"nodeName": "windows-2022", "containers": [container]},
    }  # fmt: skip
    api("POST", "/api/v1/namespaces/kube-system/pods", pod)
    yield
    api("DELETE", f"/api/v1/namespaces/kube-system/pods/{name}", {"gracePeriodSeconds": 0})


@contextmanager
def etcd_under_the_operator(api: Api) -> Iterator[None]:
    """calico-node of an operator's installation is told to use etcd."""
    path = "/apis/apps/v1/namespaces/calico-system/daemonsets/calico-node"
    before = api("GET", path)["spec"]["template"]["spec"]["containers"]
    first = {**before[0], "env": [e for e in before[0].get("env") or [] if e["name"] != "DATASTORE_TYPE"]}
    first["env"] = [*first["env"], {"name": "DATASTORE_TYPE", "value": "etcdv3"}]
    api.merge(path, {"spec": {"template": {"spec": {"containers": [first, *before[1:]]}}}})
    yield
    api.merge(path, {"spec": {"template": {"spec": {"containers": before}}}})


@contextmanager
def foreign_policy_denies_ingress(api: Api) -> Iterator[None]:
    """A GlobalNetworkPolicy that is not the suite's denies ingress to every pod of the suite."""
    path = "/apis/projectcalico.org/v3/globalnetworkpolicies"
    body = {
        "apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkPolicy", "metadata": {"name": "company-wide"},
        "spec": {"namespaceSelector": "kubernetes.io/metadata.name contains 'calico-demo'", "types": ["Ingress"],
                 "order": 1, "ingress": [{"action": "Deny"}]},
    }  # fmt: skip
    api("POST", path, body)
    yield
    api("DELETE", f"{path}/company-wide")


@contextmanager
def pods_never_go(api: Api) -> Iterator[None]:
    """Every pod of a namespace that is filled to be deleted gets a finalizer that nobody removes."""
    held = []

    def hold(pod: Any) -> None:
        meta = pod["metadata"]
        if meta["namespace"].endswith("-farewell"):
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            api.merge(path, {"metadata": {"finalizers": [FINALIZER]}})
            held.append(path)

    with on_each(api, "/api/v1/pods", hold):
        yield
    for path in held:
        with contextlib.suppress(Exception):  # gone when the run never deleted it
            api.merge(path, {"metadata": {"finalizers": None}})


EDITS: dict[str, Callable[[Api], contextlib.AbstractContextManager[None]]] = {
    one.__name__: one
    for one in (
        strict_affinity_off,
        second_block,
        block_moved,
        scheduler_on_windows,
        etcd_under_the_operator,
        foreign_policy_denies_ingress,
        pods_never_go,
    )
}
