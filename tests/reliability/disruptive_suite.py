# SPDX-License-Identifier: Apache-2.0
"""A suite that slowly changes a cluster outside its own namespaces, in every way that the journal
knows."""

import time

import pytest

from conformance.disrupt.felix import FELIX_RESTART
from conformance.disrupt.own_pool import CIDR
from conformance.expect.traffic import Expect
from conformance.journal import Journalled
from conformance.marks import verifies
from conformance.model.change import ObjectRef
from conformance.model.facts import Facts
from conformance.pods.host_pods import HostPods
from conformance.pods.worker_pods import WorkerPods

FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
PAUSE = 0.3
"""s. The pause between two steps, so that runs can be killed in each step."""


@pytest.mark.parametrize("number", range(3))
@verifies("VXLAN-9", part="{number}", active=True)
def test_changes_everything_that_can_be_put_back(
    number: int, facts: Facts, journalled: Journalled, host_pods: HostPods, worker_pods: WorkerPods
) -> None:
    worker_pods.get("linux-client", "windows-server")
    node = facts.by_os("windows")[-1].name
    host_pods.on(node)
    journalled.procedure(FELIX_RESTART.name, {"node": node}, "a test")
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 4097}}, "a test")
    time.sleep(PAUSE)
    journalled.patch(
        ObjectRef(api_version="v1", kind="Node", name=node),
        {"spec": {"unschedulable": True}},
        "cordon",
    )
    time.sleep(PAUSE)
    name = {"name": f"{journalled.changes.run.namespace}-pool-{number}"}
    spec = {
        "cidr": CIDR,
        "blockSize": 26,
        "disabled": True,
        "nodeSelector": "!all()",
        "natOutgoing": False,
    }
    body = {"apiVersion": FELIX.api_version, "kind": "IPPool", "metadata": name, "spec": spec}
    journalled.create(body, "a test")
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 4098}}, "a test")
    time.sleep(PAUSE)


@verifies("VXLAN-3")
def test_shares_the_cluster(worker_pods: WorkerPods, expect: Expect) -> None:
    client, server = worker_pods.get("linux-client", "windows-server")
    expect.reachable(client, server.tcp(80), because="nothing that is changed here concerns it")
