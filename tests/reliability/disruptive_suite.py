"""A suite that changes a cluster beyond its own namespaces, in every way that the journal knows, at leisure."""

import time

import pytest

from conformance.expect.traffic import Expect
from conformance.journal import Journalled
from conformance.marks import verifies
from conformance.model.change import ObjectRef
from conformance.model.facts import Facts
from conformance.pods.host_pods import HostPods
from conformance.pods.worker_pods import WorkerPods

FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
PAUSE = 0.3
"""s.  Between two steps, so that runs can be killed in each of them."""


@pytest.mark.parametrize("number", range(3))
@verifies("VXLAN-9", part="{number}", active=True)
def test_changes_everything_that_can_be_put_back(
    number: int, facts: Facts, journalled: Journalled, host_pods: HostPods, worker_pods: WorkerPods
) -> None:
    worker_pods.get("linux-client", "windows-server")
    node = facts.by_os("windows")[-1].name
    journalled.patch(FELIX, {"spec": {"logSeverityScreen": "Debug", "healthTimeoutOverrides": None}}, "a test")
    time.sleep(PAUSE)
    journalled.patch(ObjectRef(api_version="v1", kind="Node", name=node), {"spec": {"unschedulable": True}}, "cordon")
    host_pods.on(node)
    time.sleep(PAUSE)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"made-{number}", "namespace": "default"}}
    journalled.create(body, "a test")
    patch = {"metadata": {"annotations": {"example.org/disrupted": str(number)}}}
    journalled.patch(FELIX, patch, "a test")
    time.sleep(PAUSE)


@verifies("VXLAN-3")
def test_shares_the_cluster(worker_pods: WorkerPods, expect: Expect) -> None:
    client, server = worker_pods.get("linux-client", "windows-server")
    expect.reachable(client, server.tcp(80), because="nothing that is changed here concerns it")
