# SPDX-License-Identifier: Apache-2.0
"""If a pod was replaced by another, this explains the broken probe, and is no fault of the
probe."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.probe.prober import Prober
from tests.unit.conformance.probe.broken_execs import cut_when_asked


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"metadata": {"uid": "other"}}, "was replaced by another pod of the same name"),
        ({"metadata": {"uid": "uid-client", "deletionTimestamp": "now"}}, "is being deleted"),
        ({"status": {"phase": "Failed"}}, "is Failed"),
        (
            {"status": {"phase": "Running", "containerStatuses": [
                {"name": "agent", "restartCount": 2,
                 "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}},
            "restarted 2 times: agent: OOMKilled (exit code 137)",
        ),
    ],
)  # fmt: skip
def test_a_pod_that_changed_while_it_probed_is_the_environments_fault(
    *, change: dict[str, Any], named: str, prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    pod = {
        "metadata": {"uid": "uid-client"},
        "spec": {"nodeName": "w2"},
        "status": {"phase": "Running"},
    }
    agents.script = [lambda channel, _: cut_when_asked(channel, make)] * 50
    agents.pods["client"] = pod | change
    with pytest.raises(EnvironmentBroken) as caught:
        prober.observe([make.attempt(listening)])
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (None, "the cluster no longer has this node"),
        ({"metadata": {"deletionTimestamp": "now"}}, "it is being deleted"),
        (
            {
                "metadata": {},
                "spec": {
                    "taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]
                },
            },
            "the cluster autoscaler is removing it",
        ),
    ],
)
def test_a_pod_that_is_lost_with_its_node_is_no_error_but_what_the_cluster_lacks(
    *,
    node: Any,
    why: str,
    prober: Prober,
    api: Any,
    agents: Any,
    make: Any,
    listening: int,
    fakes_status: Any,
) -> None:
    gone = fakes_status(404, "NotFound", "gone")
    api.routes["GET /api/v1/namespaces/n/pods/.*"] = gone
    api.routes["GET /api/v1/nodes/w1"] = (200, node) if node else gone
    api.routes["GET /api/v1/nodes/.*"] = api.routes.pop(
        "GET /api/v1/nodes/.*"
    )  # the last to be looked at
    agents.script = [lambda channel, _: cut_when_asked(channel, make)] * 50
    words = f"node w1 was removed during the run: {why}; .*--nodes"
    with pytest.raises(MissingCapability, match=words):
        prober.observe([make.attempt(listening)])
    with pytest.raises(MissingCapability, match=words):
        prober.unchanged([make.workload()])


def test_pods_that_are_as_they_were_are_unchanged_and_a_lost_one_is_named(
    prober: Prober, agents: Any, make: Any, api: Any, fakes_status: Any
) -> None:
    prober.unchanged([make.workload()])
    api.routes["GET /api/v1/namespaces/n/pods/.*"] = fakes_status(404, "NotFound", "gone")
    with pytest.raises(EnvironmentBroken, match=r"n/client \(linux, node w1\) is gone"):
        prober.unchanged([make.workload()])
